/*-------------------------------------------------------------------------
 *
 * internals.h
 *	  What zklock uses of libzookeeper that is not part of its interface.
 *
 * For the files beside this one.  Every private symbol of the library is named
 * here and in internals.c, and nowhere else (test/check-symbols): rule N3 in
 * library.h.  What the library does inside is assumed in a few places more,
 * which say so: threads.c (which threads there are), packets.c (how it reads
 * and writes) and tls.c (what it calls of OpenSSL).  No layout of a struct is.
 *
 * IDENTIFICATION
 *	  src/client/library/internals.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_INTERNALS_H
#define ZKLOCK_INTERNALS_H

#include "library.h"

#ifdef ZKLOCK_STATIC_LIBRARY

#include <zookeeper/zookeeper_version.h>

/* The versions that all this was read in, and tried with; as in library.mk. */
_Static_assert(__builtin_strncmp(ZOO_VERSION, "3.8.", 4) == 0 ||
			   __builtin_strncmp(ZOO_VERSION, "3.9.", 4) == 0,
			   "the inside of this version of libzookeeper_mt is not known");

/* Two private functions whose calls the linker sends to us (--wrap). */
extern int	__wrap_adaptor_send_queue(zhandle_t *zh, int timeout);	/* socket.c */
extern void __wrap_adaptor_finish(zhandle_t *zh);	/* internals.c */

extern bool zk_internals_is_completion_thread(void *(*start) (void *));
extern void zk_internals_completion_thread_ready(zhandle_t *zh);
extern void zk_internals_complete(zhandle_t *zh);
extern bool zk_internals_flush(zhandle_t *zh);
extern int	zk_internals_wake_sender(zhandle_t *zh, int timeout);

#endif							/* ZKLOCK_STATIC_LIBRARY */

#endif							/* ZKLOCK_INTERNALS_H */
