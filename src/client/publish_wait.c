/*-------------------------------------------------------------------------
 *
 * publish_wait.c
 *	  Publishing what this client waits for.
 *
 * Clients that look for deadlocks read it from an ephemeral znode, named by the
 * ZooKeeper session.  The znode is created, changed when the client waits for
 * something else, and deleted when it does not wait any more.  No call waits
 * for the delete: like contenders, the znode is wanted or being deleted as long
 * as it may exist (Q5, protocol.c), over lost connections, and ends with its
 * ZooKeeper session.
 *
 * After a lost connection it is written again.  So what is read after the
 * answer comes from a server that knows all that was published before.  If a
 * create was not answered it is changed, not created: a create that is refused
 * would not tell whether the first one was carried out.
 *
 * Waiting does not depend on it: what is refused is logged and not tried again.
 *
 * All functions up to the client API run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "answer.h"
#include "publish_wait.h"
#include "request.h"

/* Requests that must be free for a step: two parents and the znode. */
#define PUBLISH_RESERVE	3

/* How often the parents may vanish. */
#define MAX_ATTEMPTS	3

/* How long to wait after a request that the server had no time for. */
#define THROTTLE_DELAY	ZK_MS(100)

/* Whether the znode exists. */
typedef enum WaitZnode
{
	WAIT_ABSENT,
	WAIT_UNKNOWN,				/* a create was sent, and not answered */
	WAIT_THERE
} WaitZnode;

/* What is sent to ZooKeeper. */
typedef enum PublishStep
{
	PUBLISH_CREATE,
	PUBLISH_CHANGE,
	PUBLISH_DELETE
} PublishStep;

/* engine_lock */
struct Publication
{
	WaitText	wanted;
	WaitZnode	znode;
	bool		current;		/* it says what is wanted */
	bool		given_up;		/* it cannot be made to */
	bool		stuck;			/* an ACL forbids to delete it, which was
								 * logged */
	bool		pending;		/* an answer is to come */
	bool		need_parents;
	uint8_t		attempts;		/* creates in vain, in a row */
	uint32_t	sent;			/* serial of the text that was sent last */
	ZkTime		retry_at;		/* nothing is sent before then */
	char		path[ZK_NODE_PATH_SIZE + 32];
};

/*
 * Tell the backend that the wait with that serial is published, since that
 * zxid, or not any more (0); unless it has given us another wait.
 */
static void
tell_backend(Mailbox *mailbox, uint32_t serial, int64_t zxid)
{
	pthread_mutex_lock(&mailbox->lock);
	if (mailbox->news.wait.serial == serial)
		mailbox->wait_zxid = zxid;
	pthread_mutex_unlock(&mailbox->lock);
	zk_mailbox_wake_backend(mailbox);
}

/* What was sent last is published, since that zxid. */
static void
published(ZkClient *client, int64_t zxid)
{
	Publication *publication = client->publication;

	publication->znode = WAIT_THERE;
	publication->attempts = 0;
	publication->current = publication->sent == publication->wanted.serial;
	tell_backend(&client->mailbox, publication->sent, zxid);
}

/*
 * A step was refused for good.  If it is the delete, an ACL forbids it.  That
 * is tried again each session timeout, because the session may be kept; others
 * would take the znode for a wait, which may seem to be part of a deadlock.
 */
static void
give_up(ZkClient *client, PublishStep step, int rc)
{
	Publication *publication = client->publication;

	if (step != PUBLISH_DELETE)
	{
		publication->given_up = true;
		zk_log(false, "could not publish wait information in \"%.120s\", so deadlocks may go undetected: %s",
			   publication->path, zk_answer_text(rc));
		return;
	}
	publication->retry_at = zk_now() + zk_timeout(client);
	zk_mailbox_wake_helper(&client->mailbox);
	if (publication->stuck)
		return;
	publication->stuck = client->connection.close_wanted = true;
	zk_log(true, "could not delete znode \"%.150s\", retrying until the ZooKeeper session ends: %s",
		   publication->path, zk_answer_text(rc));
}

/* A step was not carried out, or the znode was deleted, or is missing. */
static void
not_published(ZkClient *client, PublishStep step, int rc)
{
	Publication *publication = client->publication;

	if (rc == ZTHROTTLEDOP)
	{
		publication->retry_at = zk_now() + THROTTLE_DELAY;
		zk_mailbox_wake_helper(&client->mailbox);
		return;
	}
	if (step == PUBLISH_CREATE || rc == ZOK || rc == ZNONODE)
	{
		publication->znode = WAIT_ABSENT;
		publication->stuck = false;
	}
	if (step == PUBLISH_CREATE && rc == ZNONODE &&
		++publication->attempts <= MAX_ATTEMPTS)
		publication->need_parents = true;
	else if (step == PUBLISH_CREATE || (rc != ZOK && rc != ZNONODE))
		give_up(client, step, rc);
}

/*
 * A step was answered: "which" is the PublishStep.  A query may have waited for
 * the publication, so the helper is woken to continue it.
 */
static void
on_step(ZkClient *client, const Answer *answer)
{
	Publication *publication = client->publication;
	PublishStep step = (PublishStep) answer->request->which;
	int			rc = answer->rc;

	publication->pending = false;
	if (rc == ZOK && step != PUBLISH_DELETE)
		published(client, answer->stat->mzxid);
	else if (rc == ZNODEEXISTS)
		publication->znode = WAIT_THERE;	/* and has to be written again */
	else if (!zk_is_connection_error(rc))
		not_published(client, step, rc);
	zk_publish_advance(client);
	if (client->query.node != NULL)
		zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * Create the two znodes above, as containers.  The root exists, because there
 * is a lock below it that is waited for.  If one of them is missing still, the
 * create behind them fails.
 */
static void
send_parents(ZkClient *client)
{
	Publication *publication = client->publication;
	const char *parent = publication->wanted.parent;
	const char *end = strrchr(parent, '/');
	char		path[ZK_NODE_PATH_SIZE];

	publication->need_parents = false;
	if (end != parent)
	{
		snprintf(path, sizeof(path), "%.*s", (int) (end - parent), parent);
		zoo_acreate(client->connection.zh, path, "", 0, &client->identity.acl,
					ZOO_CONTAINER, zk_on_string, ZK_NO_REQUEST);
	}
	zoo_acreate(client->connection.zh, parent, "", 0, &client->identity.acl,
				ZOO_CONTAINER, zk_on_string, ZK_NO_REQUEST);
}

/* Send a step. */
static void
send_step(ZkClient *client, PublishStep step)
{
	Publication *publication = client->publication;
	const WaitText *wanted = &publication->wanted;
	const char *path = publication->path;
	zhandle_t  *zh = client->connection.zh;
	void	   *context;
	int			rc;

	if (publication->need_parents)
		send_parents(client);
	context = zk_request_begin(client, REQ_PUBLISH, step, on_step);
	if (step == PUBLISH_DELETE)
		rc = zoo_adelete(zh, path, -1, zk_on_void, context);
	else if (step == PUBLISH_CHANGE)
		rc = zoo_aset(zh, path, wanted->text, wanted->len, -1, zk_on_stat, context);
	else
		rc = zoo_acreate2(zh, path, wanted->text, wanted->len,
						  &client->identity.acl, ZOO_EPHEMERAL, zk_on_created,
						  context);
	if (rc != ZOK)
	{
		zk_request_undo(client, context);
		return;
	}
	publication->pending = true;
	if (step != PUBLISH_DELETE)
		publication->sent = wanted->serial;
	if (step == PUBLISH_CREATE)
		publication->znode = WAIT_UNKNOWN;
}

/* Do what comes next for the publication, if that can be done now. */
void
zk_publish_advance(ZkClient *client)
{
	Publication *publication = client->publication;
	const WaitText *wanted = &publication->wanted;
	char		path[sizeof(publication->path)] = "";
	PublishStep step = PUBLISH_CREATE;

	if (publication->pending || zk_now() < publication->retry_at)
		return;
	if (wanted->text != NULL)
		snprintf(path, sizeof(path), "%s/%016llx", wanted->parent,
				 (unsigned long long) zk_session_id(client));
	if (publication->znode != WAIT_ABSENT && strcmp(path, publication->path) != 0)
		step = PUBLISH_DELETE;
	else if (publication->znode != WAIT_ABSENT)
		step = PUBLISH_CHANGE;

	if (step != PUBLISH_DELETE &&
		(wanted->text == NULL || publication->current || publication->given_up))
		return;
	if (!zk_requests_available(client, PUBLISH_RESERVE))
		return;
	if (step != PUBLISH_DELETE)
		memcpy(publication->path, path, sizeof(path));
	send_step(client, step);
}

/* Allocate what publishing needs.  False if out of memory. */
bool
zk_publish_init(ZkClient *client)
{
	client->publication = calloc(1, sizeof(Publication));
	return client->publication != NULL;
}

void
zk_publish_free(ZkClient *client)
{
	if (client->publication != NULL)
		zk_wait_clear(&client->publication->wanted);
	free(client->publication);
}

/*
 * Take over a wait to be published in place of the last one, or that there is
 * none, unless that was done before.
 */
void
zk_publish_begin(ZkClient *client, WaitText *wait)
{
	Publication *publication = client->publication;

	if (wait->serial == publication->wanted.serial)
		return;
	zk_wait_clear(&publication->wanted);
	publication->wanted = *wait;
	memset(wait, 0, sizeof(*wait));
	publication->current = publication->given_up = false;
	publication->attempts = 0;
	if (publication->stuck)
		publication->retry_at = 0;
	zk_publish_advance(client);
}

/*
 * The connection was lost, or the handle closed: nothing that was sent will be
 * answered.
 */
void
zk_publish_interrupted(ZkClient *client)
{
	Publication *publication = client->publication;

	zk_requests_forget_kind(client, REQ_PUBLISH);
	publication->pending = publication->current = false;
	publication->retry_at = 0;
	tell_backend(&client->mailbox, publication->wanted.serial, 0);
}

/* The ZooKeeper session is over, and the znode with it. */
void
zk_publish_session_over(ZkClient *client)
{
	zk_publish_interrupted(client);
	client->publication->znode = WAIT_ABSENT;
	client->publication->stuck = false;
}

/* Returns true if the znode is to be deleted, and can be. */
bool
zk_publish_needs_ensemble(const ZkClient *client)
{
	const Publication *publication = client->publication;

	return publication->znode != WAIT_ABSENT && !publication->stuck &&
		publication->wanted.text == NULL;
}

/* Returns true if the publication exists, or never will. */
bool
zk_publish_settled(const ZkClient *client)
{
	const Publication *publication = client->publication;

	return publication->wanted.text == NULL || publication->current ||
		publication->given_up;
}

/* When there is something to be done that no answer will cause. */
ZkTime
zk_publish_due(const ZkClient *client)
{
	const Publication *publication = client->publication;

	if (publication->pending || !zk_is_connected(client) ||
		publication->retry_at <= zk_now())
		return INT64_MAX;
	return publication->retry_at;
}

/*-------------------------------------------------------------------------
 * The client API: backend thread.
 *-------------------------------------------------------------------------
 */

/*
 * Give a wait to be published, which is taken over, in place of the last one;
 * an empty one just ends that.
 */
static void
give_wait(ZkClient *client, const WaitText *wait)
{
	Mailbox    *mailbox = &client->mailbox;
	WaitText	old;

	mailbox_enter(mailbox);
	old = mailbox->news.wait;
	mailbox->news.wait = *wait;
	mailbox->news.wait.serial = zk_next_serial(old.serial);
	mailbox->wait_zxid = 0;
	atomic_store(&mailbox->asked, true);
	mailbox_leave(mailbox);
	zk_engine_ask(client);
	zk_wait_clear(&old);
}

void
zk_wait_publish(ZkClient *client, const char *parent, const char *text,
				size_t len)
{
	WaitText	wait = {.parent = strdup(parent),.text = malloc(len + 1)};

	if (wait.parent == NULL || wait.text == NULL)
		zk_wait_clear(&wait);
	else
	{
		memcpy(wait.text, text, len);
		wait.len = (int) len;
	}
	give_wait(client, &wait);
}

void
zk_wait_withdraw(ZkClient *client)
{
	WaitText	none = {0};

	give_wait(client, &none);
}

int64_t
zk_wait_zxid(ZkClient *client)
{
	Mailbox    *mailbox = &client->mailbox;
	int64_t		zxid;

	mailbox_enter(mailbox);
	zxid = mailbox->wait_zxid;
	mailbox_leave(mailbox);
	return zxid;
}
