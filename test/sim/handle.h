/*-------------------------------------------------------------------------
 *
 * handle.h
 *	  A handle of the simulated libzookeeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HANDLE_H
#define HANDLE_H

#include "task.h"
#include "wire.h"

/* The states that the library has (its own numbers). */
typedef enum HandleState
{
	STATE_NONE = 999,			/* at first; 0 once a connection was lost */
	STATE_LOST = 0,
	STATE_CONNECTING = 1,
	STATE_ASSOCIATING = 2,
	STATE_CONNECTED = 3,
	STATE_EXPIRED = -112,
	STATE_AUTH_FAILED = -113
} HandleState;

/* What a completion is called with. */
typedef enum AnswerKind
{
	ANSWER_VOID,
	ANSWER_STRING,
	ANSWER_STRING_STAT,
	ANSWER_STAT,
	ANSWER_DATA,
	ANSWER_STRINGS,
	ANSWER_ACL,
	ANSWER_AUTH,				/* void, of zoo_add_auth() */
	ANSWER_EVENT				/* to watchers */
} AnswerKind;

/* A watcher of a path, or one that was found for an event. */
typedef struct Watcher Watcher;
struct Watcher
{
	Watcher    *next;
	char	   *path;			/* NULL in an event */
	watcher_fn	call;
	void	   *context;
};

/* A request that has not been answered, or what is to be called. */
typedef struct Completion Completion;
struct Completion
{
	Completion *next;
	AnswerKind	kind;
	void		(*call) (void); /* of the type that kind says */
	const void *data;
	int32_t		xid;
	zoo_op_result_t *results;	/* of a multi-op, the caller's */
	char	  **buffers;		/* where the paths of its creates go */
	int		   *buffer_sizes;
	struct Stat **stats;		/* and the stats of its sets */
	Watcher    *watcher;		/* to be set if the answer is ZOK; in an event
								 * those to be called */
	int			rc;
	Result		result;
	int			event;
	int			state;
	char	   *path;
};

typedef struct CompletionQueue
{
	Completion *first;
	Completion *last;
} CompletionQueue;

/* Packets that wait: to be sent, or to be read. */
typedef struct PacketQueue
{
	Packet	  **packets;
	int			first;
	int			count;
	int			room;
} PacketQueue;

/* How far a connection is. */
typedef enum LinkStage
{
	LINK_NONE,
	LINK_CONNECTING,
	LINK_UP,					/* made; the handshake may be under way */
	LINK_BROKEN					/* the I/O thread has not seen that yet */
} LinkStage;

/* What a process knows of the library, whichever handle: as socket.c. */
typedef struct Library
{
	zhandle_t  *current;		/* the handle that has a connection, or had */
	int			handles;		/* that there have ever been */
	bool		direct;			/* threads send what they request (socket.c) */
	SimTime		connecting_since;	/* on the process's clock */
	int			avoided;		/* server; -1 for none */
	int			avoiding;
	int			event_fd;
	char		error[128];		/* the last thing that went wrong */
} Library;

struct _zhandle
{
	Process    *process;
	Library    *library;
	Chance		chance;			/* the order of servers, of errors and packets */
	watcher_fn	watcher;
	void	   *context;
	void		(*on_end) (void);
	int			state;			/* HandleState */
	int			timeout_ms;		/* asked for, then negotiated */
	clientid_t	id;
	int64_t		password;
	int64_t		last_zxid;
	int32_t		last_xid;

	int			servers[2 * 8]; /* shuffled */
	int			server_count;
	int			next_server;
	int			server;			/* of the connection */
	bool		delay;

	Link	   *link;
	LinkStage	stage;
	bool		established;	/* a packet has come after the handshake */
	SimTime		received_at;	/* CLOCK_MONOTONIC */
	SimTime		sent_at;
	int			held_back;		/* requests that zk_socket_send() is to send */

	PacketQueue to_send;
	PacketQueue inbox;			/* what has come, and is not read yet */
	CompletionQueue sent;		/* requests without an answer, in order */
	CompletionQueue to_call;
	Watcher    *watchers;		/* data watches that are set */
	char	   *scheme;			/* the credential, if there is one */
	char	   *credential;
	Completion *auth;			/* whoever waits for its answer */

	Task	   *io;
	WaitList	io_waits;
	bool		woken;			/* there is something to be sent */
	bool		completing;		/* the I/O thread runs completions */
	bool		closing;
	bool		closed_by_server;
	WaitList	parting;		/* who waits for that */
};

/* in handle.c */
extern void packets_add(PacketQueue *queue, Packet *packet);
extern void completions_add(CompletionQueue *queue, Completion *completion);
extern bool handle_unrecoverable(const zhandle_t *zh);
extern void handle_send_all(zhandle_t *zh);
extern void handle_wake(zhandle_t *zh);
extern void handle_send_credential(zhandle_t *zh, bool front);
extern void handle_break(zhandle_t *zh);
extern void *handle_main(void *argument);
extern void handle_close(zhandle_t *zh, bool keep_session);

#endif							/* HANDLE_H */
