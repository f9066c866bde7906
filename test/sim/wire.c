/*-------------------------------------------------------------------------
 *
 * wire.c
 *	  Copies of what clients and servers say to each other, and their ends.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "wire.h"

/* Returns an empty packet; its buffers are null. */
Packet *
packet_make(PacketKind kind)
{
	Packet	   *packet = sim_alloc(sizeof(Packet));

	packet->kind = kind;
	packet->op.len = -1;
	packet->result.len = -1;
	return packet;
}

/* Frees the packet and all that it owns. */
void
packet_free(Packet *packet)
{
	if (packet == NULL)
		return;
	op_free(&packet->op);
	result_free(&packet->result);
	free(packet->scheme);
	free(packet->credential);
	free(packet->path);
	strings_free(&packet->data_watches);
	strings_free(&packet->exist_watches);
	strings_free(&packet->child_watches);
	free(packet);
}

void
op_free(Op *op)
{
	free(op->path);
	free(op->data);
	acl_free(&op->acl);
	for (int i = 0; i < op->count; i++)
		op_free(&op->ops[i]);
	free(op->ops);
	memset(op, 0, sizeof(Op));
}

void
result_free(Result *result)
{
	free(result->path);
	free(result->data);
	strings_free(&result->children);
	acl_free(&result->acl);
	for (int i = 0; i < result->count; i++)
		result_free(&result->results[i]);
	free(result->results);
	memset(result, 0, sizeof(Result));
}

void
acl_copy(struct ACL_vector *to, const struct ACL_vector *from)
{
	int			count = from->data != NULL ? from->count : 0;

	to->count = count;
	to->data = NULL;
	if (count > 0)
		to->data = sim_alloc(sizeof(struct ACL) * (size_t) count);
	for (int i = 0; i < count; i++)
	{
		to->data[i].perms = from->data[i].perms;
		to->data[i].id.scheme = sim_strdup(from->data[i].id.scheme);
		to->data[i].id.id = sim_strdup(from->data[i].id.id);
	}
}

void
acl_free(struct ACL_vector *acl)
{
	for (int i = 0; i < acl->count && acl->data != NULL; i++)
	{
		free(acl->data[i].id.scheme);
		free(acl->data[i].id.id);
	}
	free(acl->data);
	acl->data = NULL;
	acl->count = 0;
}

/* Appends a copy of the text; there is room for a power of two of them. */
void
strings_add(struct String_vector *strings, const char *text)
{
	int			count = strings->count;

	if ((count & (count - 1)) == 0)
		strings->data = sim_realloc(strings->data,
									sizeof(char *) * (size_t) (count == 0 ? 1 : 2 * count));
	strings->data[strings->count++] = sim_strdup(text);
}

void
strings_free(struct String_vector *strings)
{
	for (int i = 0; i < strings->count; i++)
		free(strings->data[i]);
	free(strings->data);
	strings->data = NULL;
	strings->count = 0;
}
