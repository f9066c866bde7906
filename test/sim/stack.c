/*-------------------------------------------------------------------------
 *
 * stack.c
 *	  Stacks for tasks, and going from one to another.
 *
 * makecontext() begins a stack, and _longjmp() changes from one to another,
 * which takes no system call.  AddressSanitizer wants to know of each change, and
 * does not get along with _longjmp(); for it there is swapcontext().
 *
 *-------------------------------------------------------------------------
 */
#undef _FORTIFY_SOURCE			/* it takes a change of stacks for an error */

#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK_SIZE		(1024 * 1024)
#else
#define STACK_SIZE		(256 * 1024)
#endif

#include "sim.h"
#include "stack.h"

struct Stack
{
	char	   *memory;
	void		(*main) (void);
	bool		begun;
	ucontext_t	context;
	jmp_buf		place;
	void	   *fake;			/* AddressSanitizer's */
};

static char *free_memory;		/* each begins with a pointer to the next */
static ucontext_t program;

#ifdef __SANITIZE_ADDRESS__
static const void *program_stack;
static size_t program_size;
static void *program_fake;
#else
static jmp_buf program_place;
#endif

static char *
get_memory(void)
{
	char	   *memory = free_memory;

	if (memory != NULL)
	{
		free_memory = *(char **) memory;
		return memory;
	}
	memory = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		sim_violation("simulation", "no memory for a stack");
	return memory;
}

Stack *
stack_make(void (*main) (void))
{
	Stack	   *stack = sim_alloc(sizeof(Stack));

	stack->memory = get_memory();
	stack->main = main;
	return stack;
}

void
stack_free(Stack *stack)
{
	if (stack == NULL)
		return;
#ifdef __SANITIZE_ADDRESS__
	__asan_unpoison_memory_region(stack->memory, STACK_SIZE);
#endif
	*(char **) stack->memory = free_memory;
	free_memory = stack->memory;
	free(stack);
}

#ifdef __SANITIZE_ADDRESS__

/* The stack that is about to begin. */
static Stack *beginning;

static void
begin(void)
{
	__sanitizer_finish_switch_fiber(NULL, &program_stack, &program_size);
	beginning->main();
}

void
stack_enter(Stack *stack)
{
	if (!stack->begun)
	{
		stack->begun = true;
		getcontext(&stack->context);
		stack->context.uc_stack.ss_sp = stack->memory;
		stack->context.uc_stack.ss_size = STACK_SIZE;
		stack->context.uc_link = NULL;
		makecontext(&stack->context, begin, 0);

		/*
		 * swapcontext() would forget what AddressSanitizer knows of the whole
		 * stack.
		 */
		stack->context.uc_stack.ss_size = 0;
		beginning = stack;
	}
	__sanitizer_start_switch_fiber(&program_fake, stack->memory, STACK_SIZE);
	swapcontext(&program, &stack->context);
	__sanitizer_finish_switch_fiber(program_fake, NULL, NULL);
}

void
stack_leave(Stack *stack)
{
	__sanitizer_start_switch_fiber(&stack->fake, program_stack, program_size);
	swapcontext(&stack->context, &program);
	__sanitizer_finish_switch_fiber(stack->fake, &program_stack, &program_size);
}

#else

void
stack_enter(Stack *stack)
{
	if (_setjmp(program_place) != 0)
		return;
	if (stack->begun)
		_longjmp(stack->place, 1);
	stack->begun = true;
	getcontext(&program);
	program.uc_stack.ss_sp = stack->memory;
	program.uc_stack.ss_size = STACK_SIZE;
	program.uc_link = NULL;
	makecontext(&program, stack->main, 0);
	setcontext(&program);
}

void
stack_leave(Stack *stack)
{
	if (_setjmp(stack->place) == 0)
		_longjmp(program_place, 1);
}

#endif
