/*-------------------------------------------------------------------------
 *
 * packets.c
 *	  The packets that go over the library's connection, both ways.
 *
 * socket.c and tls.c pass on what the library sends and receives, in whatever
 * pieces, unencrypted.  Requests are noted; what is received is checked when a
 * packet is complete, and before the library sees that (reply.c).
 *
 * The library receives a packet in two steps: its length, in four bytes, and,
 * into memory allocated for it, so many bytes; only the server's part of the
 * handshake it asks for as a whole.  So a packet lies in front of its last
 * bytes, and nothing needs to be copied.  It sends in the same two steps, and
 * offers all that is left of a packet each time.
 *
 * A request is noted before it is sent, as the answer may come before the
 * sending thread continues.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "reply.h"

#ifdef ZKLOCK_STATIC_LIBRARY

/*
 * The longest packet that is accepted, in bytes: a list of a million
 * contenders.  Servers have no limit for what they send.
 */
#define MAX_PACKET		(64 * 1024 * 1024)

/* Bytes of the length that stands in front of a packet. */
#define LENGTH_WORD		4

/* A stream of packets: the bytes of a length, and the rest of its packet. */
typedef struct Stream
{
	bool		begun;			/* the handshake is over, in this direction */
	size_t		have;
	unsigned char word[LENGTH_WORD];
	size_t		length;
	size_t		left;
} Stream;

/* A connection.  There is one, as there is one handle; tests have more. */
typedef struct Connection
{
	struct Connection *next;
	int			fd;
	Stream		sent;
	bool		noted;			/* the packet that is being sent */
	Stream		received;
	int64_t		session;		/* that is to be resumed; 0 for none */
	ZkUnanswered unanswered;
} Connection;

/*
 * Guards connections.  May be taken with socket_lock or the lock of the
 * library's queue of requests held; log_lock after it.
 */
static pthread_mutex_t packets_lock = PTHREAD_MUTEX_INITIALIZER;
static Connection *connections;

/* The place of a connection in the list, or its end.  packets_lock. */
static Connection **
find_place(int fd)
{
	Connection **place = &connections;

	while (*place != NULL && (*place)->fd != fd)
		place = &(*place)->next;
	return place;
}

/*
 * The connection of this socket, with packets_lock taken; NULL, without the
 * lock, if it has none.
 */
static Connection *
enter(int fd)
{
	Connection *connection;

	pthread_mutex_lock(&packets_lock);
	connection = *find_place(fd);
	if (connection == NULL)
		pthread_mutex_unlock(&packets_lock);
	return connection;
}

/*
 * A socket was made for a connection.  Returns false if out of memory.  I/O
 * thread.
 */
bool
zk_packets_begin(int fd)
{
	Connection *connection = calloc(1, sizeof(*connection));

	if (connection == NULL)
		return false;
	connection->fd = fd;
	pthread_mutex_lock(&packets_lock);
	connection->next = connections;
	connections = connection;
	pthread_mutex_unlock(&packets_lock);
	return true;
}

/* A socket, maybe a connection's, is about to be closed.  Any client thread. */
void
zk_packets_end(int fd)
{
	Connection *connection = enter(fd);

	if (connection == NULL)
		return;
	*find_place(fd) = connection->next;
	pthread_mutex_unlock(&packets_lock);
	zk_unanswered_forget(&connection->unanswered);
	free(connection);
}

/* Take bytes of a length.  Returns true if it is complete. */
static bool
take_length(Stream *stream, const void *data, size_t size)
{
	uint32_t	length;

	memcpy(stream->word + stream->have, data, size);
	stream->have += size;
	if (stream->have < LENGTH_WORD)
		return false;
	memcpy(&length, stream->word, LENGTH_WORD);
	stream->length = stream->left = ntohl(length);
	stream->have = 0;
	return true;
}

/*
 * The rest of a packet is about to be sent: note it, if that is all of it.
 * Returns false if out of memory.
 */
static bool
note_packet(Connection *connection, const void *packet, size_t size)
{
	if (connection->noted)
		return true;
	connection->noted = true;
	if (connection->sent.begun)
		return zk_unanswered_add(&connection->unanswered, packet, size);
	connection->sent.begun = true;
	connection->session = zk_greeting_session(packet, size);
	return true;
}

/*
 * The library is about to send that.  Returns false (ENOMEM) if it must not,
 * for want of memory.  Any client thread, with the lock of the library's
 * queue.
 */
bool
zk_packets_sending(int fd, const void *data, size_t size)
{
	Connection *connection = enter(fd);
	bool		noted;

	if (connection == NULL)
		return true;
	noted = connection->sent.left == 0 || note_packet(connection, data, size);
	pthread_mutex_unlock(&packets_lock);
	if (!noted)
		errno = ENOMEM;
	return noted;
}

/*
 * It has sent so many bytes of it.  Any client thread, with the lock of the
 * library's queue.
 */
void
zk_packets_sent(int fd, const void *data, size_t size)
{
	Connection *connection = enter(fd);

	if (connection == NULL)
		return;
	if (connection->sent.left > 0)
		connection->sent.left -= size;
	else if (take_length(&connection->sent, data, size))
		connection->noted = false;
	pthread_mutex_unlock(&packets_lock);
}

/*
 * Take more of the server's part of the handshake, which is one byte shorter
 * if the server is old; the library accepts both.  Returns false with the
 * reason if it is none.
 */
static bool
take_greeting(Connection *connection, const unsigned char *data, size_t size,
			  char *why)
{
	Stream	   *stream = &connection->received;
	const unsigned char *packet = data - stream->have;

	stream->have += size;
	if (!zk_greeting_begins(packet, stream->have, why))
		return false;
	if (stream->have < LENGTH_WORD + ZK_GREETING_OLD ||
		(stream->have == LENGTH_WORD + ZK_GREETING_OLD &&
		 packet[LENGTH_WORD - 1] == ZK_GREETING))
		return true;
	if (!zk_greeting_check(packet, stream->have, connection->session, why))
		return false;
	stream->begun = true;
	stream->have = 0;
	return true;
}

/*
 * Take more of a packet, or of its length.  Returns false with the reason if
 * the library must not see it.
 */
static bool
take_packet(Connection *connection, unsigned char *data, size_t size, char *why)
{
	Stream	   *stream = &connection->received;

	if (stream->left == 0)
	{
		if (!take_length(stream, data, size) ||
			(stream->length >= ZK_REPLY_HEADER && stream->length <= MAX_PACKET))
			return true;
		snprintf(why, ZK_REPLY_WHY, "invalid packet length %d",
				 (int) (uint32_t) stream->length);
		return false;
	}
	stream->left -= size;
	return stream->left > 0 ||
		zk_reply_check(&connection->unanswered, data + size - stream->length,
					   stream->length, why);
}

/*
 * The library has received that from that socket, decrypted.  If it must not
 * see it, why says the reason (ZK_REPLY_WHY bytes).  I/O thread.
 */
ZkReceived
zk_packets_received(int fd, void *data, size_t size, char *why)
{
	Connection *connection = enter(fd);
	ZkReceived	received;

	if (connection == NULL)
		return ZK_RECEIVED_PACKET;
	if (!connection->received.begun)
		received = take_greeting(connection, data, size, why) ?
			ZK_RECEIVED_GREETING : ZK_REFUSED_GREETING;
	else
		received = take_packet(connection, data, size, why) ?
			ZK_RECEIVED_PACKET : ZK_REFUSED_PACKET;
	pthread_mutex_unlock(&packets_lock);
	return received;
}

#endif							/* ZKLOCK_STATIC_LIBRARY */
