/**
 * A lock of some kind at a path, as one session has it; all methods are for that
 * session's thread.
 */
interface PathLock {
	/** Wait until the lock is held. */
	void acquire() throws Exception;

	/** Return when the contender is gone. */
	void release() throws Exception;

	/** How many contenders the client lists. */
	int contenders() throws Exception;
}
