/*-------------------------------------------------------------------------
 *
 * library.c
 *	  What src/client/library offers to the lock client, in the simulated world.
 *
 * Plain connections, with the library linked statically: as transport.c,
 * socket.c, threads.c, guards.c and log.c behave then.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/client/library/library.h"
#include "handle.h"
#include "memory.h"

/* How often connect() passes over a server (socket.c). */
#define MAX_AVOIDED		4

/* One for each process: among what is swapped with it (task.c). */
__attribute__((section("client_data")))
atomic_bool zk_poisoned = false;

static Library *
library_of(Process *process)
{
	Library    *library = process->library;

	if (library == NULL)
	{
		library = process->library = sim_alloc(sizeof(Library));
		library->avoided = -1;
	}
	return library;
}

static Library *
my_library(void)
{
	return library_of(process_now());
}

/*-------------------------------------------------------------------------
 * transport.c
 *-------------------------------------------------------------------------
 */

bool
zk_transport_init(ZkTransport *transport, const ZkConfig *config)
{
	transport->texts[ZK_TLS_CA] = (char *) config->transport[ZK_TLS_CA];
	return true;
}

void
zk_transport_free(ZkTransport *transport)
{
	(void) transport;
}

bool
zk_transport_check(const ZkTransport *transport, ZkError *error, char *detail)
{
	(void) transport;
	(void) error;
	detail[0] = '\0';
	return true;
}

/* Reads the servers' numbers: server k is 10.0.0.(k + 1); shuffled. */
static void
read_servers(zhandle_t *zh, const char *addresses)
{
	const char *at = addresses;
	int			number;

	while ((at = strstr(at, "10.0.0.")) != NULL)
	{
		number = atoi(at + 7);
		zh->servers[zh->server_count++] = number - 1;
		at += 7;
	}
	for (int i = zh->server_count - 1; i > 0; i--)
	{
		int			j = (int) chance_below(&zh->chance, (uint64_t) i + 1);
		int			server = zh->servers[i];

		zh->servers[i] = zh->servers[j];
		zh->servers[j] = server;
	}
}

zhandle_t *
zk_transport_open(const ZkTransport *transport, ZkServers *servers,
				  const ZkHandleWish *wish, ZkError *error, char *detail)
{
	zhandle_t  *zh;

	if (memory_is_refused())
	{
		*error = ZK_ERR_NO_THREAD;
		snprintf(detail, ZK_DETAIL_SIZE, "Could not create a thread.");
		return NULL;
	}
	if (memory_is_refused())
	{
		*error = ZK_ERR_UNREACHABLE;
		snprintf(detail, ZK_DETAIL_SIZE, "Could not set up the ZooKeeper client library.");
		return NULL;
	}
	zh = sim_alloc(sizeof(zhandle_t));
	zh->process = process_now();
	zh->library = my_library();
	zh->watcher = wish->watcher;
	zh->context = wish->context;
	zh->on_end = wish->on_end;
	zh->state = STATE_NONE;
	zh->timeout_ms = wish->session_timeout_ms;
	if (wish->session != NULL)
	{
		zh->id = *wish->session;
		memcpy(&zh->password, zh->id.passwd, sizeof(zh->password));
	}
	zh->chance = chance_named("handle %d of %s", ++zh->library->handles, zh->process->name);
	read_servers(zh, servers->addresses);
	zh->library->direct = transport->texts[ZK_TLS_CA] == NULL;
	zh->library->current = zh;
	zh->io = task_start(zh->process, "io", handle_main, zh);
	task_step();
	return zh;
}

/* As zookeeper_init(): for operations.c, which is no lock client. */
zhandle_t *
zookeeper_init(const char *servers, watcher_fn watcher, int timeout_ms,
			   const clientid_t *session, void *context, int flags)
{
	ZkServers	list = {.addresses = (char *) servers};
	ZkTransport plain = {0};
	ZkError		error;
	char		detail[ZK_DETAIL_SIZE];
	ZkHandleWish wish = {
		.watcher = watcher,.session_timeout_ms = timeout_ms,.session = session,
		.context = context
	};
	zhandle_t  *zh;

	(void) flags;
	zh = zk_transport_open(&plain, &list, &wish, &error, detail);
	zh->library->direct = false;
	return zh;
}

int
zookeeper_close(zhandle_t *zh)
{
	ZkTransport plain = {0};

	zk_transport_close(&plain, zh, false);
	return ZOK;
}

void
zk_transport_close(const ZkTransport *transport, zhandle_t *zh, bool keep_session)
{
	(void) transport;
	handle_close(zh, keep_session);
	if (my_library()->current == zh)
		my_library()->current = NULL;
}

ZkHandleEnd
zk_transport_look(const ZkTransport *transport, zhandle_t *zh, bool has_session,
				  ZkError *error, char *detail)
{
	(void) transport;
	(void) zh;
	(void) has_session;
	(void) error;
	(void) detail;
	return ZK_HANDLE_WORKS;
}

bool
zk_transport_connecting(int state)
{
	(void) state;
	return false;
}

/*-------------------------------------------------------------------------
 * socket.c
 *-------------------------------------------------------------------------
 */

void
zk_socket_belongs_to(zhandle_t *zh)
{
	zh->library->current = zh;
	zh->library->avoiding = 0;
}

void
zk_socket_send(void)
{
	zhandle_t  *zh = my_library()->current;

	if (zh == NULL || zh->held_back == 0)
		return;
	task_step();
	zh = my_library()->current;
	if (zh == NULL || zh->held_back == 0)
		return;
	zh->held_back = 0;
	handle_send_all(zh);
	if (zh->to_send.count > 0)
		handle_wake(zh);
}

bool
zk_socket_is_direct(void)
{
	const zhandle_t *zh = my_library()->current;

	return zh != NULL && zh->library->direct && zh->established;
}

/* The handle's connection, made or not; NULL if it has none. */
static zhandle_t *
with_socket(void)
{
	zhandle_t  *zh = my_library()->current;

	return zh != NULL && zh->stage != LINK_NONE ? zh : NULL;
}

bool
zk_socket_peer(char *server, size_t size)
{
	zhandle_t  *zh = with_socket();

	if (zh == NULL || zh->stage != LINK_UP)
		return false;
	snprintf(server, size, "10.0.0.%d:2181", zh->server + 1);
	return true;
}

ZkTime
zk_socket_connecting_since(ZkTime disconnected_at)
{
	ZkTime		since = my_library()->connecting_since;

	return since > disconnected_at ? since : disconnected_at;
}

bool
zk_socket_break_connection(ZkTime begun)
{
	zhandle_t  *zh = with_socket();

	if (zh == NULL || zh->library->connecting_since != begun)
		return false;
	sim_trace("%s: gives up server %d", zh->process->name, zh->server);
	zh->library->avoided = zh->server;
	zh->library->avoiding = MAX_AVOIDED;
	handle_break(zh);
	return true;
}

bool
zk_socket_hears_out(void)
{
	return true;
}

bool
zk_socket_is_open(void)
{
	return with_socket() != NULL;
}

/*-------------------------------------------------------------------------
 * threads.c and guards.c
 *-------------------------------------------------------------------------
 */

int
zk_thread_create(pthread_t *thread, void *(*start) (void *), void *arg)
{
	if (memory_is_refused())
		return EAGAIN;
	*thread = (pthread_t) task_start(process_now(), "helper", start, arg);
	return 0;
}

void
zk_guard_backend(int event_fd, int signal_number)
{
	(void) signal_number;
	my_library()->event_fd = event_fd;
}

void
zk_guard_forget_event_fd(int fd)
{
	if (my_library()->event_fd == fd)
		my_library()->event_fd = -1;
}

void
zk_guarded(void (*act) (void *arg), void *arg)
{
	act(arg);
}

void
zk_signal_loss(void)
{
	sim_trace("%s: has lost a lock", process_now()->name);
}

/*-------------------------------------------------------------------------
 * log.c
 *-------------------------------------------------------------------------
 */

void
zk_log(bool warning, const char *fmt,...)
{
	char		line[512];
	va_list		args;

	(void) warning;
	if (!sim_tracing && sim_hear == NULL)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	sim_trace("%s: log: %s", process_now()->name, line);
}

bool
zk_log_take(char *line, size_t size, bool *warning, int *repeats, int *dropped)
{
	(void) line;
	(void) size;
	(void) warning;
	(void) repeats;
	(void) dropped;
	return false;
}

ZkError
zk_log_last_error(char *detail)
{
	snprintf(detail, ZK_DETAIL_SIZE, "%s", my_library()->error);
	return detail[0] != '\0' ? ZK_ERR_UNREACHABLE : ZK_OK;
}

void
zk_log_clear_error(void)
{
	my_library()->error[0] = '\0';
}
