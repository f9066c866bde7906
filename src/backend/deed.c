/*-------------------------------------------------------------------------
 *
 * deed.c
 *	  What a statement does, as far as the veto of commits is concerned.
 *
 * Commands that take effect before they commit, or commit more than once, are
 * judged before they begin; those that only release locks, look at them, or
 * have nothing to do with them, are never refused.  Anything unknown here is
 * work, and judged when it commits.  Y1, Y3 and Y4 are in verdict.c, Y2 is in
 * xact.c.
 *
 * Y5. What makes something durable or visible outside the transaction, by its
 * guard, and the test that shows so with a lost lock (112 is
 * tap/112_veto, and so on):
 *
 * - Y1, before the commit record: COMMIT, implicit commit, AND CHAIN, each
 *   COMMIT in a procedure or DO (112, 113); PREPARE TRANSACTION, which is
 *   refused with locks of its own (112, regress/locks).
 * - Y1, before the command begins: COMMIT PREPARED; CREATE and DROP DATABASE,
 *   its TABLESPACE; CREATE and DROP TABLESPACE; ALTER SYSTEM; CREATE, ALTER
 *   and DROP SUBSCRIPTION if it changes something on the publisher, else its
 *   commit (112).
 * - Y1, before the command begins, and none of its commits: VACUUM; CLUSTER
 *   and REINDEX of everything or of what is partitioned; REINDEX, CREATE
 *   INDEX, DROP INDEX and DETACH with CONCURRENTLY (112).
 * - Before the command begins, and its commit: COPY TO a program or a file,
 *   FROM a program (112); DROP SUBSCRIPTION without a slot, but maybe with
 *   slots of tables (115).
 * - Its commit: all other commands, REFRESH CONCURRENTLY and ANALYZE, which
 *   has several for several tables; NOTIFY, LISTEN, large objects,
 *   transactional messages in the WAL; the leader's for parallel workers
 *   (112); that of a call on libpq's fast path (115).  It includes the
 *   progress of a replication origin: what a worker applies under a lock that
 *   it loses is applied again later (112, 115).
 * - Y2, before they commit: remote transactions of postgres_fdw, and whatever
 *   else acts before a commit (113).
 * - Never refused, as nothing durable rests on a lock: ROLLBACK, ROLLBACK
 *   PREPARED, SET, SHOW, DISCARD, releases; exit and pg_terminate_backend(),
 *   which commit nothing (112).
 * - No guard, but their statement's commit is refused: functions that take
 *   effect when called, as for sequences, session-level advisory locks,
 *   dblink, lo_export() and other files, non-transactional messages in the
 *   WAL, slots, pg_replication_origin_advance(), programs of file_fdw, signals
 *   (112); and background workers that a function starts, whose transactions
 *   are their own, as another client's are (115).
 * - No guard: replication commands, for which PostgreSQL asks no extension
 *   (115).
 *
 * Y6. Not all that a transaction does is a statement.  A call on the fast path
 * is seen by the object access hook: a function is to be executed while no
 * query is at work (debug_query_string is not set).  Its end is not seen, so a
 * call that acquires is work from its beginning on: it does not acquire what
 * was lost before, which has to be released first.  A transaction ID shows
 * writes, as of the workers of logical replication, whatever their triggers'
 * statements did (tap/115_unseen).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_language_d.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_subscription.h"
#include "commands/defrem.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "zklock.h"
#include "deed.h"
#include "lock_table.h"
#include "verdict.h"

/* The functions of this extension that are not work; SQL calls them. */
typedef Datum SqlFunction(PG_FUNCTION_ARGS);

extern SqlFunction zk_lock_release, zk_lock_release_all, zk_semaphore_release;
extern SqlFunction zk_session_close, zk_locks, zk_session, zk_lock_queue;
extern SqlFunction zk_lock_tree, zk_lock_waits, zk_blocking_pids;
extern SqlFunction zk_job_status, zk_stat, zk_stat_waits, zk_stat_locks;
extern SqlFunction zk_lock_acquire, zk_lock_acquire_xact;
extern SqlFunction zk_lock_acquire_several, zk_lock_acquire_several_xact;
extern SqlFunction zk_lock_wait, zk_lock_wait_several, zk_job_begin;
extern SqlFunction zk_semaphore_acquire, zk_semaphore_acquire_xact;
extern SqlFunction zk_semaphore_wait, zk_job_wait;
extern SqlFunction zk_lock_token, zk_lock_verify, zk_lock_lease;

/* Those that release locks, or only look. */
static const PGFunction harmless_functions[] = {
	zk_lock_release, zk_lock_release_all, zk_semaphore_release,
	zk_session_close, zk_locks, zk_session, zk_lock_queue, zk_lock_tree,
	zk_lock_waits, zk_blocking_pids, zk_job_status, zk_stat,
	zk_stat_waits, zk_stat_locks
};

/* Those that acquire locks, or show what is held. */
static const PGFunction locking_functions[] = {
	zk_lock_acquire, zk_lock_acquire_xact, zk_lock_acquire_several,
	zk_lock_acquire_several_xact, zk_lock_wait, zk_lock_wait_several,
	zk_semaphore_acquire, zk_semaphore_acquire_xact, zk_semaphore_wait,
	zk_lock_token, zk_lock_verify, zk_lock_lease, zk_job_begin, zk_job_wait
};

/*
 * Returns what a call of a function does: NONE for a function of PostgreSQL
 * that depends only on arguments and settings, WORK for an unknown one.
 */
static Deed
deed_of_function(Oid function)
{
	HeapTuple	tuple;
	bool		in_c;
	FmgrInfo	info;

	if (function < FirstNormalObjectId)
		return func_volatile(function) == PROVOLATILE_VOLATILE ?
			DEED_WORK : DEED_NONE;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return DEED_WORK;
	in_c = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId;
	ReleaseSysCache(tuple);
	if (!in_c)
		return DEED_WORK;
	fmgr_info(function, &info);
	for (size_t i = 0; i < lengthof(harmless_functions); i++)
		if (harmless_functions[i] == info.fn_addr)
			return DEED_HARMLESS;
	for (size_t i = 0; i < lengthof(locking_functions); i++)
		if (locking_functions[i] == info.fn_addr)
			return DEED_LOCKING;
	return DEED_WORK;
}

/* For check_functions_in_node(): notes a function; true ends the search. */
static bool
note_function(Oid function, void *context)
{
	Deed	   *deed = context;

	*deed = Max(*deed, deed_of_function(function));
	return *deed == DEED_WORK;
}

/* Notes what an expression calls; true ends the search, as it is work. */
static bool
note_expression(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) ||
		IsA(node, NextValueExpr))
	{
		*(Deed *) context = DEED_WORK;
		return true;
	}
	return check_functions_in_node(node, note_function, context) ||
		expression_tree_walker(node, note_expression, context);
}

/* Notes what a plan does; true ends the search, as it is work. */
static bool
note_plan(Plan *plan, Deed *deed)
{
	Node	   *special[2] = {NULL, NULL};

	if (plan == NULL)
		return false;
	switch (nodeTag(plan))
	{
		case T_Result:
			special[0] = ((Result *) plan)->resconstantqual;
			break;
		case T_FunctionScan:
			special[0] = (Node *) ((FunctionScan *) plan)->functions;
			break;
		case T_Limit:
			special[0] = ((Limit *) plan)->limitOffset;
			special[1] = ((Limit *) plan)->limitCount;
			break;
		case T_ProjectSet:
		case T_Agg:
		case T_Sort:
			break;
		default:
			*deed = DEED_WORK;
			return true;
	}
	return note_expression(special[0], deed) ||
		note_expression(special[1], deed) ||
		note_expression((Node *) plan->targetlist, deed) ||
		note_expression((Node *) plan->qual, deed) ||
		note_plan(plan->lefttree, deed) || note_plan(plan->righttree, deed);
}

/*
 * Returns true if it matters what exactly is done next.  Without locks, within
 * a statement, or after other work, all counts as work, to save effort.
 */
static bool
does_matter(void)
{
	return zklock_lock_total() > 0 &&
		zklock_verdict_statement() <= DEED_FRAME &&
		zklock_verdict_conduct() < CONDUCT_WORK;
}

/* Returns what a function call outside of statements does. */
Deed
zklock_deed_of_call(Oid function)
{
	return does_matter() ? deed_of_function(function) : DEED_WORK;
}

/* Returns what a query does. */
Deed
zklock_deed_of_plan(const PlannedStmt *plan)
{
	Deed		deed = DEED_NONE;

	if (!does_matter())
		return DEED_WORK;
	if (plan->commandType != CMD_SELECT || plan->hasModifyingCTE ||
		plan->subplans != NIL || plan->rowMarks != NIL)
		return DEED_WORK;
	(void) note_plan(plan->planTree, &deed);
	return deed == DEED_NONE ? DEED_WORK : deed;
}

/* Returns the option of that name, or NULL. */
static DefElem *
option_named(List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
		if (strcmp(lfirst_node(DefElem, cell)->defname, name) == 0)
		return lfirst_node(DefElem, cell);
	return NULL;
}

/* Returns the value of a boolean option, or its default. */
static bool
option_says(List *options, const char *name, bool otherwise)
{
	DefElem    *option = option_named(options, name);

	return option == NULL ? otherwise : defGetBoolean(option);
}

/* Returns true if that relation is partitioned. */
static bool
is_partitioned(const RangeVar *name)
{
	Oid			relation = RangeVarGetRelid(name, NoLock, true);
	char		kind = OidIsValid(relation) ? get_rel_relkind(relation) : '\0';

	return kind == RELKIND_PARTITIONED_TABLE || kind == RELKIND_PARTITIONED_INDEX;
}

/* Returns true if a subscription of this database has a slot. */
static bool
has_slot(const char *subscription)
{
	HeapTuple	tuple = SearchSysCache2(SUBSCRIPTIONNAME,
										ObjectIdGetDatum(MyDatabaseId),
										CStringGetDatum(subscription));
	bool		none;

	if (!HeapTupleIsValid(tuple))
		return false;
	(void) SysCacheGetAttr(SUBSCRIPTIONNAME, tuple,
						   Anum_pg_subscription_subslotname, &none);
	ReleaseSysCache(tuple);
	return !none;
}

/* Returns true if ALTER SUBSCRIPTION changes something on the publisher. */
static bool
alters_publisher(const AlterSubscriptionStmt *command)
{
	switch (command->kind)
	{
		case ALTER_SUBSCRIPTION_REFRESH:
			return true;
		case ALTER_SUBSCRIPTION_SET_PUBLICATION:
		case ALTER_SUBSCRIPTION_ADD_PUBLICATION:
		case ALTER_SUBSCRIPTION_DROP_PUBLICATION:
			return option_says(command->options, "refresh", true);
		case ALTER_SUBSCRIPTION_OPTIONS:
			return option_named(command->options, "failover") != NULL ||
				option_named(command->options, "two_phase") != NULL;
		default:
			return false;
	}
}

/* Returns true if ALTER TABLE detaches a partition concurrently. */
static bool
detaches_concurrently(const AlterTableStmt *command)
{
	ListCell   *cell;

	foreach(cell, command->cmds)
	{
		AlterTableCmd *part = lfirst_node(AlterTableCmd, cell);

		if (part->subtype == AT_DetachPartition &&
			castNode(PartitionCmd, part->def)->concurrent)
			return true;
	}
	return false;
}

/* Returns true if a command at top level takes effect before its commit. */
static bool
takes_effect_at_once(Node *command)
{
	List	   *options;

	switch (nodeTag(command))
	{
		case T_CreatedbStmt:
		case T_DropdbStmt:
		case T_CreateTableSpaceStmt:
		case T_DropTableSpaceStmt:
		case T_AlterSystemStmt:
			return true;
		case T_TransactionStmt:
			return castNode(TransactionStmt, command)->kind ==
				TRANS_STMT_COMMIT_PREPARED;
		case T_AlterDatabaseStmt:
			options = castNode(AlterDatabaseStmt, command)->options;
			return option_named(options, "tablespace") != NULL;
		case T_CreateSubscriptionStmt:
			options = castNode(CreateSubscriptionStmt, command)->options;
			return option_says(options, "create_slot",
							   option_says(options, "connect", true));
		case T_AlterSubscriptionStmt:
			return alters_publisher(castNode(AlterSubscriptionStmt, command));
		case T_DropSubscriptionStmt:
			return has_slot(castNode(DropSubscriptionStmt, command)->subname);
		default:
			return false;
	}
}

/* Returns true if a command at top level commits more than once. */
static bool
commits_in_steps(Node *command)
{
	RangeVar   *relation;

	switch (nodeTag(command))
	{
		case T_VacuumStmt:
			return castNode(VacuumStmt, command)->is_vacuumcmd;
		case T_ClusterStmt:
			relation = castNode(ClusterStmt, command)->relation;
			return relation == NULL || is_partitioned(relation);
		case T_ReindexStmt:
			relation = castNode(ReindexStmt, command)->relation;
			return relation == NULL || is_partitioned(relation) ||
				option_says(castNode(ReindexStmt, command)->params,
							"concurrently", false);
		case T_IndexStmt:
			return castNode(IndexStmt, command)->concurrent;
		case T_DropStmt:
			return castNode(DropStmt, command)->concurrent;
		case T_AlterTableStmt:
			return detaches_concurrently(castNode(AlterTableStmt, command));
		default:
			return false;
	}
}

/* Returns what a transaction command does. */
static Deed
deed_of_transaction(const TransactionStmt *command)
{
	if (command->kind == TRANS_STMT_ROLLBACK_PREPARED)
		return DEED_HARMLESS;
	return command->kind == TRANS_STMT_COMMIT_PREPARED ? DEED_WORK : DEED_FRAME;
}

/* Returns what CALL does: the procedure may be one of ours. */
static Deed
deed_of_call(const CallStmt *command)
{
	Deed		deed = DEED_NONE;

	(void) note_expression((Node *) command->funcexpr, &deed);
	return deed == DEED_NONE ? DEED_WORK : deed;
}

/* Returns what EXECUTE does: with constants, the query decides. */
static Deed
deed_of_execute(const ExecuteStmt *command)
{
	ListCell   *cell;

	foreach(cell, command->params)
		if (!IsA(lfirst(cell), A_Const))
		return DEED_WORK;
	return DEED_FRAME;
}

/* Returns what a utility command does; top_level if the client has sent it. */
Deed
zklock_deed_of_utility(Node *command, bool top_level)
{
	bool		alone = top_level && !IsTransactionBlock();

	if (alone && takes_effect_at_once(command))
		return DEED_AT_ONCE;
	if (alone && commits_in_steps(command))
		return DEED_STEPS;
	switch (nodeTag(command))
	{
		case T_TransactionStmt:
			return deed_of_transaction(castNode(TransactionStmt, command));
		case T_DiscardStmt:
		case T_VariableSetStmt:
		case T_VariableShowStmt:
		case T_DeallocateStmt:
		case T_ClosePortalStmt:
		case T_UnlistenStmt:
			return DEED_HARMLESS;
		case T_CopyStmt:
			return castNode(CopyStmt, command)->filename != NULL &&
				(castNode(CopyStmt, command)->is_program ||
				 !castNode(CopyStmt, command)->is_from) ?
				DEED_OUTSIDE : DEED_WORK;
		case T_DropSubscriptionStmt:
			/* without a slot it may drop those of tables at the publisher */
			return DEED_OUTSIDE;
		case T_CallStmt:
			return deed_of_call(castNode(CallStmt, command));
		case T_ExecuteStmt:
			return deed_of_execute(castNode(ExecuteStmt, command));
		default:
			return DEED_WORK;
	}
}
