/*-------------------------------------------------------------------------
 *
 * log_test.c
 *	  Tests of log.c: what the library's complaints are to a user, and the lines of the log.
 *
 *-------------------------------------------------------------------------
 */
#include "inside.h"
#include "log_lines.h"
#include "tap.h"

#define lengthof(array) (sizeof(array) / sizeof((array)[0]))

#define SOCKET	"2026-01-01 00:00:00,000:1(0x1):ZOO_ERROR@check_events@2985: Socket 10.0.0.1:2181 zk retcode="

/* A line of the library's log, and what is made of it. */
typedef struct Complaint
{
	const char *line;
	const char *detail;
	ZkError		kind;
	bool		broken_off;		/* we have broken the connection */
} Complaint;

static const Complaint complaints[] = {
	{SOCKET "-4, errno=111(Connection refused): server refused to accept the client",
	"Could not connect to 10.0.0.1:2181: Connection refused.", ZK_OK, false},
	{SOCKET "-4, errno=113(No route to host): connect() call failed",
	"Could not connect to 10.0.0.1:2181: No route to host.", ZK_OK, false},
	{SOCKET "-4, errno=112(Host is down): connect() call failed",
	"Could not connect to 10.0.0.1:2181: Host is down.", ZK_OK, false},
	/* the server has closed it before the library looked */
	{SOCKET "-4, errno=32(Broken pipe): server refused to accept the client",
	"The server at 10.0.0.1:2181 closed the connection.", ZK_ERR_CLOSED, false},
	{SOCKET "-4, errno=104(Connection reset by peer): server refused to accept the client",
	"The server at 10.0.0.1:2181 closed the connection.", ZK_ERR_CLOSED, false},
	{SOCKET "-4, errno=32(Broken pipe): failed to send a handshake packet: Broken pipe",
	"The server at 10.0.0.1:2181 closed the connection.", ZK_ERR_CLOSED, false},
	{SOCKET "-4, errno=112(Host is down): failed while receiving a server response",
	"The server at 10.0.0.1:2181 closed the connection.", ZK_ERR_CLOSED, false},
	{SOCKET "-4, errno=113(No route to host): failed while receiving a server response",
	"The connection to 10.0.0.1:2181 failed: No route to host.", ZK_OK, false},
	{SOCKET "-7, errno=110(Connection timed out): connection to 10.0.0.1:2181 timed out (exceeded timeout by 3ms)",
	"The server at 10.0.0.1:2181 did not respond in time.", ZK_OK, false},
	{SOCKET "-4, errno=112(Host is down): failed while receiving a server response",
	"The server at 10.0.0.1:2181 did not respond in time.", ZK_OK, true},
	{"2026-01-01 00:00:00,000:1(0x1):ZOO_ERROR@f@1: no memory, errno=12",
	"The ZooKeeper client library reported: no memory, errno=12.", ZK_OK, false}
};

/* Lines that the log has room for: see log.c. */
#define LOG_LINES	64

/* The next line of the log is this, as a warning or not, so often, and after so many others. */
static void
next_line(const char *text, bool warning, int repeats, int dropped)
{
	char		line[256] = "";
	bool		is_warning = !warning;
	int			had_repeats = 0;
	int			had_dropped = 0;

	ok(zk_log_take(line, sizeof(line), &is_warning, &had_repeats, &had_dropped), "there is a line");
	is_str(line, text, "with that text");
	ok(is_warning == warning, "as a %s", warning ? "warning" : "message");
	is_int(had_repeats, repeats, "so often");
	is_int(had_dropped, dropped, "after so many that were dropped");
}

static void
test_lines(void)
{
	zk_log_callback("2026-01-01 00:00:00,000:1(0x1):ZOO_INFO@init@1: hello");
	zk_log_callback("2026-01-01 00:00:00,000:1(0x1):ZOO_WARN@init@1: hello");
	zk_log_callback("2026-01-01 00:00:00,000:1(0x1):ZOO_INFO@init@1: hello!");
	zk_log_callback("something else");
	zk_log_callback("1(0x1):ZOO_INFO@init");
	zk_log(true, "ours: %d", 1);
	next_line("hello", false, 2, 0);
	next_line("hello!", false, 1, 0);
	next_line("ZOO_INFO@init", false, 1, 0);
	next_line("ours: 1", true, 1, 0);
	is_int(take_log_lines(""), 0, "and no more");
	zk_log(false, "ours: %d", 1);
	next_line("ours: 1", false, 1, 0);

	for (int i = 0; i < LOG_LINES + 3; i++)
		zk_log(false, "line %d", i);
	next_line("line 0", false, 1, 3);
	zk_log(false, "one more");
	next_line("line 1", false, 1, 0);
	is_int(take_log_lines(""), LOG_LINES - 1, "the oldest are there");
}

/* Only errors are complaints; what we know to be their cause is not replaced by them. */
static void
test_causes(void)
{
	char		detail[ZK_DETAIL_SIZE];

	zk_log_broken_off(false);
	zk_log_clear_error();
	zk_log_callback("1(0x1):ZOO_WARN@f@1: no memory, errno=12");
	zk_log_last_error(detail);
	is_str(detail, "", "a warning is no complaint");

	zk_log_cause(ZK_ERR_TLS, "The server has %s.", "no certificate");
	is_int(zk_log_last_error(detail), ZK_ERR_TLS, "a cause is noted");
	is_str(detail, "The server has no certificate.", "as it is");
	zk_log_callback("1(0x1):ZOO_ERROR@f@1: error in ssl connect");
	is_int(zk_log_last_error(detail), ZK_ERR_TLS, "it is that of the complaint");
	is_str(detail, "The server has no certificate.", "which says less");
	zk_log_callback("1(0x1):ZOO_ERROR@f@1: no memory, errno=12");
	is_int(zk_log_last_error(detail), ZK_OK, "the next complaint is another one");
	is_str(detail, "The ZooKeeper client library reported: no memory, errno=12.", "with its words");

	zk_log_given_up("10.0.0.1:2181", "invalid packet length 1");
	is_int(zk_log_last_error(detail), ZK_OK, "S220: a connection is given up");
	is_str(detail, "The connection to 10.0.0.1:2181 was closed: invalid packet length 1.",
		   "S220: for that reason");
	zk_log_callback(SOCKET "-4, errno=71(Protocol error): failed while receiving a server response");
	zk_log_last_error(detail);
	is_str(detail, "The connection to 10.0.0.1:2181 was closed: invalid packet length 1.",
		   "S220: which the library does not know");

	zk_log_callback("1(0x1):ZOO_ERROR@f@1: SASL negotiation: no mechanism available");
	zk_log_callback("1(0x1):ZOO_ERROR@f@1: SASL is over");
	zk_log_last_error(detail);
	is_str(detail, "The ZooKeeper client library reported: SASL negotiation: no mechanism available.",
		   "S177: the first of two complaints has the cause");
	take_log_lines("");
	zk_log_given_up("10.0.0.1:2181", "why");
	next_line("closing connection to 10.0.0.1:2181: why", true, 1, 0);
	zk_log_cause(ZK_ERR_TLS, "Why.");
	next_line("Why.", false, 1, 0);
}

int
main(void)
{
	char		detail[ZK_DETAIL_SIZE];

	for (size_t i = 0; i < lengthof(complaints); i++)
	{
		const Complaint *c = &complaints[i];
		ZkError		kind;

		zk_log_broken_off(c->broken_off);
		zk_log_callback(c->line);
		kind = zk_log_last_error(detail);
		is_str(detail, c->detail, "S71: %s", strstr(c->line, "errno"));
		is_int(kind, c->kind, "and what that is about");
	}
	zk_log_clear_error();
	is_int(zk_log_last_error(detail), ZK_OK, "nothing is complained about any more");
	is_int((int) strlen(detail), 0, "and nothing is said");
	take_log_lines("");
	test_lines();
	test_causes();
	return done_testing();
}
