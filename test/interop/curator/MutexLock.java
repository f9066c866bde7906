import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Curator's mutex, or one of the two of a read-write lock. */
final class MutexLock implements PathLock {
	private final InterProcessMutex mutex;

	MutexLock(InterProcessMutex mutex) {
		this.mutex = mutex;
	}

	@Override
	public void acquire() throws Exception {
		mutex.acquire();
	}

	@Override
	public void release() throws Exception {
		mutex.release();
	}

	@Override
	public int contenders() throws Exception {
		return mutex.getParticipantNodes().size();
	}
}
