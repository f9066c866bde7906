import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A client of Curator with a ZooKeeper session of its own, its mutexes, and the one
 * thread that uses them: a mutex belongs to the thread that acquired it.
 */
final class Session {
	/** What a contender carries, as with every peer. */
	private static final int DATA_SIZE = 200;

	private static final int SESSION_TIMEOUT_MS = 30_000;
	private static final int PATIENCE_S = 60;

	/** Curator's class that waits for the predecessor. */
	private static final String WAITING_CLASS =
			"org.apache.curator.framework.recipes.locks.LockInternals";

	private final CuratorFramework client;
	private final Map<String, InterProcessLock> locks = new HashMap<>();
	private final ExecutorService executor = Executors.newSingleThreadExecutor(this::newThread);
	private volatile Thread thread;

	/** Begin to connect; the settings are those that Curator's documentation has. */
	Session(String servers) {
		client = CuratorFrameworkFactory.builder()
				.connectString(servers)
				.sessionTimeoutMs(SESSION_TIMEOUT_MS)
				.retryPolicy(new ExponentialBackoffRetry(1000, 3))
				.build();
		client.start();
	}

	/** A mutex whose contenders carry data. */
	private static final class Mutex extends InterProcessMutex {
		private static final byte[] DATA = new byte[DATA_SIZE];

		Mutex(CuratorFramework client, String path) {
			super(client, path);
		}

		@Override
		protected byte[] getLockNodeBytes() {
			return DATA;
		}
	}

	private Thread newThread(Runnable work) {
		thread = new Thread(work);
		thread.setDaemon(true);
		return thread;
	}

	/** Wait until there is a connection. */
	void awaitConnected() throws Exception {
		if (!client.blockUntilConnected(PATIENCE_S, TimeUnit.SECONDS)) {
			throw new Exception("no connection");
		}
	}

	/** Have the session's thread do something. */
	<T> Future<T> submit(Callable<T> work) {
		return executor.submit(work);
	}

	/** The mutex of a path.  For the session's thread. */
	InterProcessLock mutex(String path) {
		return locks.computeIfAbsent(path, ignored -> new Mutex(client, path));
	}

	/** The lock that is all of the mutexes of path/0 to path/count-1.  For the session's thread. */
	InterProcessLock multiLock(String path, int count) {
		return locks.computeIfAbsent(path + "/*" + count, ignored -> {
			List<InterProcessLock> members = new ArrayList<>();
			for (int i = 0; i < count; i++) {
				members.add(new Mutex(client, path + "/" + i));
			}
			return new InterProcessMultiLock(members);
		});
	}

	/**
	 * Does the session's thread wait for a predecessor to go?  Its contender exists and
	 * its watch is set then.  Curator does not tell, but the thread's stack does: it is
	 * in the one wait() of that class.
	 */
	boolean isQueued() {
		for (StackTraceElement frame : thread.getStackTrace()) {
			if (!frame.getClassName().equals(Object.class.getName())) {
				return frame.getClassName().equals(WAITING_CLASS);
			}
		}
		return false;
	}

	/** Begin to end the session; nothing may be under way. */
	Future<?> beginClose() {
		Future<?> closed = executor.submit(client::close);
		executor.shutdown();
		return closed;
	}
}
