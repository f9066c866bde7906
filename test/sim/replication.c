/*-------------------------------------------------------------------------
 *
 * replication.c
 *	  What leader and followers say to each other, and the log of a server.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "server.h"

PeerMessage *
peer_make(PeerKind kind)
{
	PeerMessage *message = sim_alloc(sizeof(PeerMessage));

	message->kind = (int) kind;
	return message;
}

void
peer_free(void *body)
{
	PeerMessage *message = body;

	for (int i = 0; message->txns != NULL && i < message->count; i++)
		txn_drop(message->txns[i]);
	free(message->txns);
	free(message->touches);
	request_drop(message->request);
	free(message);
}

void
peer_send(Server *from, Link *link, PeerMessage *message)
{
	Message		envelope = {message, peer_free};

	link_send(link, from->host, envelope);
}

/* Returns the zxid of the last transaction of the log. */
int64_t
log_last(const Log *log)
{
	return log->count > 0 ? log->txns[log->count - 1]->zxid : log->base;
}

void
log_append(Log *log, Transaction *txn)
{
	if (log->count == log->room)
	{
		log->room = log->room == 0 ? 64 : log->room * 2;
		log->txns = sim_realloc(log->txns, sizeof(Transaction *) * (size_t) log->room);
	}
	log->txns[log->count++] = txn;
}

/* Returns how many transactions of the log are not later than that zxid. */
int
log_find(const Log *log, int64_t zxid)
{
	int			low = 0;
	int			high = log->count;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (log->txns[middle]->zxid <= zxid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Forgets all but the first so many.  What is applied must stay. */
void
log_cut(Log *log, int count)
{
	if (count < log->applied)
		sim_violation("ensemble", "a committed transaction is cut off");
	while (log->count > count)
		txn_drop(log->txns[--log->count]);
}

/* Drops what is applied here and everywhere: up to that zxid. */
void
log_drop(Log *log, int64_t zxid)
{
	int			count = log_find(log, zxid);

	if (count == 0)
		return;
	log->base = log->txns[count - 1]->zxid;
	for (int i = 0; i < count; i++)
		txn_drop(log->txns[i]);
	memmove(log->txns, log->txns + count,
			sizeof(Transaction *) * (size_t) (log->count - count));
	log->count -= count;
	log->applied -= count;
}

void
log_end(Log *log)
{
	for (int i = 0; i < log->count; i++)
		txn_drop(log->txns[i]);
	free(log->txns);
	memset(log, 0, sizeof(Log));
}

void
server_apply_up_to(Server *server, int64_t zxid)
{
	Log		   *log = &server->log;

	while (log->applied < log->count && log->txns[log->applied]->zxid <= zxid)
		server_apply(server, log->txns[log->applied++]);
}
