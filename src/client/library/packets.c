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
 * What the library sends without TLS is kept, as far as there is room, and
 * leaves in one go when its sender is done (socket.c).  The library believes
 * that it is sent.  What the kernel does not take stays kept, and in front of
 * all that comes later.  The first error is remembered: the connection never
 * sends again, so that no packet is left out of the stream.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

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

/*
 * Bytes that a connection can keep.  The requests of a turn of the engine have
 * a few hundred; only those of many locks have more, and bypass it.
 */
#define MAX_KEPT		4096

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
	int			error;			/* with which sending has failed; or 0 */
	size_t		kept_size;
	char		kept[MAX_KEPT]; /* what is to be sent next */
} Connection;

/*
 * Guards connections; held while the kernel takes what is sent, for which it
 * does not wait.  May be taken with socket_lock or the lock of the library's
 * queue of requests held; log_lock after it.
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

/* The packet, or a length, is about to be sent.  Returns false with ENOMEM. */
static bool
note_sending(Connection *connection, const void *data, size_t size)
{
	if (connection->sent.left == 0 || note_packet(connection, data, size))
		return true;
	errno = ENOMEM;
	return false;
}

/* So much of it is sent. */
static void
note_sent(Connection *connection, const void *data, size_t size)
{
	if (connection->sent.left > 0)
		connection->sent.left -= size;
	else if (take_length(&connection->sent, data, size))
		connection->noted = false;
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
	noted = note_sending(connection, data, size);
	pthread_mutex_unlock(&packets_lock);
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
	note_sent(connection, data, size);
	pthread_mutex_unlock(&packets_lock);
}

/*
 * How much of what is kept is to be sent if nothing follows.  A length whose
 * packet is not there stays: another thread is about to bring that.
 */
static size_t
kept_packets(const Connection *connection)
{
	const Stream *sent = &connection->sent;
	bool		lacks_packet = sent->left > 0 && sent->left == sent->length;

	return lacks_packet && connection->kept_size >= LENGTH_WORD ?
		connection->kept_size - LENGTH_WORD : connection->kept_size;
}

/*
 * Send what is kept, and this behind it, without waiting, in one call.  Returns
 * how many bytes of this the kernel has taken; -1 with errno if none.
 */
static ssize_t
send_with_kept(Connection *connection, const void *data, size_t size)
{
	size_t		kept = size > 0 ? connection->kept_size : kept_packets(connection);
	struct iovec parts[2] = {
		{.iov_base = connection->kept,.iov_len = kept},
		{.iov_base = (void *) (uintptr_t) data,.iov_len = size}
	};
	struct msghdr message = {
		.msg_iov = kept > 0 ? parts : parts + 1,
		.msg_iovlen = (kept > 0) + (size > 0)
	};
	ssize_t		sent;
	size_t		gone;

	if (message.msg_iovlen == 0)
		return 0;
	sent = sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0)
	{
		if (errno != EAGAIN)
			connection->error = errno;
		return -1;
	}
	gone = (size_t) sent < kept ? (size_t) sent : kept;
	connection->kept_size -= gone;
	memmove(connection->kept, connection->kept + gone, connection->kept_size);
	if ((size_t) sent > kept || size == 0)
		return sent - (ssize_t) gone;
	errno = EAGAIN;
	return -1;
}

/*
 * Keep that, if keep and there is room; else send it behind what is kept.
 * Returns as send().
 */
static ssize_t
send_or_keep(Connection *connection, const void *data, size_t size, bool keep)
{
	if (connection->error != 0)
	{
		errno = connection->error;
		return -1;
	}
	if (!keep || size > MAX_KEPT - connection->kept_size)
		return send_with_kept(connection, data, size);
	memcpy(connection->kept + connection->kept_size, data, size);
	connection->kept_size += size;
	return (ssize_t) size;
}

/*
 * As send(); a connection's bytes are kept, if keep and there is room, and else
 * sent without waiting.  Any client thread, with the lock of the library's
 * queue.
 */
ssize_t
zk_packets_send(int fd, const void *data, size_t size, int flags, bool keep)
{
	Connection *connection = enter(fd);
	ssize_t		sent = -1;

	if (connection == NULL)
		return sendto(fd, data, size, flags, NULL, 0);
	if (note_sending(connection, data, size))
		sent = send_or_keep(connection, data, size, keep);
	if (sent > 0)
		note_sent(connection, data, (size_t) sent);
	pthread_mutex_unlock(&packets_lock);
	return sent;
}

/* See zk_packets_kept(). */
static int
kept_by(const Connection *connection)
{
	return connection->error != 0 ? connection->error :
		connection->kept_size > 0 ? EAGAIN : 0;
}

/*
 * Whether something is kept for a socket, which need not be a connection's.
 * Returns 0, EAGAIN if so, or the error with which sending has failed.  Any
 * client thread.
 */
int
zk_packets_kept(int fd)
{
	Connection *connection = enter(fd);
	int			kept;

	if (connection == NULL)
		return 0;
	kept = kept_by(connection);
	pthread_mutex_unlock(&packets_lock);
	return kept;
}

/*
 * Send what is kept, as far as it goes without waiting.  Returns what
 * zk_packets_kept() does then.  Any client thread.
 */
int
zk_packets_flush(int fd)
{
	Connection *connection = enter(fd);
	int			kept;

	if (connection == NULL)
		return 0;
	if (kept_by(connection) == EAGAIN)
		send_with_kept(connection, NULL, 0);
	kept = kept_by(connection);
	pthread_mutex_unlock(&packets_lock);
	return kept;
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
