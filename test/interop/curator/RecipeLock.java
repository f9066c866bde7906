import java.util.concurrent.Semaphore;

import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * The recipe in Java of ZooKeeper itself.  It gives up silently if its predecessor
 * is deleted while it reads the queue, so this is for tests without such deletions.
 */
final class RecipeLock implements PathLock, LockListener {
	private final WriteLock lock;
	private final Semaphore granted = new Semaphore(0);

	RecipeLock(ZooKeeper client, String path) {
		lock = new WriteLock(client, path, ZooDefs.Ids.OPEN_ACL_UNSAFE, this);
	}

	@Override
	public void acquire() throws Exception {
		lock.lock();
		granted.acquire();
	}

	@Override
	public void release() {
		lock.unlock();
	}

	/** It has no listing. */
	@Override
	public int contenders() {
		throw new UnsupportedOperationException();
	}

	@Override
	public void lockAcquired() {
		granted.release();
	}

	@Override
	public void lockReleased() {
	}
}
