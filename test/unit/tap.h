/*-------------------------------------------------------------------------
 *
 * tap.h
 *	  A test program in C that speaks TAP.
 *
 * Every check prints one line; done_testing() prints the plan and returns the
 * exit status of the program, which fails if a check did.  For one thread.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_TAP_H
#define ZKLOCK_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int	tap_run = 0;
static int	tap_failed = 0;

/*
 * A check: whether it passed, and after that the format and arguments of a
 * description.  Returns whether it passed.
 */
#define ok(pass, ...) \
	tap_ok(pass, __FILE__, __LINE__, __VA_ARGS__)

/* A check that two integers, or two strings (NULL for none), are equal. */
#define is_int(got, expected, ...) \
	tap_is_int(got, expected, __FILE__, __LINE__, __VA_ARGS__)
#define is_str(got, expected, ...) \
	tap_is_str(got, expected, __FILE__, __LINE__, __VA_ARGS__)

/*
 * Print a line that is no result.
 */
static inline void
__attribute__((format(printf, 1, 2)))
diag(const char *format,...)
{
	va_list		args;

	printf("# ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

static inline bool
tap_result(bool pass, const char *file, int line, const char *format,
		   va_list args)
{
	printf("%sok %d - ", pass ? "" : "not ", ++tap_run);
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
	if (!pass)
	{
		tap_failed++;
		diag("  failed at %s line %d", file, line);
	}
	return pass;
}

static inline bool
__attribute__((format(printf, 4, 5)))
tap_ok(bool pass, const char *file, int line, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	tap_result(pass, file, line, format, args);
	va_end(args);
	return pass;
}

static inline bool
__attribute__((format(printf, 5, 6)))
tap_is_int(long long got, long long expected, const char *file, int line,
		   const char *format,...)
{
	va_list		args;

	va_start(args, format);
	tap_result(got == expected, file, line, format, args);
	va_end(args);
	if (got != expected)
		diag("  got %lld, expected %lld", got, expected);
	return got == expected;
}

static inline bool
__attribute__((format(printf, 5, 6)))
tap_is_str(const char *got, const char *expected, const char *file, int line,
		   const char *format,...)
{
	bool		pass = got == expected ||
	(got && expected && strcmp(got, expected) == 0);
	va_list		args;

	va_start(args, format);
	tap_result(pass, file, line, format, args);
	va_end(args);
	if (!pass)
		diag("  got \"%s\", expected \"%s\"", got ? got : "(none)",
			 expected ? expected : "(none)");
	return pass;
}

/* Print the plan of a program that cannot test anything, and why.  Returns its exit status. */
static inline int
skip_all(const char *why)
{
	printf("1..0 # SKIP %s\n", why);
	return 0;
}

/*
 * Print the plan.  Returns the exit status of the program.
 */
static inline int
done_testing(void)
{
	printf("1..%d\n", tap_run);
	if (tap_failed > 0)
		diag("%d of %d checks failed", tap_failed, tap_run);
	return tap_failed > 0 || tap_run == 0 ? 1 : 0;
}

#endif							/* ZKLOCK_TAP_H */
