/*-------------------------------------------------------------------------
 *
 * packets_fuzz.c
 *	  The stream of bytes that a server sends (S369), in pieces of any size.
 *
 * The first byte of the input says whether a session is resumed, and how the stream is cut;
 * the second one how many requests were sent, whose kinds follow.  The rest is the stream,
 * received as the library does: the handshake, and then a length and a packet, by turns.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>

#include "inside.h"

#include "fuzz.h"
#include "random.h"
#include "reply.h"
#include "requests.h"

#define SOCKET			7
#define SESSION			7
#define MAX_REQUESTS	8

/* The most bytes of the handshake, with its length, in each direction. */
#define ANSWER_SIZE		41
#define HELLO_SIZE		45
#define SESSION_AT		(4 + 16)

/* What came of a stream. */
typedef struct Outcome
{
	size_t		seen;			/* bytes that the library has seen */
	int			packets;		/* whole ones */
	bool		greeted;
	bool		refused;
	char		why[ZK_REPLY_WHY];
} Outcome;

/* How pieces are cut: all that is wanted, a byte, or at random. */
typedef enum Cut
{
	CUT_NONE,
	CUT_BYTES,
	CUT_RANDOM
} Cut;

typedef struct Server
{
	const uint8_t *at;
	size_t		left;
	Cut			cut;
} Server;

/* Have the library send that, in pieces. */
static void
send_all(const void *data, size_t size, Cut cut)
{
	const char *at = data;

	while (size > 0)
	{
		size_t		piece = cut == CUT_NONE ? size : cut == CUT_BYTES ? 1 :
		1 + (size_t) random_below((int) size);

		CHECK(zk_packets_sending(SOCKET, at, size));
		zk_packets_sent(SOCKET, at, piece);
		at += piece;
		size -= piece;
	}
}

static void
send_packet(const void *data, size_t size, Cut cut)
{
	uint32_t	length = htonl((uint32_t) size);

	send_all(&length, sizeof(length), cut);
	send_all(data, size, cut);
}

/* Have the library ask for a session, and for what these bytes say. */
static void
send_requests(bool resumed, const uint8_t *kinds, size_t count, Cut cut)
{
	static const uint8_t ops[] = {0, 1, 2, 3};
	char		hello[HELLO_SIZE - 4] = {0};
	int32_t		xid = 0;

	hello[SESSION_AT + 7 - 4] = resumed ? SESSION : 0;
	send_packet(hello, sizeof(hello), cut);
	for (size_t i = 0; i < count; i++)
	{
		struct oarchive *request = request_make(kinds[i] % REQUEST_KINDS, &xid, ops,
												sizeof(ops));

		send_packet(get_buffer(request), (size_t) get_buffer_len(request), cut);
		close_buffer_oarchive(&request, 1);
	}
}

/*
 * Receives a piece of what the library wants, at most size bytes.  Returns its length; 0 at
 * the end of the stream, or of the library's trust.
 */
static size_t
receive(Server *server, uint8_t *to, size_t size, Outcome *outcome)
{
	size_t		most = size < server->left ? size : server->left;
	size_t		piece = most;

	if (most == 0)
		return 0;
	if (server->cut != CUT_NONE)
		piece = server->cut == CUT_BYTES ? 1 : 1 + (size_t) random_below((int) most);
	memcpy(to, server->at, piece);
	server->at += piece;
	server->left -= piece;
	switch (zk_packets_received(SOCKET, to, piece, outcome->why))
	{
		case ZK_RECEIVED_GREETING:
			CHECK(!outcome->greeted && outcome->why[0] == '\0');
			break;
		case ZK_RECEIVED_PACKET:
			CHECK(outcome->greeted && outcome->why[0] == '\0');
			break;
		case ZK_REFUSED_GREETING:
			CHECK(!outcome->greeted && outcome->why[0] != '\0');
			outcome->refused = true;
			return 0;
		case ZK_REFUSED_PACKET:
			CHECK(outcome->greeted && outcome->why[0] != '\0');
			outcome->refused = true;
			return 0;
	}
	outcome->seen += piece;
	return piece;
}

/* Receives as much as the library wants.  Returns false if it does not come. */
static bool
receive_all(Server *server, uint8_t *to, size_t size, Outcome *outcome)
{
	for (size_t have = 0, piece; have < size; have += piece)
	{
		piece = receive(server, to + have, size - have, outcome);
		if (piece == 0)
			return false;
	}
	return true;
}

/*
 * Receives the handshake, which is a byte shorter if the server is old; such a server sends
 * nothing else before it is asked.
 */
static bool
receive_greeting(Server *server, bool resumed, Outcome *outcome)
{
	uint8_t    *answer = malloc(ANSWER_SIZE);
	bool		is_old;
	bool		whole;
	uint32_t	words[5] = {0};

	CHECK(answer != NULL);
	is_old = server->left < ANSWER_SIZE || server->at[3] != ZK_GREETING;
	whole = receive_all(server, answer, is_old ? ANSWER_SIZE - 1 : ANSWER_SIZE, outcome) &&
		(!is_old || answer[3] == ZK_GREETING_OLD);
	if (whole)
	{
		memcpy(words, answer, sizeof(words));
		CHECK(words[1] == 0);
		if (words[3] == 0 && words[4] == 0)
			CHECK(resumed && words[2] == 0);
		else
			CHECK((int32_t) ntohl(words[2]) > 0 && (!resumed || ntohl(words[4]) == SESSION));
	}
	free(answer);
	outcome->greeted = whole;
	return whole;
}

/* Receives a packet into memory for no more of it than will come. */
static bool
receive_packet(Server *server, Outcome *outcome)
{
	uint32_t	word;
	uint8_t    *packet;
	size_t		length;
	bool		whole;

	if (!receive_all(server, (uint8_t *) &word, sizeof(word), outcome))
		return false;
	length = ntohl(word);
	CHECK(length >= ZK_REPLY_HEADER && length <= 64 * 1024 * 1024);
	if (length > server->left)
	{
		packet = malloc(server->left + 1);
		CHECK(packet != NULL);
		whole = receive_all(server, packet, server->left, outcome);
		free(packet);
		CHECK(whole);
		return false;
	}
	packet = malloc(length);
	CHECK(packet != NULL);
	whole = receive_all(server, packet, length, outcome);
	outcome->packets += whole;
	free(packet);
	return whole;
}

/* Has a connection from its begin to its end. */
static Outcome
connect_once(const uint8_t *data, size_t size, Cut cut)
{
	bool		resumed = (data[0] & 1) != 0;
	size_t		requests = data[1] % (MAX_REQUESTS + 1);
	Outcome		outcome = {0};
	Server		server = {.cut = cut};

	if (requests > size - 2)
		requests = size - 2;
	server.at = data + 2 + requests;
	server.left = size - 2 - requests;
	seed_random(data[0]);
	CHECK(zk_packets_begin(SOCKET));
	send_requests(resumed, data + 2, requests, cut);
	if (receive_greeting(&server, resumed, &outcome))
		while (receive_packet(&server, &outcome))
			;
	zk_packets_end(SOCKET);
	return outcome;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Outcome		whole;

	if (size < 2)
		return 0;
	whole = connect_once(data, size, CUT_NONE);
	for (Cut cut = CUT_BYTES; cut <= CUT_RANDOM; cut++)
	{
		Outcome		other = connect_once(data, size, cut);

		CHECK(other.packets == whole.packets && other.greeted == whole.greeted);
		CHECK(other.refused == whole.refused);
		CHECK(!whole.greeted || strcmp(other.why, whole.why) == 0);
	}
	return 0;
}
