/*-------------------------------------------------------------------------
 *
 * zkproxycmd.c
 *	  The commands of zkproxy, as zkproxy.c lists them.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zkproxy.h"

/* The command being run: the words after its name, NULL where there are none */
static const char *argument;
static const char *number;

/* What its answer says after "ok" or "error". */
static FILE *answer;

/*
 * A command's function returns whether the answer is "ok".
 */
typedef struct Command
{
	const char *name;
	bool		(*run) (void);
} Command;

/*
 * The session that the command is limited to; 0 for none.
 */
static int64_t
session_argument(void)
{
	return argument ? (int64_t) strtoull(argument, NULL, 16) : 0;
}

/*
 * Hold what goes up or down, of one session or of all.
 */
static bool
hold(bool up, bool down)
{
	if (!argument)
	{
		proxy.held_up |= up;
		proxy.held_down |= down;
		return true;
	}
	if (proxy.hold_count == MAX_HOLDS)
		return false;
	proxy.holds[proxy.hold_count++] = (SessionHold)
	{
		.session = session_argument(),.up = up,.down = down
	};
	return true;
}

static bool
run_freeze(void)
{
	return hold(true, true);
}

static bool
run_freeze_requests(void)
{
	return hold(true, false);
}

static bool
run_freeze_replies(void)
{
	return hold(false, true);
}

static bool
run_cut(void)
{
	int64_t		session = session_argument();
	bool		found = !argument;
	Link	   *link;
	Link	   *next;

	for (link = proxy.links; link; link = next)
	{
		next = link->next;
		if (!argument || link->session == session)
		{
			close_link(link);
			found = true;
		}
	}
	return found;
}

static bool
set_trap(Trap trap)
{
	size_t		i;

	for (i = 0; argument && types[i].name; i++)
		if (strcmp(types[i].name, argument) == 0)
		{
			proxy.trap = trap;
			proxy.trap_type = types[i].type;
			proxy.trap_countdown = number ? atol(number) : 1;
			return true;
		}
	return false;
}

static bool
run_cut_before_request(void)
{
	return set_trap(TRAP_CUT_BEFORE);
}

static bool
run_cut_after_request(void)
{
	return set_trap(TRAP_CUT_AFTER);
}

static bool
run_hold_reply(void)
{
	return set_trap(TRAP_HOLD_REPLY);
}

/*
 * Let what hold-request has kept back be forwarded.
 */
static void
release_requests(void)
{
	Link	   *link;
	Frame	   *frame;

	for (link = proxy.links; link; link = link->next)
		for (frame = link->up.first; frame; frame = frame->next)
			if (frame->due == NEVER)
				frame->due = 0;
}

static bool
run_hold_request(void)
{
	release_requests();
	return set_trap(TRAP_HOLD_REQUEST);
}

/*
 * Undo every freeze of one session.
 */
static bool
pass_session(int64_t session)
{
	int			kept = 0;
	int			i;

	for (i = 0; i < proxy.hold_count; i++)
		if (proxy.holds[i].session != session)
			proxy.holds[kept++] = proxy.holds[i];
	proxy.hold_count = kept;
	return true;
}

static bool
run_pass(void)
{
	Link	   *link;

	if (argument)
		return pass_session(session_argument());
	proxy.held_up = proxy.held_down = false;
	proxy.hangs_up = false;
	proxy.hold_count = 0;
	proxy.delay_ms = 0;
	proxy.trap = TRAP_NONE;
	release_requests();
	for (link = proxy.links; link; link = link->next)
	{
		link->up.held = link->down.held = false;
		link->cut_handshake = false;
		link->cut_xid = XID_NONE;
	}
	return proxy.listener >= 0 || listen_on(proxy.port);
}

static bool
run_refuse(void)
{
	if (proxy.listener >= 0)
		close(proxy.listener);
	proxy.listener = -1;
	return true;
}

static bool
run_hang_up(void)
{
	proxy.hangs_up = true;
	return proxy.listener >= 0 || listen_on(proxy.port);
}

static bool
run_delay(void)
{
	proxy.delay_ms = argument ? atoi(argument) : 0;
	return argument != NULL;
}

static bool
run_fired(void)
{
	fprintf(answer, " %ld 0x%" PRIx64, proxy.fired, proxy.fired_at);
	return true;
}

static bool
run_count(void)
{
	size_t		i;

	for (i = 0; types[i].name; i++)
	{
		if (types[i].count > 0)
			fprintf(answer, " %s=%ld", types[i].name, types[i].count);
		types[i].count = 0;
	}
	return true;
}

static bool
run_sessions(void)
{
	const Link *link;
	size_t		i;

	for (link = proxy.links; link; link = link->next)
		if (link->session != 0)
		{
			fprintf(answer, " 0x%" PRIx64 ":", link->session);
			for (i = 0; i < sizeof(link->password); i++)
				fprintf(answer, "%02x", link->password[i]);
		}
	return true;
}

static bool
run_connections(void)
{
	const Link *link;
	int			count = 0;

	for (link = proxy.links; link; link = link->next)
		count++;
	fprintf(answer, " %d", count);
	return true;
}

static bool
run_accepted(void)
{
	fprintf(answer, " %ld", proxy.accepted);
	proxy.accepted = 0;
	return true;
}

static const Command commands[] = {
	{"pass", run_pass},
	{"freeze", run_freeze},
	{"freeze-requests", run_freeze_requests},
	{"freeze-replies", run_freeze_replies},
	{"cut", run_cut},
	{"refuse", run_refuse},
	{"hang-up", run_hang_up},
	{"delay", run_delay},
	{"cut-before-request", run_cut_before_request},
	{"cut-after-request", run_cut_after_request},
	{"hold-reply", run_hold_reply},
	{"hold-request", run_hold_request},
	{"fired", run_fired},
	{"count", run_count},
	{"sessions", run_sessions},
	{"connections", run_connections},
	{"accepted", run_accepted}
};

static void
run_command(char *line)
{
	const char *name = strtok(line, " ");
	char	   *text;
	size_t		text_len;
	bool		done = false;
	size_t		i;

	argument = strtok(NULL, " ");
	number = strtok(NULL, " ");
	answer = open_memstream(&text, &text_len);
	if (!answer)
		die("open_memstream");
	for (i = 0; name && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].name, name) == 0)
			done = commands[i].run();
	fclose(answer);
	printf("%s%s\n", done ? "ok" : "error", text);
	fflush(stdout);
	free(text);
}

/*
 * Read commands and run them; false at the end of standard input.
 */
bool
read_commands(void)
{
	static char input[4096];
	static size_t len = 0;
	ssize_t		got = read(STDIN_FILENO, input + len, sizeof(input) - 1 - len);
	char	   *end;

	if (got <= 0)
		return got < 0 && errno == EINTR;
	len += (size_t) got;
	input[len] = '\0';
	while ((end = strchr(input, '\n')) != NULL)
	{
		*end++ = '\0';
		run_command(input);
		len -= (size_t) (end - input);
		memmove(input, end, len + 1);
	}
	return len < sizeof(input) - 1;
}
