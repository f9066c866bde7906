/*-------------------------------------------------------------------------
 *
 * answer.c
 *	  What the code of an answer says: to try again, or why not.
 *
 * All functions are pure.  Any thread.
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"
#include "answer.h"

/* An answer that servers give from 3.7 on, and the library does not know. */
#define ZQUOTAEXCEEDED	(-125)

/*
 * Returns true if the code says that the outcome of a request is unknown, or
 * that it was not sent: to be tried again when connected.  The library reports
 * the cause of the loss: ZOPERATIONTIMEOUT when the server was silent,
 * ZAUTHFAILED when it refused the credential (a session event says so, too).
 */
bool
zk_is_connection_error(int rc)
{
	switch (rc)
	{
		case ZCONNECTIONLOSS:
		case ZOPERATIONTIMEOUT:
		case ZRUNTIMEINCONSISTENCY:
		case ZSESSIONEXPIRED:
		case ZSESSIONMOVED:
		case ZINVALIDSTATE:
		case ZSYSTEMERROR:
		case ZCLOSING:
		case ZAUTHFAILED:
		case ZSESSIONCLOSEDREQUIRESASLAUTH:
			return true;
		default:
			return false;
	}
}

/*
 * Returns true if the request is to be made again: its connection was lost, or
 * it was not executed because the server throttles.
 */
bool
zk_is_transient(int rc)
{
	return zk_is_connection_error(rc) || rc == ZTHROTTLEDOP;
}

/*
 * Returns the kind of error of an answer that is final and not ZOK.  What has
 * to do with who we are is dealt with before (auth.c, refusal.c).
 */
ZkError
zk_answer_error(int rc)
{
	switch (rc)
	{
		case ZNOCHILDRENFOREPHEMERALS:
			return ZK_ERR_EPHEMERAL_PARENT;
		case ZQUOTAEXCEEDED:
			return ZK_ERR_QUOTA;
		default:
			return ZK_ERR_OTHER;
	}
}

/*
 * The same in words, which begin with a small letter and have no period.
 */
const char *
zk_answer_text(int rc)
{
	return rc == ZQUOTAEXCEEDED ? "quota exceeded" : zerror(rc);
}
