/*-------------------------------------------------------------------------
 *
 * context_test.c
 *	  Tests of context.h: serials that wrap, on pointers of any size.
 *
 *-------------------------------------------------------------------------
 */
#include "context.h"
#include "random.h"
#include "tap.h"

#define ROUNDS	200000

/* Fewer than the serials that two bytes leave. */
#define RECENT	400

/* A table of requests, as request.c has it, and the contexts that were given out last. */
typedef struct Table
{
	size_t		pointer_size;
	uint32_t	last_serial;
	bool		used[ZK_CONTEXT_INDEXES];
	uint32_t	serials[ZK_CONTEXT_INDEXES];
	uint64_t	contexts[ZK_CONTEXT_INDEXES];
	uint64_t	answered[RECENT];	/* a ring; 0 for none */
	int			next;
} Table;

/* What remains of a number in a pointer of that size. */
static uint64_t
as_pointer(uint64_t number, size_t pointer_size)
{
	return pointer_size < 8 ? number & ((UINT64_C(1) << pointer_size * 8) - 1) : number;
}

/* The request that a context is of; -1 for none. */
static int
find(const Table *table, uint64_t context)
{
	unsigned int index = zk_context_index(context);

	return table->used[index] &&
		table->serials[index] == zk_context_serial(context) ? (int) index : -1;
}

/* Make a request at a free index. */
static void
begin(Table *table, unsigned int index)
{
	table->last_serial = zk_context_next_serial(table->last_serial, table->pointer_size);
	table->used[index] = true;
	table->serials[index] = table->last_serial;
	table->contexts[index] = as_pointer(zk_context_make(index, table->last_serial),
										table->pointer_size);
}

/* Requests are made and answered at random, from that serial on, and answered again. */
static void
test_table(size_t pointer_size, uint32_t serial)
{
	Table		table = {.pointer_size = pointer_size,.last_serial = serial};
	int			lost = 0;
	int			mistaken = 0;
	int			zeros = 0;

	seed_random(pointer_size);
	for (int i = 0; i < ROUNDS; i++)
	{
		unsigned int index = (unsigned int) random_below(ZK_CONTEXT_INDEXES);

		if (!table.used[index])
		{
			begin(&table, index);
			zeros += table.last_serial == 0 || table.contexts[index] == 0;
			continue;
		}
		lost += find(&table, table.contexts[index]) != (int) index;
		table.used[index] = false;
		table.answered[table.next++ % RECENT] = table.contexts[index];
		mistaken += find(&table, table.answered[random_below(RECENT)]) >= 0;
	}
	is_int(lost, 0, "S253: %d bytes: each answer finds its request",
		   (int) pointer_size);
	is_int(mistaken, 0, "S253: %d bytes: one that comes again finds none",
		   (int) pointer_size);
	is_int(zeros, 0, "S253: %d bytes: no serial is 0", (int) pointer_size);
}

/* All serials that there are come, one after the other. */
static void
test_round(void)
{
	uint32_t	last = zk_context_last_serial(2);
	uint32_t	serial = 0;

	is_int((int) last, 1023, "two bytes leave ten bits");
	for (uint32_t i = 1; i <= last; i++)
		serial = zk_context_next_serial(serial, 2);
	ok(serial == last, "the last one comes");
	ok(zk_context_next_serial(serial, 2) == 1, "and then the first one");
	ok(zk_context_last_serial(4) == 0x3FFFFFF, "four bytes leave 26 bits");
	ok(zk_context_last_serial(8) == UINT32_MAX, "eight bytes are enough for all");
}

int
main(void)
{
	test_round();
	test_table(2, 0);
	test_table(4, 0);
	test_table(4, 0x3FFFFFF - 1000);
	test_table(8, UINT32_MAX - 1000);
	test_table(sizeof(void *), 65000);
	return done_testing();
}
