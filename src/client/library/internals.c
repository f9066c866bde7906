/*-------------------------------------------------------------------------
 *
 * internals.c
 *	  What zklock uses of libzookeeper that is not part of its interface.
 *
 * Every private symbol of the library is named here, and nowhere else
 * (test/check-symbols): rule N3 in library.h.  src/library.mk lists the
 * versions that have them.  Some files assume what the library does inside, and
 * say so: threads.c (its threads), packets.c and socket.c (how it reads and
 * writes) and tls.c (its calls of OpenSSL).  No file assumes the layout of a
 * struct of its.
 *
 *-------------------------------------------------------------------------
 */
#include "inside.h"

#ifdef ZKLOCK_STATIC_LIBRARY

/* The main function of the I/O thread. */
extern void *do_io(void *zh);

/* The main function of the completion thread, and its first act. */
extern void *do_completion(void *zh);
extern void notify_thread_ready(zhandle_t *zh);

/* Count the users of a handle, which is freed with the last. */
extern int32_t inc_ref_counter(zhandle_t *zh, int by);

/* Run all completions that are due, on this thread. */
extern void process_completions(zhandle_t *zh);

/* Send what is in the handle's queue, under its lock, without waiting. */
extern int	flush_send_queue(zhandle_t *zh, int timeout);

/* See that the queue is sent: by the I/O thread, or within a timeout. */
WRAPPED(int, adaptor_send_queue, zhandle_t *zh, int timeout);

/* End the library's threads, when a handle is closed. */
WRAPPED(void, adaptor_finish, zhandle_t *zh);

/* Be the I/O thread of that handle, until it is closed. */
void *
zk_internals_io(zhandle_t *zh)
{
	return do_io(zh);
}

/*
 * If a thread with that main function is the completion thread, do what that
 * would begin with, and return true: the I/O thread waits for it, and its end
 * must not free the handle, as if the thread that closes it were the only user
 * left.  Helper.
 */
bool
zk_internals_replace_completion_thread(void *(*start) (void *), zhandle_t *zh)
{
	if (start != do_completion)
		return false;
	inc_ref_counter(zh, 1);
	notify_thread_ready(zh);
	return true;
}

/*
 * As adaptor_finish(), which gives back the share of a completion thread when
 * it joins the other thread; the caller has a share of its own.  Helper.
 */
void
__wrap_adaptor_finish(zhandle_t *zh)
{
	__real_adaptor_finish(zh);
	inc_ref_counter(zh, -1);
}

/* Run the completions of what has come.  I/O thread, without any lock. */
void
zk_internals_complete(zhandle_t *zh)
{
	process_completions(zh);
}

/*
 * Send what is in the handle's queue, as far as it goes without waiting.
 * Returns true unless the connection failed.  Any client thread.
 */
bool
zk_internals_flush(zhandle_t *zh)
{
	return flush_send_queue(zh, 0) == ZOK;
}

/*
 * Have the I/O thread send what is in the handle's queue; or, with a timeout,
 * send it now, as when the handle is closed.  Any client thread.
 */
int
zk_internals_wake_sender(zhandle_t *zh, int timeout)
{
	return __real_adaptor_send_queue(zh, timeout);
}

#endif							/* ZKLOCK_STATIC_LIBRARY */

/*
 * Returns true if this state of a handle says that a connection with TLS is
 * being made.
 */
bool
zk_transport_connecting(int state)
{
	extern const int ZOO_SSL_CONNECTING_STATE;

	return state == ZOO_SSL_CONNECTING_STATE;
}
