/*-------------------------------------------------------------------------
 *
 * publish_wait.c
 *	  Publishing what this client waits for.
 *
 * That is an ephemeral znode, named by the ZooKeeper session: others who look
 * for deadlocks read it.  It is created, changed when the client waits for
 * something else, and deleted when it does not wait any more.  Nobody waits for
 * the delete; like contenders the znode is wanted or being reaped as long as it
 * may be there (Q5, protocol.c), over lost connections, and goes with its
 * ZooKeeper session.
 *
 * After a lost connection it is written anew.  So what is read after the answer
 * to that comes from a server that knows all that was published before.
 *
 * Waits can do without: what is refused is logged and not tried again.
 *
 * All functions up to the client API run on client threads under engine_lock,
 * which the completions take themselves.
 *
 * IDENTIFICATION
 *	  src/client/publish_wait.c
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

/* Is the znode of a published wait there? */
typedef enum WaitZnode
{
	WAIT_ABSENT,
	WAIT_UNKNOWN,				/* something was sent, and not answered */
	WAIT_THERE
} WaitZnode;

/*
 * The published wait of this client (publish_wait.c).  A znode of ours can
 * exist only while znode is not WAIT_ABSENT; then it is wanted or being reaped.
 * engine_lock.
 */
struct Publication
{
	WaitText	wanted;
	WaitZnode	znode;
	bool		current;		/* it says what is wanted */
	bool		given_up;		/* it cannot be made to */
	bool		stuck;			/* it cannot be deleted */
	bool		pending;		/* an answer is to come */
	bool		need_parents;
	uint8_t		attempts;		/* creates in vain, in a row */
	uint32_t	sent;			/* serial of what was sent last */
	ZkTime		retry_at;		/* nothing is sent before then */
	char		path[ZK_NODE_PATH_SIZE + 32];
};

/*
 * The wait with that serial, if it is still the one, is published since then (a
 * zxid), or not any more (0): let the backend know.
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

/* What was sent last is answered. */
static Publication *
answered(ZkClient *client)
{
	client->publication->pending = false;
	return client->publication;
}

/*
 * Do what comes next.  A query may have waited for it, which
 * the helper goes on with.
 */
static void
go_on(ZkClient *client)
{
	zk_publish_advance(client);
	if (client->query.node != NULL)
		zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * What was sent last is published, since then (a zxid).
 */
static void
published(ZkClient *client, int64_t zxid)
{
	Publication *publication = client->publication;

	publication->znode = WAIT_THERE;
	publication->attempts = 0;
	publication->current = publication->sent == publication->wanted.serial;
	tell_backend(&client->mailbox, publication->sent, zxid);
}

/* The server has no time for us now: try again, which the helper sees to. */
static void
retry_later(ZkClient *client)
{
	client->publication->retry_at = zk_now() + THROTTLE_DELAY;
	zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * A step was refused that writes.  The connection may come back; a throttled
 * request is sent again; anything else is final.
 */
static void
refused(ZkClient *client, int rc)
{
	Publication *publication = client->publication;

	if (zk_is_connection_error(rc))
		return;
	if (rc == ZTHROTTLEDOP)
	{
		retry_later(client);
		return;
	}
	publication->given_up = true;
	zk_log(false, "could not publish wait information in \"%.120s\", so deadlocks may go undetected: %s",
		   publication->path, zk_answer_text(rc));
}

static void
on_create(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	Publication *publication = answered(client);

	(void) which;
	if (rc == ZOK)
		published(client, answer->stat->mzxid);
	else if (rc == ZNODEEXISTS)
		publication->znode = WAIT_THERE;	/* and has to be written anew */
	else if (!zk_is_connection_error(rc))
	{
		publication->znode = WAIT_ABSENT;
		if (rc == ZNONODE && ++publication->attempts <= MAX_ATTEMPTS)
			publication->need_parents = true;
		else
			refused(client, rc);
	}
	go_on(client);
}

static void
on_set(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	Publication *publication = answered(client);

	(void) which;
	if (rc == ZOK)
		published(client, answer->stat->mzxid);
	else if (rc == ZNONODE)
		publication->znode = WAIT_ABSENT;
	else
		refused(client, rc);
	go_on(client);
}

/*
 * The znode was deleted, or could not be: if an ACL forbids it, it goes with
 * the ZooKeeper session only.
 */
static void
on_delete(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	Publication *publication = answered(client);

	(void) which;
	if (rc == ZOK || rc == ZNONODE)
		publication->znode = WAIT_ABSENT;
	else if (rc == ZTHROTTLEDOP)
		retry_later(client);
	else if (!zk_is_connection_error(rc))
	{
		publication->stuck = client->connection.close_wanted = true;
		zk_log(true, "could not delete znode \"%.150s\", which remains until the ZooKeeper session ends: %s",
			   publication->path, zk_answer_text(rc));
		zk_mailbox_wake_helper(&client->mailbox);
	}
	go_on(client);
}

/*
 * Nobody waits for a parent: what follows it tells if it is not there.
 */
static void
on_parent(int rc, const char *path, const void *context)
{
	(void) rc;
	(void) path;
	(void) context;
}

/*
 * Have the two znodes above made, containers like all others.  The root is
 * there, as something is waited for below it.
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
					ZOO_CONTAINER, on_parent, NULL);
	}
	zoo_acreate(client->connection.zh, parent, "", 0, &client->identity.acl,
				ZOO_CONTAINER, on_parent, NULL);
}

/*
 * Send a step: create, change or delete the znode.
 */
static void
send_step(ZkClient *client, bool delete)
{
	Publication *publication = client->publication;
	const WaitText *wanted = &publication->wanted;
	void	   *context;
	int			rc;

	if (publication->need_parents)
		send_parents(client);
	context = zk_request_begin(client, REQ_PUBLISH, 0,
							   delete ? on_delete :
							   publication->znode == WAIT_THERE ? on_set : on_create);
	if (delete)
		rc = zoo_adelete(client->connection.zh, publication->path, -1, zk_on_void,
						 context);
	else if (publication->znode == WAIT_THERE)
		rc = zoo_aset(client->connection.zh, publication->path, wanted->text,
					  wanted->len, -1, zk_on_stat, context);
	else
		rc = zoo_acreate2(client->connection.zh, publication->path, wanted->text,
						  wanted->len, &client->identity.acl, ZOO_EPHEMERAL,
						  zk_on_created, context);
	if (rc != ZOK)
	{
		zk_request_undo(client, context);
		return;
	}
	publication->pending = true;
	if (delete)
		return;
	publication->sent = wanted->serial;
	if (publication->znode == WAIT_ABSENT)
		publication->znode = WAIT_UNKNOWN;
}

/*
 * Do what comes next for the publication, if that can be done now.
 */
void
zk_publish_advance(ZkClient *client)
{
	Publication *publication = client->publication;
	char		path[sizeof(publication->path)] = "";
	bool		wanted = publication->wanted.text != NULL;
	bool		elsewhere;

	if (publication->pending || !zk_is_connected(client) ||
		atomic_load(&zk_poisoned) || zk_now() < publication->retry_at ||
		(!wanted && publication->znode == WAIT_ABSENT))
		return;
	if (wanted)
		snprintf(path, sizeof(path), "%s/%016llx", publication->wanted.parent,
				 (unsigned long long) zk_session_id(client));
	elsewhere = strcmp(path, publication->path) != 0;
	if (publication->znode != WAIT_ABSENT && (!wanted || elsewhere))
	{
		if (!publication->stuck &&
			zk_requests_available(client, PUBLISH_RESERVE))
			send_step(client, true);
		return;
	}
	if (publication->current || publication->given_up ||
		!zk_requests_available(client, PUBLISH_RESERVE))
		return;
	memcpy(publication->path, path, sizeof(path));
	send_step(client, false);
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
 * Something else is to be published, which is taken over, or nothing.  Does
 * nothing with what was taken over before.
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

/*
 * The ZooKeeper session is over, and the znode with it.
 */
void
zk_publish_session_over(ZkClient *client)
{
	zk_publish_interrupted(client);
	client->publication->znode = WAIT_ABSENT;
	client->publication->stuck = false;
}

/* Is there something to be deleted that can be? */
bool
zk_publish_needs_ensemble(const ZkClient *client)
{
	const Publication *publication = client->publication;

	return publication->znode != WAIT_ABSENT && !publication->stuck &&
		publication->wanted.text == NULL;
}

/* Is what is to be published there, as far as it will ever be? */
bool
zk_publish_settled(const ZkClient *client)
{
	const Publication *publication = client->publication;

	return publication->wanted.text == NULL || publication->current ||
		publication->given_up;
}

/* When is there something to be done that no answer will cause? */
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
give_wait(Mailbox *mailbox, const WaitText *wait)
{
	WaitText	old;

	mailbox_enter(mailbox);
	old = mailbox->news.wait;
	mailbox->news.wait = *wait;
	mailbox->news.wait.serial = old.serial + 1;
	if (mailbox->news.wait.serial == 0)
		mailbox->news.wait.serial = 1;
	mailbox->wait_zxid = 0;
	wake_helper(mailbox);
	mailbox_leave(mailbox);
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
	give_wait(&client->mailbox, &wait);
}

void
zk_wait_withdraw(ZkClient *client)
{
	WaitText	none = {0};

	give_wait(&client->mailbox, &none);
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
