/*-------------------------------------------------------------------------
 *
 * slot.h
 *	  The slots of the mailbox: one for each contender.
 *
 * For the files of client/ that read a slot; its functions for mailbox.c
 * and orders.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SLOT_H
#define ZKLOCK_SLOT_H

#include "mailbox.h"

/* One contender as it lies in the mailbox.  All under mailbox.lock. */
struct MailboxSlot
{
	uint32_t	generation;		/* bumped when the slot is freed */
	bool		in_use;
	bool		dead;			/* abandoned: the backend's id is void */
	bool		ordered;		/* in the list of orders */
	bool		relied_on;		/* the backend took it for granted */
	bool		counted;		/* is one of Mailbox.losses */
	ZkTime		lost_at;		/* since when; 0 for never */
	bool		overtime;		/* and of Mailbox.overtimes */
	uint16_t	next;			/* next in the list of orders, or free list */
	uint16_t	partner;		/* DOWNGRADE: slot of the exclusive one */
	uint16_t	next_member;	/* REQUEST: next in the ring of its group */
	ZkOrder		order;			/* backend writes, helper takes */
	ZkLockRequest request;		/* its owner is the next but one */
	char	   *node;			/* malloc'd by the backend, freed by the
								 * helper when the slot is */
	char	   *owner;			/* malloc'd; NULL once taken.  With room for
								 * ZK_TOKEN_MEMBER */
	int			owner_len;
	RecordBuffer *record;		/* malloc'd and freed as node; NULL without a
								 * record */
	ZkContenderStatus status;	/* client writes, backend reads */
};

extern MailboxSlot *zk_slot_allocate(Mailbox *mailbox, const char *node, ZkError *error);
extern void zk_slot_free(Mailbox *mailbox, MailboxSlot *slot);
extern ZkContenderId zk_slot_id(const Mailbox *mailbox, const MailboxSlot *slot);
extern ZkContenderState zk_slot_shown_state(const MailboxSlot *slot,
											ZkContenderState state);
extern bool zk_slot_count_loss(Mailbox *mailbox, MailboxSlot *slot);
extern bool zk_slots_allocate(Mailbox *mailbox, const ZkLockRequest *request,
							  int count, const char *const *nodes,
							  uint16_t *slots, ZkError *error);

#endif							/* ZKLOCK_SLOT_H */
