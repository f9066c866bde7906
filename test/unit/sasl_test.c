/*-------------------------------------------------------------------------
 *
 * sasl_test.c
 *	  Tests of sasl.c: the answers to what Cyrus SASL asks for, which is asked for here.
 *
 * With a library without SASL there is nothing to test.
 *
 *-------------------------------------------------------------------------
 */
#include "inside.h"
#include "tap.h"

#ifdef ZKLOCK_SASL

#include "wiped.h"

/* The functions of the answers, as Cyrus SASL calls them. */
typedef int (*Simple) (void *context, int id, const char **result, unsigned int *len);
typedef int (*Secret) (sasl_conn_t *conn, void *context, int id, sasl_secret_t **secret);
typedef int (*Log) (void *context, int level, const char *message);

#define AS(type, callback)	((type) (void (*) (void)) (callback)->proc)

static char user[] = "app";
static char password[] = "Open Sesame";

/* How often Cyrus SASL was made ready. */
static int	beginnings;

WRAPPED(int, sasl_client_init, const sasl_callback_t *list);

int
__wrap_sasl_client_init(const sasl_callback_t *list)
{
	beginnings++;
	return __real_sasl_client_init(list);
}

/* Find the answer to a question in a list; NULL if there is none. */
static const sasl_callback_t *
find(const sasl_callback_t *list, unsigned long id)
{
	for (; list->id != SASL_CB_LIST_END; list++)
		if (list->id == id)
			return list;
	return NULL;
}

static void
test_user(const sasl_callback_t *list, unsigned long id)
{
	const sasl_callback_t *answer = find(list, id);
	const char *result = NULL;
	unsigned int len = 0;

	is_int(AS(Simple, answer) (answer->context, (int) id, &result, &len), SASL_OK,
		   "S176: the user is asked for");
	is_str(result, user, "S176: and given");
	is_int((int) len, (int) strlen(user), "S176: with its length");
	is_int(AS(Simple, answer) (answer->context, (int) id, &result, NULL), SASL_OK,
		   "S176: which need not be wanted");
	is_int(AS(Simple, answer) (answer->context, (int) id, NULL, &len), SASL_BADPARAM,
		   "S176: it must be wanted itself");
}

static void
test_password(const sasl_callback_t *list)
{
	const sasl_callback_t *answer = find(list, SASL_CB_PASS);
	sasl_secret_t *secret = NULL;

	is_int(AS(Secret, answer) (NULL, answer->context, SASL_CB_PASS, &secret), SASL_OK,
		   "S176: the password is asked for");
	is_int((int) secret->len, (int) strlen(password), "S176: it has its length");
	is_str((char *) secret->data, password, "S176: and is given");
	expect_wiped(secret, secret->data, sizeof(password));
	is_int(AS(Secret, answer) (NULL, answer->context, SASL_CB_PASS, NULL), SASL_BADPARAM,
		   "S176: it must be wanted");
}

/* What Cyrus SASL says becomes this line of the log, or none. */
static void
test_line(const sasl_callback_t *list, int level, const char *message, const char *expected)
{
	const sasl_callback_t *answer = find(list, SASL_CB_LOG);
	char		line[512];
	bool		warning;
	int			repeats;
	int			dropped;

	is_int(AS(Log, answer) (answer->context, level, message), SASL_OK, "S177: a message comes");
	if (!zk_log_take(line, sizeof(line), &warning, &repeats, &dropped))
		line[0] = '\0';
	is_str(line, expected, "S177: what is logged of it");
}

static void
test_log(const sasl_callback_t *list)
{
	test_line(list, SASL_LOG_ERR, "no ticket", "SASL: no ticket");
	test_line(list, SASL_LOG_WARN, "an old ticket", "SASL: an old ticket");
	test_line(list, SASL_LOG_ERR, NULL, "");
	test_line(list, SASL_LOG_NONE, "nothing", "");
	test_line(list, SASL_LOG_FAIL, "a wrong password", "");
	test_line(list, SASL_LOG_NOTE, "something", "");
	test_line(list, SASL_LOG_PASS, password, "");
}

int
main(void)
{
	char	   *texts[ZK_TRANSPORT_TEXTS] = {NULL};
	const sasl_callback_t *list = zk_sasl_begin(texts);

	ok(find(list, SASL_CB_USER) == NULL && find(list, SASL_CB_PASS) == NULL,
	   "S181: without a user and a password there is nothing to be given");
	test_log(list);
	zk_sasl_end();
	texts[ZK_SASL_USER] = user;
	texts[ZK_SASL_PASSWORD] = password;
	list = zk_sasl_begin(texts);
	test_user(list, SASL_CB_USER);
	test_user(list, SASL_CB_AUTHNAME);
	test_password(list);
	test_log(list);
	zk_sasl_end();
	ok(wiped, "S113: the password is wiped, and its memory freed");
	is_int(beginnings, 1, "Cyrus SASL is made ready once");
	return done_testing();
}

#else

int
main(void)
{
	return skip_all("the client library was built without SASL");
}

#endif							/* ZKLOCK_SASL */
