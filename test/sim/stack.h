/*-------------------------------------------------------------------------
 *
 * stack.h
 *	  Stacks for tasks, and going from one to another.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STACK_H
#define STACK_H

typedef struct Stack Stack;

/*
 * A stack on which main() begins when it is entered for the first time; main()
 * must not return, but leave for good.
 */
extern Stack *stack_make(void (*main) (void));
extern void stack_free(Stack *stack);

/* From the program's own stack to this one, until that is left. */
extern void stack_enter(Stack *stack);
extern void stack_leave(Stack *stack);

#endif							/* STACK_H */
