/*-------------------------------------------------------------------------
 *
 * answer.h
 *	  What the code of an answer says: to try again, or why not.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ANSWER_H
#define ZKLOCK_ANSWER_H

#include <stdbool.h>

#include "zk_types.h"

extern bool zk_is_connection_error(int rc);
extern bool zk_is_transient(int rc);
extern ZkError zk_answer_error(int rc);
extern const char *zk_answer_text(int rc);

#endif							/* ZKLOCK_ANSWER_H */
