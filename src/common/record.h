/*-------------------------------------------------------------------------
 *
 * record.h
 *	  The record of a lock as text: pure functions (record.c).
 *
 * For backend/ and client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECORD_H
#define ZKLOCK_RECORD_H

#include "zk_record.h"
#include "zk_types.h"

/* Where the records are, below the root. */
#define ZK_RECORDS_NODE			"/.zklock/records"

/* Longest path of a record, terminating NUL included. */
#define ZK_RECORD_PATH_SIZE		(ZK_NODE_PATH_SIZE + 32)

/* Longest path of a holder's unclean marker, terminating NUL included. */
#define ZK_MARKER_PATH_SIZE		(ZK_RECORD_PATH_SIZE + ZK_NAME_SIZE)

/* Enough for the text of a record of ours, terminating NUL included. */
#define ZK_RECORD_SIZE			2560

/* Longer data is no record, not even of a later version. */
#define ZK_RECORD_MAX_DATA		4096

extern void zk_record_path(const char *node, size_t root_len, char *path);
extern size_t zk_path_above(const char *path, size_t len);
extern bool zk_path_next_above(const char *path, size_t root_len, size_t *len,
							   bool there);
extern void zk_record_parse(const char *data, int len, ZkRecord *record);
extern int	zk_record_format(const ZkRecord *record, char *text);
extern void zk_record_merge(ZkRecord *record, const ZkRecord *later);
extern bool zk_record_shows(const ZkRecord *record, const ZkRecord *written);

#endif							/* ZKLOCK_RECORD_H */
