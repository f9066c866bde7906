/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  The slots of the mailbox: one for each contender.
 *
 * A slot is taken by the backend, for a contender that it asks for, or by the client,
 * for a znode that is only to be deleted; and freed by the client when the contender
 * is gone for certain and nobody looks at it.  Its number is that of the engine's
 * Contender, too.
 *
 * All functions may be called by any thread that holds the door's lock.
 *
 * IDENTIFICATION
 *	  src/client/slot.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"

/*
 * Allocate a slot for a contender of a lock node.  Returns NULL, with *error set,
 * if there is no room or no memory.
 */
DoorSlot *
zk_slot_allocate(Door *door, const char *node, ZkError *error)
{
	DoorSlot   *slot;
	int			bytes = (int) strlen(node) + ZK_NAME_SIZE;
	int			index;

	*error = ZK_ERR_LIMIT;
	if (door->path_bytes + bytes > ZK_MAX_PATH_BYTES)
		return NULL;
	if (door->first_free != ZK_NO_SLOT)
		index = door->first_free;
	else if (door->used < ZK_MAX_CONTENDERS)
		index = door->used;
	else
		return NULL;

	*error = ZK_ERR_NO_MEMORY;
	if (!zk_array_provide(&door->slot_array, index + 1) ||
		!zk_array_provide(&door->engine_array, index + 1))
		return NULL;
	slot = &door->slots[index];
	slot->node = strdup(node);
	if (slot->node == NULL)
		return NULL;

	if (index == door->used)
		door->used++;
	else
		door->first_free = slot->next;
	if (slot->generation == 0)
		slot->generation = 1;
	slot->in_use = true;
	slot->dead = slot->ordered = false;
	slot->relied_on = slot->counted = false;
	slot->order = ZK_ORDER_NONE;
	slot->partner = slot->next_member = ZK_NO_SLOT;
	slot->permits = 0;
	slot->owner = NULL;
	slot->owner_len = 0;
	slot->room = NULL;
	slot->lock_delay = 0;
	slot->max_hold = 0;
	slot->no_wait = false;
	memset(&slot->status, 0, sizeof(slot->status));
	door->path_bytes += bytes;
	door->contenders++;
	*error = ZK_OK;
	return slot;
}

/*
 * Free a slot, and all that it owns.
 */
void
zk_slot_free(Door *door, DoorSlot *slot)
{
	door->path_bytes -= (int) strlen(slot->node) + ZK_NAME_SIZE;
	door->contenders--;
	free(slot->node);
	free(slot->owner);
	free(slot->room);
	slot->node = slot->owner = NULL;
	slot->room = NULL;
	slot->in_use = false;
	slot->generation++;
	slot->next = door->first_free;
	door->first_free = (uint16_t) (slot - door->slots);
}

/*
 * Fill a slot that was allocated with what its contender is to be: a copy of the
 * data, with room for its token, and room for a record if it is to have one.  False if out of memory.
 */
static bool
slot_fill(DoorSlot *slot, const ZkContenderWish *wish)
{
	slot->mode = wish->mode;
	slot->permits = wish->permits;
	slot->owner = malloc(wish->owner_len + ZK_TOKEN_ROOM);
	if (slot->owner == NULL)
		return false;
	memcpy(slot->owner, wish->owner, wish->owner_len);
	slot->owner_len = (int) wish->owner_len;
	slot->lock_delay = wish->lock_delay;
	slot->max_hold = wish->max_hold;
	slot->no_wait = wish->no_wait;
	slot->root_len = wish->root != NULL ? strlen(wish->root) : 0;
	if (!wish->record)
		return true;
	slot->room = calloc(1, sizeof(RecordRoom));
	if (slot->room == NULL)
		return false;
	slot->room->root_len = slot->root_len;
	slot->room->version = -1;
	return true;
}

/*
 * Allocate a slot with data for each of these lock nodes, and put their numbers
 * into slots; all or none: then *error says why.
 */
bool
zk_slots_allocate(Door *door, const ZkContenderWish *wish, int count,
				  const char *const *nodes, uint16_t *slots, ZkError *error)
{
	int			done = 0;

	for (; done < count; done++)
	{
		DoorSlot   *slot = zk_slot_allocate(door, nodes[done], error);

		if (slot == NULL)
			break;
		slots[done] = (uint16_t) (slot - door->slots);
		if (!slot_fill(slot, wish))
		{
			*error = ZK_ERR_NO_MEMORY;
			zk_slot_free(door, slot);
			break;
		}
	}
	for (int i = 0; done < count && i < done; i++)
		zk_slot_free(door, &door->slots[slots[i]]);
	return done == count;
}
