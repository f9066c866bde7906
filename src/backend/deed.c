/*-------------------------------------------------------------------------
 *
 * deed.c
 *	  What a statement does, as far as the veto of commits is concerned.
 *
 * Commands that take effect before they commit, or commit more than once, are
 * to be judged before they begin; those that only give back what is held, look
 * at it, or have nothing to do with it, are never refused.  What is not known
 * here is work, and judged when it commits.
 *
 * Y1, Y3 and Y4 are in verdict.c, Y2 is in xact.c.
 *
 * Y5. What makes something durable, or shows it outside of the transaction,
 * what guards it, and the test that shows so with a lock that is lost (112 is
 * tap/112_veto, and so on):
 *
 *    COMMIT, implicit commit, AND CHAIN  Y1: before the commit        112, 113
 *                                        record
 *    COMMIT in a procedure or DO         the same, each of them       112, 113
 *    PREPARE TRANSACTION                 the same; refused with       112
 *                                        locks of its own (regress/locks)
 *    COMMIT PREPARED                     Y1: before it begins         112
 *    CREATE, DROP DATABASE; its          the same                     112
 *    TABLESPACE
 *    CREATE, DROP TABLESPACE             the same                     112
 *    ALTER SYSTEM                        the same                     112
 *    CREATE, ALTER, DROP SUBSCRIPTION    the same, if it changes      112
 *                                        something on the publisher;
 *                                        else its commit
 *    DROP SUBSCRIPTION without a slot,   both: before it begins, and  115
 *    but maybe with slots of tables      its commit
 *    VACUUM, CLUSTER of all or of what   Y1: before it begins, and    112
 *    is partitioned, REINDEX likewise    none of its commits
 *    or CONCURRENTLY, CREATE and DROP
 *    INDEX CONCURRENTLY, DETACH
 *    CONCURRENTLY
 *    REFRESH CONCURRENTLY, ANALYZE, and  their commits, of which      112
 *    all other commands                  ANALYZE of several tables
 *                                        has several
 *    COPY TO a program or a file, FROM   both: before it begins, and  112
 *    a program                           its commit
 *    remote transactions of              Y2: before they commit       113
 *    postgres_fdw, and whatever else
 *    acts before a commit
 *    NOTIFY, LISTEN, large objects,      their commit                 112
 *    messages in the WAL that are
 *    transactional
 *    progress of a replication origin    its commit: what a worker    112, 115
 *    that comes with a commit            applies under a lock that
 *                                        it loses is applied again
 *                                        later
 *    parallel workers                    the leader's commit          112
 *    exit, pg_terminate_backend()        nothing is committed         112
 *    ROLLBACK, ROLLBACK PREPARED, SET,   never refused: they make     112
 *    SHOW, DISCARD, releases             nothing durable that may
 *                                        rest on a lock
 *    sequences, advisory locks of the    nothing guards these: they   112
 *    session, dblink, lo_export() and    are functions, which take
 *    other files, messages in the WAL    effect when they are
 *    that are not transactional, slots   called, in whatever
 *    that functions make or drop,        statement that is; its
 *    pg_replication_origin_advance(),    commit is refused
 *    programs of file_fdw, signals
 *    background workers that a function  the same; they have          115
 *    starts                              transactions of their own,
 *                                        as another client has
 *    replication commands                nothing guards these:        115
 *                                        PostgreSQL asks no
 *                                        extension
 *    libpq's fast path (PQfn)            its commit                   115
 *
 * Y6. Not all that a transaction does is a statement.  A call on the fast path
 * is seen by the hook for access to objects: a function is to be executed while
 * no query is being worked at (debug_query_string is not set).  Its end is not
 * seen, so a call that acquires is work from its beginning on: what was lost
 * before is not acquired anew by it, but has to be released first.  And
 * whatever has a transaction ID has written and is judged, as what the workers
 * of logical replication apply, whatever their triggers' statements have looked
 * like (tap/115_unseen).
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

/* The functions of this extension that are known here; SQL calls them. */
extern Datum zk_lock_release(PG_FUNCTION_ARGS);
extern Datum zk_lock_release_all(PG_FUNCTION_ARGS);
extern Datum zk_semaphore_release(PG_FUNCTION_ARGS);
extern Datum zk_session_close(PG_FUNCTION_ARGS);
extern Datum zk_locks(PG_FUNCTION_ARGS);
extern Datum zk_session(PG_FUNCTION_ARGS);
extern Datum zk_lock_queue(PG_FUNCTION_ARGS);
extern Datum zk_lock_tree(PG_FUNCTION_ARGS);
extern Datum zk_lock_waits(PG_FUNCTION_ARGS);
extern Datum zk_blocking_pids(PG_FUNCTION_ARGS);
extern Datum zk_job_status(PG_FUNCTION_ARGS);
extern Datum zk_stat(PG_FUNCTION_ARGS);
extern Datum zk_lock_acquire(PG_FUNCTION_ARGS);
extern Datum zk_lock_acquire_xact(PG_FUNCTION_ARGS);
extern Datum zk_lock_acquire_several(PG_FUNCTION_ARGS);
extern Datum zk_lock_acquire_several_xact(PG_FUNCTION_ARGS);
extern Datum zk_lock_wait(PG_FUNCTION_ARGS);
extern Datum zk_lock_wait_several(PG_FUNCTION_ARGS);
extern Datum zk_semaphore_acquire(PG_FUNCTION_ARGS);
extern Datum zk_semaphore_acquire_xact(PG_FUNCTION_ARGS);
extern Datum zk_lock_token(PG_FUNCTION_ARGS);
extern Datum zk_lock_verify(PG_FUNCTION_ARGS);
extern Datum zk_job_begin(PG_FUNCTION_ARGS);

/* Those that give back what is held, or only look. */
static const PGFunction harmless_functions[] = {
	zk_lock_release,
	zk_lock_release_all,
	zk_semaphore_release,
	zk_session_close,
	zk_locks,
	zk_session,
	zk_lock_queue,
	zk_lock_tree,
	zk_lock_waits,
	zk_blocking_pids,
	zk_job_status,
	zk_stat
};

/* Those that acquire something, or tell what is held. */
static const PGFunction locking_functions[] = {
	zk_lock_acquire,
	zk_lock_acquire_xact,
	zk_lock_acquire_several,
	zk_lock_acquire_several_xact,
	zk_lock_wait,
	zk_lock_wait_several,
	zk_semaphore_acquire,
	zk_semaphore_acquire_xact,
	zk_lock_token,
	zk_lock_verify,
	zk_job_begin
};

/* Is a function among these? */
static bool
is_among(PGFunction function, const PGFunction *functions, int count)
{
	for (int i = 0; i < count; i++)
		if (functions[i] == function)
			return true;
	return false;
}

/*
 * What a call of a function does: WORK if it is none of this extension's, nor
 * one of PostgreSQL's that depends on its arguments and settings alone, which
 * is NONE.
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
	if (is_among(info.fn_addr, harmless_functions, lengthof(harmless_functions)))
		return DEED_HARMLESS;
	if (is_among(info.fn_addr, locking_functions, lengthof(locking_functions)))
		return DEED_LOCKING;
	return DEED_WORK;
}

/* For check_functions_in_node(): take note of a function; true ends the search. */
static bool
note_function(Oid function, void *context)
{
	Deed	   *deed = context;

	*deed = Max(*deed, deed_of_function(function));
	return *deed == DEED_WORK;
}

/* Take note of what an expression calls; true ends the search, as it is work. */
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

/* Take note of what a plan does; true ends the search, as it is work. */
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
 * Does it matter what exactly is done next?  Not if no lock is held, or it is
 * not for this statement to say, or other work was done: then it is work, to
 * save the effort.
 */
static bool
does_matter(void)
{
	return zklock_lock_total() > 0 && zklock_verdict_open() &&
		!zklock_verdict_worked();
}

/* What the call of a function does that no statement makes. */
Deed
zklock_deed_of_call(Oid function)
{
	return does_matter() ? deed_of_function(function) : DEED_WORK;
}

/* What a query does. */
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

/* The option of that name; NULL if it is not given. */
static DefElem *
find_option(List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
		if (strcmp(lfirst_node(DefElem, cell)->defname, name) == 0)
		return lfirst_node(DefElem, cell);
	return NULL;
}

/* What a boolean option says, or its default.  Throws 42601 if it is none. */
static bool
option_says(List *options, const char *name, bool otherwise)
{
	DefElem    *option = find_option(options, name);

	return option == NULL ? otherwise : defGetBoolean(option);
}

/* Does that name something that is partitioned? */
static bool
is_partitioned(const RangeVar *name)
{
	Oid			relation = RangeVarGetRelid(name, NoLock, true);
	char		kind = OidIsValid(relation) ? get_rel_relkind(relation) : '\0';

	return kind == RELKIND_PARTITIONED_TABLE || kind == RELKIND_PARTITIONED_INDEX;
}

/* Does a subscription of this database have a slot? */
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

/* Does ALTER SUBSCRIPTION change something on the publisher? */
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
			return find_option(command->options, "failover") != NULL ||
				find_option(command->options, "two_phase") != NULL;
		default:
			return false;
	}
}

/* Does ALTER TABLE detach a partition concurrently? */
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

/*
 * Does a command, outside a transaction block and at top level, take effect
 * before its commit?
 */
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
			return find_option(options, "tablespace") != NULL;
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

/*
 * Does a command, outside a transaction block and at top level, commit more
 * than once?
 */
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

/* What a command about transactions does; COMMIT PREPARED is not for this. */
static Deed
deed_of_transaction(const TransactionStmt *command)
{
	switch (command->kind)
	{
		case TRANS_STMT_ROLLBACK_PREPARED:
			return DEED_HARMLESS;
		case TRANS_STMT_COMMIT_PREPARED:
			return DEED_WORK;
		default:
			return DEED_FRAME;
	}
}

/* What CALL does: the procedure may be one of ours. */
static Deed
deed_of_call(const CallStmt *command)
{
	Deed		deed = DEED_NONE;

	(void) note_expression((Node *) command->funcexpr, &deed);
	return deed == DEED_NONE ? DEED_WORK : deed;
}

/* What EXECUTE does: that is for the query to say, if arguments are constants. */
static Deed
deed_of_execute(const ExecuteStmt *command)
{
	ListCell   *cell;

	foreach(cell, command->params)
		if (!IsA(lfirst(cell), A_Const))
		return DEED_WORK;
	return DEED_FRAME;
}

/*
 * What a utility command does; top_level says that it is what the client has
 * sent.
 */
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
