/*-------------------------------------------------------------------------
 *
 * jitter.c
 *	  Random delays, so that many clients do not act at the same moment.
 *
 * Clients that began together, or that lost the same server, would stay in step
 * for ever: renew at the same time, give up a server that hangs at the same
 * time, and all connect to the next one at the same time.
 *
 *-------------------------------------------------------------------------
 */
#include <sys/random.h>
#include <unistd.h>

#include "jitter.h"

/*
 * Begins a sequence of random numbers that differs from that of any other
 * process.  Any thread.
 */
void
zk_jitter_seed(uint64_t *state)
{
	if (getrandom(state, sizeof(*state), GRND_NONBLOCK) != sizeof(*state))
		*state = (uint64_t) zk_now() ^ ((uint64_t) getpid() << 32);
	if (*state == 0)
		*state = 1;
}

/*
 * A random time of at least 0 and less than the limit, in microseconds; the
 * next one of the sequence (xorshift64*).  The caller sees to it that no other
 * thread uses it.
 */
ZkTime
zk_jitter(uint64_t *state, ZkTime limit)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return limit > 0 ? (ZkTime) ((*state * UINT64_C(0x2545F4914F6CDD1D) >> 33) %
								 (uint64_t) limit) : 0;
}
