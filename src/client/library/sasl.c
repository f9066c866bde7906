/*-------------------------------------------------------------------------
 *
 * sasl.c
 *	  The answers to what Cyrus SASL asks for, to authenticate.
 *
 * The library passes our answers on to Cyrus SASL.  Its own would read the file
 * with the password for each connection, or ask a terminal for it, print, and
 * leak.
 *
 * The I/O thread asks whenever it makes a connection, and only it does.  There
 * is one handle in a process at a time, and so one set of answers, which the
 * helper prepares before it opens the handle, and wipes after it has closed it.
 * The texts are the client's, which lives longer.
 *
 * With GSSAPI the I/O thread waits for tickets of Kerberos.  It is not
 * connected then, so nobody relies on it; but the thread that closes the
 * handle waits for it, for no longer than for anything else.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

#ifdef ZKLOCK_SASL

/* What Cyrus SASL can ask for, and the end of the list. */
#define MAX_CALLBACKS	5

typedef int (*Callback) (void);

/* A function as Cyrus SASL has it in its lists, of whatever type it is. */
#define CALLBACK(function)	((Callback) (void (*) (void)) (function))

static sasl_callback_t callbacks[MAX_CALLBACKS];
static sasl_secret_t *secret;

/* Cyrus SASL is ready, in this process. */
static bool initialized;

/* SASL_CB_USER, SASL_CB_AUTHNAME: the user.  I/O thread. */
static int
give_user(void *context, int id, const char **result, unsigned int *len)
{
	(void) id;
	if (result == NULL)
		return SASL_BADPARAM;
	*result = context;
	if (len != NULL)
		*len = (unsigned int) strlen(context);
	return SASL_OK;
}

/* SASL_CB_PASS: the password.  I/O thread. */
static int
give_secret(sasl_conn_t *conn, void *context, int id, sasl_secret_t **result)
{
	(void) conn;
	(void) context;
	(void) id;
	if (result == NULL)
		return SASL_BADPARAM;
	*result = secret;
	return SASL_OK;
}

/* SASL_CB_LOG: a complaint, which would go to syslog.  Any thread. */
static int
take_log(void *context, int level, const char *message)
{
	(void) context;
	if (message != NULL && (level == SASL_LOG_ERR || level == SASL_LOG_WARN))
		zk_log(false, "SASL: %.150s", message);
	return SASL_OK;
}

/* Keep the password as Cyrus SASL wants it.  Returns false if out of memory. */
static bool
keep_secret(const char *password)
{
	size_t		len = strlen(password);

	secret = malloc(sizeof(*secret) + len);
	if (secret == NULL)
		return false;
	secret->len = len;
	memcpy(secret->data, password, len + 1);
	return true;
}

/* Add an answer to the end of the list. */
static void
add_callback(int *count, unsigned long id, Callback answer, char *context)
{
	callbacks[*count].id = id;
	callbacks[*count].proc = answer;
	callbacks[*count].context = context;
	(*count)++;
	callbacks[*count].id = SASL_CB_LIST_END;
}

/*
 * Prepare the answers, from a client's texts (see ZkConfig).  Returns NULL if
 * out of memory, or Cyrus SASL cannot be used.  Call zk_sasl_end() either way.
 * Helper.
 */
const sasl_callback_t *
zk_sasl_begin(char *const *transport)
{
	static const sasl_callback_t for_all[] = {
		{SASL_CB_LOG, CALLBACK(take_log), NULL},
		{SASL_CB_LIST_END, NULL, NULL}
	};
	char	   *user = transport[ZK_SASL_USER];
	int			count = 0;

	if (!initialized && sasl_client_init(for_all) != SASL_OK)
		return NULL;
	initialized = true;
	add_callback(&count, SASL_CB_LOG, CALLBACK(take_log), NULL);
	if (user != NULL)
	{
		add_callback(&count, SASL_CB_USER, CALLBACK(give_user), user);
		add_callback(&count, SASL_CB_AUTHNAME, CALLBACK(give_user), user);
	}
	if (transport[ZK_SASL_PASSWORD] != NULL)
	{
		if (!keep_secret(transport[ZK_SASL_PASSWORD]))
			return NULL;
		add_callback(&count, SASL_CB_PASS, CALLBACK(give_secret), NULL);
	}
	return callbacks;
}

/* The answers are not needed any more: wipe the password.  Helper. */
void
zk_sasl_end(void)
{
	if (secret != NULL)
		explicit_bzero(secret->data, secret->len);
	free(secret);
	secret = NULL;
}

#endif							/* ZKLOCK_SASL */
