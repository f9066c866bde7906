/*-------------------------------------------------------------------------
 *
 * chance.c
 *	  What is left to chance in the simulated world: a stream for each source.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>

#include "chance.h"
#include "hash.h"

static uint64_t seed_of_now;

void
chance_begin(uint64_t seed)
{
	seed_of_now = hash_number(seed + 1);
}

Chance
chance_numbered(uint64_t first, uint64_t second)
{
	Chance		chance = {hash_number(hash_number(seed_of_now ^ first) + second)};

	return chance;
}

Chance
chance_named(const char *fmt,...)
{
	char		name[64];
	va_list		args;
	int			len;

	va_start(args, fmt);
	len = vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	return chance_numbered(hash_text(name, (size_t) len), 0);
}

int64_t
chance_between(Chance *chance, int64_t low, int64_t high)
{
	return low + (int64_t) chance_below(chance, (uint64_t) (high - low) + 1);
}
