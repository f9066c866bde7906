/*-------------------------------------------------------------------------
 *
 * answer_test.c
 *	  Which answers are final, and which errors they are (S61, S106).
 *
 *-------------------------------------------------------------------------
 */
#include <zookeeper/zookeeper.h>

#include "answer.h"
#include "tap.h"

/* The library does not know it. */
#define QUOTA_EXCEEDED	(-125)

/* In the place of the library's. */
const char *
zerror(int rc)
{
	(void) rc;
	return "as the library says";
}

static void
test_connection_errors(void)
{
	static const int lost[] = {
		ZCONNECTIONLOSS, ZOPERATIONTIMEOUT, ZRUNTIMEINCONSISTENCY, ZSESSIONEXPIRED,
		ZSESSIONMOVED, ZINVALIDSTATE, ZSYSTEMERROR, ZCLOSING, ZAUTHFAILED,
		ZSESSIONCLOSEDREQUIRESASLAUTH
	};
	static const int answered[] = {
		ZOK, ZNONODE, ZNODEEXISTS, ZNOAUTH, ZBADVERSION, ZNOTEMPTY, ZINVALIDACL,
		ZNOCHILDRENFOREPHEMERALS, QUOTA_EXCEEDED, ZUNIMPLEMENTED
	};

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
	{
		ok(zk_is_connection_error(lost[i]), "%d says that the connection is lost", lost[i]);
		ok(zk_is_transient(lost[i]), "and the request is made again");
	}
	for (size_t i = 0; i < sizeof(answered) / sizeof(answered[0]); i++)
	{
		ok(!zk_is_connection_error(answered[i]), "%d is an answer", answered[i]);
		ok(!zk_is_transient(answered[i]), "which is final");
	}
	ok(!zk_is_connection_error(ZTHROTTLEDOP), "S106: an ensemble that throttles answers");
	ok(zk_is_transient(ZTHROTTLEDOP), "S106: but the request is made again");
}

static void
test_errors(void)
{
	is_int(zk_answer_error(ZNOCHILDRENFOREPHEMERALS), ZK_ERR_EPHEMERAL_PARENT,
		   "S61: below an ephemeral znode");
	is_int(zk_answer_error(QUOTA_EXCEEDED), ZK_ERR_QUOTA, "S106: above a quota");
	is_int(zk_answer_error(ZUNIMPLEMENTED), ZK_ERR_OTHER, "anything else is one kind of error");
	is_str(zk_answer_text(QUOTA_EXCEEDED), "quota exceeded",
		   "S106: a quota has words of our own");
	is_str(zk_answer_text(ZUNIMPLEMENTED), "as the library says", "anything else the library's");
}

int
main(void)
{
	test_connection_errors();
	test_errors();
	return done_testing();
}
