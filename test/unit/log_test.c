/*-------------------------------------------------------------------------
 *
 * log_test.c
 *	  Tests of log.c: what the library's complaints are to a user.
 *
 *-------------------------------------------------------------------------
 */
#include "inside.h"
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
	return done_testing();
}
