/*-------------------------------------------------------------------------
 *
 * seam.h
 *	  What the lock client calls of the C library, in the simulated world.
 *
 * Each does what the function does whose name seam.list has beside it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SEAM_H
#define SEAM_H

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

extern void *seam_malloc(size_t size);
extern void *seam_calloc(size_t count, size_t size);
extern void *seam_realloc(void *old, size_t size);
extern void seam_free(void *memory);
extern char *seam_strdup(const char *text);
extern char *seam_strndup(const char *text, size_t size);
extern int	seam_asprintf(char **text, const char *fmt,...)
			__attribute__((format(printf, 2, 3)));
extern int	seam_asprintf_chk(char **text, int flag, const char *fmt,...)
			__attribute__((format(printf, 3, 4)));
extern int	seam_mallopt(int parameter, int value);
extern void *seam_mmap(void *address, size_t size, int protection, int flags, int fd,
					   off_t offset);
extern int	seam_munmap(void *address, size_t size);
extern int	seam_mprotect(void *address, size_t size, int protection);
extern int	seam_clock_gettime(clockid_t clock, struct timespec *time);
extern ssize_t seam_getrandom(void *data, size_t size, unsigned int flags);
extern pid_t seam_getpid(void);
extern int	seam_getaddrinfo(const char *host, const char *service,
							 const struct addrinfo *hints, struct addrinfo **result);
extern void seam_freeaddrinfo(struct addrinfo *result);
extern int	seam_eventfd(unsigned int count, int flags);
extern int	seam_timerfd_create(int clock, int flags);
extern int	seam_timerfd_settime(int fd, int flags, const struct itimerspec *new,
								 struct itimerspec *old);
extern ssize_t seam_read(int fd, void *data, size_t size);
extern ssize_t seam_write(int fd, const void *data, size_t size);
extern int	seam_close(int fd);
extern int	seam_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
extern int	seam_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t * attr);
extern int	seam_mutex_destroy(pthread_mutex_t *mutex);
extern int	seam_mutex_lock(pthread_mutex_t *mutex);
extern int	seam_mutex_trylock(pthread_mutex_t *mutex);
extern int	seam_mutex_unlock(pthread_mutex_t *mutex);
extern bool seam_is_locked(const pthread_mutex_t *mutex);
extern int	seam_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
extern int	seam_cond_destroy(pthread_cond_t *cond);
extern int	seam_cond_signal(pthread_cond_t *cond);
extern int	seam_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
								const struct timespec *until);
extern int	seam_join(pthread_t thread, void **result);
extern int	seam_detach(pthread_t thread);
extern int	seam_sigmask(int how, const sigset_t * set, sigset_t * old);
extern int	seam_condattr_init(pthread_condattr_t *attr);
extern int	seam_condattr_destroy(pthread_condattr_t *attr);
extern int	seam_condattr_setclock(pthread_condattr_t *attr, clockid_t clock);

#endif							/* SEAM_H */
