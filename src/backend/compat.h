/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between PostgreSQL majors, and nowhere else.
 *
 * For all files of backend/, after postgres.h.
 *
 * N1. PostgreSQL 14 to 18.  Each shim has the name and the meaning of the
 * newest major; its comment says since when that has it, and it goes with the
 * last major that needs it (test/check-style, test/versions).
 *
 * V7. Wait events have names from PostgreSQL 17 on, by what is waited for
 * (WaitPurpose); before, all of them are "Extension".
 *
 * N2. What shows of the major from outside: wait events have names from 17 on
 * (V7); 18 shows the module's version, which must be the extension's
 * (PG_MODULE_MAGIC_EXT); before 15, an unknown setting that begins with
 * "zklock." only causes a warning, and B2.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_COMPAT_H
#define ZKLOCK_COMPAT_H

#include "access/xact.h"
#include "common/jsonapi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM < 150000
#include "postmaster/autovacuum.h"
#include "replication/walsender.h"
#endif

#if PG_VERSION_NUM < 140000 || PG_VERSION_NUM >= 190000
#error "zklock supports PostgreSQL 14 to 18"
#endif

/* 18: the module's name and version can be asked for. */
#ifndef PG_MODULE_MAGIC_EXT
#define PG_MODULE_MAGIC_EXT(...)	PG_MODULE_MAGIC
#endif

/* 18: the executor is not told whether it runs once. */
#if PG_VERSION_NUM < 180000
#define EXECUTE_ONCE_PARAMETER	, bool execute_once
#define EXECUTE_ONCE_ARGUMENT	, execute_once
#else
#define EXECUTE_ONCE_PARAMETER
#define EXECUTE_ONCE_ARGUMENT
#endif

/* 18: stands before the declaration. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn		pg_attribute_noreturn()
#endif

/* 17: wait events of extensions have names. */
#if PG_VERSION_NUM < 170000
#define WaitEventExtensionNew(name)		((void) (name), PG_WAIT_EXTENSION)
#endif

/* 15.2, and minor releases of the same time: shows statements of a pipeline. */
#ifndef XACT_FLAGS_PIPELINING
#define XACT_FLAGS_PIPELINING	0
#endif

/*
 * 17: a wait event set belongs to a resource owner, or to none, and lies in
 * memory that lasts as long as the backend.
 */
#if PG_VERSION_NUM < 170000
#define CreateWaitEventSetForBackend(nevents) \
	CreateWaitEventSet(TopMemoryContext, nevents)
#else
#define CreateWaitEventSetForBackend(nevents)	CreateWaitEventSet(NULL, nevents)
#endif

/* 17: a backend's number, from 0 to MaxBackends - 1. */
#if PG_VERSION_NUM < 170000
#define MyProcNumber	(MyProc->pgprocno)
#endif

/* 17: a lexer of JSON may lie in the caller's memory; NULL has it allocated. */
static inline JsonLexContext *
json_lex_context(const char *text, int length, int encoding, bool unescape)
{
#if PG_VERSION_NUM < 170000
	return makeJsonLexContextCstringLen(unconstify(char *, text), length,
										encoding, unescape);
#else
	return makeJsonLexContextCstringLen(NULL, text, (size_t) length, encoding,
										unescape);
#endif
}

/* 16: callbacks of the JSON parser can end it. */
#if PG_VERSION_NUM < 160000
#define JSON_ACTION_RESULT		void
#define JSON_ACTION_DONE		return
#else
#define JSON_ACTION_RESULT		JsonParseErrorType
#define JSON_ACTION_DONE		return JSON_SUCCESS
#endif

/*
 * 16: one function checks a role's right to an object of any kind; here, those
 * that we need.
 */
#if PG_VERSION_NUM < 160000
#define object_aclcheck(class_id, object, role, mode) \
	((class_id) == ProcedureRelationId ? \
	 pg_proc_aclcheck(object, role, mode) : \
	 pg_namespace_aclcheck(object, role, mode))
#endif

/*
 * 16: modules are compiled with hidden visibility, what is marked is not, and
 * fmgr.h declares _PG_init.
 */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT		__attribute__((visibility("default")))
extern PGDLLEXPORT void _PG_init(void);
#endif

/*
 * 15: shared memory is requested in a hook, when the number of backends is
 * known.  Before, that was done at module load.
 */
#if PG_VERSION_NUM < 150000
typedef void (*shmem_request_hook_type) (void);
#endif

static inline void
set_shmem_request_hook(shmem_request_hook_type hook,
					   shmem_request_hook_type *previous)
{
#if PG_VERSION_NUM < 150000
	*previous = NULL;
	hook();
#else
	*previous = shmem_request_hook;
	shmem_request_hook = hook;
#endif
}

/* The greatest number of backends, for such a hook. */
static inline int
max_backends_to_be(void)
{
#if PG_VERSION_NUM < 150000
	return MaxConnections + autovacuum_max_workers + 1 + max_worker_processes +
		max_wal_senders;
#else
	return MaxBackends;
#endif
}

/*
 * 15: positions come with their timeline, and recovery has a header of its own.
 */
#if PG_VERSION_NUM >= 150000
#include "access/xlogrecovery.h"
#define zklock_flushed_position(timeline)	GetFlushRecPtr(timeline)
#define zklock_insertion_timeline()		GetWALInsertionTimeLine()
#else
#include "access/xlog.h"
#define zklock_flushed_position(timeline) \
	(*(timeline) = ThisTimeLineID, GetFlushRecPtr())
#define zklock_insertion_timeline()		ThisTimeLineID
#endif

/* 16: the list of all settings is made for the caller, with its length. */
static inline struct config_generic **
guc_variables(int *count)
{
#if PG_VERSION_NUM < 160000
	*count = GetNumConfigOptions();
	return get_guc_variables();
#else
	return get_guc_variables(count);
#endif
}

/*
 * 16: shared lists are those of lib/ilist.h.  The locks that a process has to
 * do with in one partition of the lock table: the first, and the next, NULL at
 * last.
 */
static inline PROCLOCK *
proc_first_lock(PGPROC *proc, int partition)
{
#if PG_VERSION_NUM < 160000
	return (PROCLOCK *) SHMQueueNext(&proc->myProcLocks[partition],
									 &proc->myProcLocks[partition],
									 offsetof(PROCLOCK, procLink));
#else
	dlist_head *list = &proc->myProcLocks[partition];

	return dlist_is_empty(list) ? NULL :
		dlist_head_element(PROCLOCK, procLink, list);
#endif
}

static inline PROCLOCK *
proc_next_lock(PGPROC *proc, int partition, PROCLOCK *lock)
{
#if PG_VERSION_NUM < 160000
	return (PROCLOCK *) SHMQueueNext(&proc->myProcLocks[partition],
									 &lock->procLink,
									 offsetof(PROCLOCK, procLink));
#else
	dlist_head *list = &proc->myProcLocks[partition];

	return dlist_has_next(list, &lock->procLink) ?
		dlist_container(PROCLOCK, procLink,
						dlist_next_node(list, &lock->procLink)) : NULL;
#endif
}

#if PG_VERSION_NUM < 150000

/*
 * 15: a prefix of settings can be reserved; before, unknown ones caused a
 * warning.
 */
#define MarkGUCPrefixReserved(prefix)	EmitWarningsOnPlaceholders(prefix)

/*
 * 15: one call makes the tuplestore and the row type of a set-returning
 * function.
 */
static inline void
InitMaterializedSRF(FunctionCallInfo fcinfo, bits32 flags)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext old_context;
	TupleDesc	desc;
	bool		random_access;

	(void) flags;
	Assert(flags == 0);
	if (rsinfo == NULL || !IsA(rsinfo, ReturnSetInfo))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	if (!(rsinfo->allowedModes & SFRM_Materialize))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("materialize mode required, but it is not allowed in this context")));

	old_context = MemoryContextSwitchTo(rsinfo->econtext->ecxt_per_query_memory);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	random_access = (rsinfo->allowedModes & SFRM_Materialize_Random) != 0;
	rsinfo->returnMode = SFRM_Materialize;
	rsinfo->setResult = tuplestore_begin_heap(random_access, false, work_mem);
	rsinfo->setDesc = desc;
	MemoryContextSwitchTo(old_context);
}

#endif							/* before 15 */

#endif							/* ZKLOCK_COMPAT_H */
