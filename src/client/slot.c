/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  The slots of the mailbox: one for each contender.
 *
 * A slot is taken by the backend, for a contender that it asks for, or by the
 * client, for a znode that is only to be deleted; the client frees it when the
 * contender is gone for certain and nobody looks at it.  Its number is that of
 * the engine's Contender, too.
 *
 * All functions may be called by any thread that holds the mailbox's lock.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "slot.h"

/*
 * Allocate a slot for a contender of a lock node.  Returns NULL, with *error
 * set, if there is no room or no memory.
 */
MailboxSlot *
zk_slot_allocate(Mailbox *mailbox, const char *node, ZkError *error)
{
	MailboxSlot *slot;
	int			bytes = (int) strlen(node) + ZK_NAME_SIZE;
	int			index;

	*error = ZK_ERR_LIMIT;
	if (mailbox->path_bytes + bytes > ZK_MAX_PATH_BYTES)
		return NULL;
	if (mailbox->first_free != ZK_NO_SLOT)
		index = mailbox->first_free;
	else if (mailbox->used < ZK_MAX_CONTENDERS)
		index = mailbox->used;
	else
		return NULL;

	*error = ZK_ERR_NO_MEMORY;
	if (!zk_array_provide(&mailbox->slot_array, index + 1) ||
		!zk_array_provide(&mailbox->engine_array, index + 1))
		return NULL;
	slot = &mailbox->slots[index];
	slot->node = strdup(node);
	if (slot->node == NULL)
		return NULL;

	if (index == mailbox->used)
		mailbox->used++;
	else
		mailbox->first_free = slot->next;
	if (slot->generation == 0)
		slot->generation = 1;
	slot->in_use = true;
	slot->dead = slot->ordered = false;
	slot->relied_on = slot->counted = false;
	slot->lost_at = 0;
	slot->order = ZK_ORDER_NONE;
	slot->partner = slot->next_member = ZK_NO_SLOT;
	memset(&slot->request, 0, sizeof(slot->request));
	slot->owner = NULL;
	slot->owner_len = 0;
	slot->record = NULL;
	memset(&slot->status, 0, sizeof(slot->status));
	mailbox->path_bytes += bytes;
	mailbox->contenders++;
	*error = ZK_OK;
	return slot;
}

/* Free a slot, and all that it owns. */
void
zk_slot_free(Mailbox *mailbox, MailboxSlot *slot)
{
	mailbox->path_bytes -= (int) strlen(slot->node) + ZK_NAME_SIZE;
	mailbox->contenders--;
	free(slot->node);
	free(slot->owner);
	free(slot->record);
	slot->node = slot->owner = NULL;
	slot->record = NULL;
	slot->in_use = false;
	slot->generation++;
	slot->next = mailbox->first_free;
	mailbox->first_free = (uint16_t) (slot - mailbox->slots);
}

/* The id of the contender that has the slot (D3). */
ZkContenderId
zk_slot_id(const Mailbox *mailbox, const MailboxSlot *slot)
{
	return (ZkContenderId) slot->generation << 16 | (ZkContenderId) (slot - mailbox->slots);
}

/*
 * The state that the backend sees of a contender in that state: once it is
 * released, only how it ends.
 */
ZkContenderState
zk_slot_shown_state(const MailboxSlot *slot, ZkContenderState state)
{
	if (slot->order != ZK_ORDER_RELEASE || state == ZK_FAILED ||
		state == ZK_LOST || state == ZK_GONE)
		return state;
	return ZK_RELEASING;
}

/*
 * The slot has changed: count it among the losses if it is one.  Returns true
 * if it was none before.
 */
bool
zk_slot_count_loss(Mailbox *mailbox, MailboxSlot *slot)
{
	bool		before = slot->counted;
	bool		overtime = slot->overtime;

	slot->counted = slot->relied_on && !slot->dead &&
		slot->order != ZK_ORDER_RELEASE && slot->status.state == ZK_LOST;
	slot->overtime = slot->counted && slot->status.loss == ZK_LOST_OVERTIME;
	if (slot->counted && !before)
		slot->lost_at = zk_now();
	atomic_fetch_add(&mailbox->losses, slot->counted - before);
	atomic_fetch_add(&mailbox->overtimes, slot->overtime - overtime);
	return slot->counted && !before;
}

/*
 * Fill an allocated slot with a request: a copy of the data, with room for its
 * token, and a record buffer if it wants one.  Returns false if out of memory.
 */
static bool
slot_fill(MailboxSlot *slot, const ZkLockRequest *request)
{
	size_t		len = strlen(request->owner);

	slot->request = *request;
	slot->request.owner = NULL;
	slot->owner = malloc(len + ZK_TOKEN_ROOM);
	if (slot->owner == NULL)
		return false;
	memcpy(slot->owner, request->owner, len);
	slot->owner_len = (int) len;
	if (!request->record)
		return true;
	slot->record = calloc(1, sizeof(RecordBuffer));
	if (slot->record == NULL)
		return false;
	slot->record->version = -1;
	return true;
}

/*
 * Allocate a slot with data for each of these lock nodes, and put their numbers
 * into slots.  Returns false with *error, and none allocated, if that fails.
 */
bool
zk_slots_allocate(Mailbox *mailbox, const ZkLockRequest *request, int count,
				  const char *const *nodes, uint16_t *slots, ZkError *error)
{
	int			done = 0;

	for (; done < count; done++)
	{
		MailboxSlot *slot = zk_slot_allocate(mailbox, nodes[done], error);

		if (slot == NULL)
			break;
		slots[done] = (uint16_t) (slot - mailbox->slots);
		if (!slot_fill(slot, request))
		{
			*error = ZK_ERR_NO_MEMORY;
			zk_slot_free(mailbox, slot);
			break;
		}
	}
	for (int i = 0; done < count && i < done; i++)
		zk_slot_free(mailbox, &mailbox->slots[slots[i]]);
	return done == count;
}
