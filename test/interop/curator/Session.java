import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A client with a ZooKeeper session of its own, its locks, and the one thread that uses
 * them: a mutex belongs to the thread that acquired it.
 */
final class Session {
	private static final int SESSION_TIMEOUT_MS = 60_000;
	private static final int PATIENCE_MS = 60_000;

	private final String number;
	private final String connection;
	private final CuratorFramework client;
	private final Map<String, PathLock> locks = new HashMap<>();
	private final Map<String, InterProcessReadWriteLock> readWriteLocks = new HashMap<>();
	private final ExecutorService executor = Executors.newSingleThreadExecutor();

	/** Begin to connect; answers will begin with the number. */
	Session(String number, String servers, String connection) {
		this.number = number;
		this.connection = connection;
		client = CuratorFrameworkFactory.builder()
				.connectString(servers)
				.sessionTimeoutMs(SESSION_TIMEOUT_MS)
				.connectionTimeoutMs(PATIENCE_MS)
				.retryPolicy(new ExponentialBackoffRetry(1000, 3))
				.build();
		client.start();
	}

	/** Have a command carried out, and answered, after those before it; the first word is the number. */
	void send(String[] words) {
		executor.execute(() -> {
			String answer;
			try {
				answer = carryOut(words);
			} catch (Exception e) {
				answer = "error " + e.toString().replace('\n', ' ');
			}
			System.out.println(number + " " + answer);
		});
	}

	private String carryOut(String[] words) throws Exception {
		if (words[1].equals("connect")) {
			return client.blockUntilConnected(PATIENCE_MS, TimeUnit.MILLISECONDS) ? "t" : "f";
		}
		PathLock lock = lock(words[2], words[3]);
		switch (words[1]) {
			case "acquire":
				lock.acquire();
				return "t";
			case "release":
				lock.release();
				return "t";
			case "contenders":
				return String.valueOf(lock.contenders());
			case "count":
				count(lock, Integer.parseInt(words[4]));
				return "t";
			default:
				throw new IllegalArgumentException(words[1]);
		}
	}

	private PathLock lock(String kind, String path) throws Exception {
		String key = kind + " " + path;
		if (!locks.containsKey(key)) {
			locks.put(key, newLock(kind, path));
		}
		return locks.get(key);
	}

	private PathLock newLock(String kind, String path) throws Exception {
		switch (kind) {
			case "mutex":
				return new MutexLock(new InterProcessMutex(client, path));
			case "read":
				return new MutexLock(readWriteLock(path).readLock());
			case "write":
				return new MutexLock(readWriteLock(path).writeLock());
			case "leader":
				return new LeaderLock(client, path);
			case "recipe":
				return new RecipeLock(client.getZookeeperClient().getZooKeeper(), path);
			default:
				throw new IllegalArgumentException(kind);
		}
	}

	/** One for each path: who has it for writing can have it for reading as well. */
	private InterProcessReadWriteLock readWriteLock(String path) {
		return readWriteLocks.computeIfAbsent(
				path, ignored -> new InterProcessReadWriteLock(client, path));
	}

	private void count(PathLock lock, int times) throws Exception {
		Counter counter = new Counter(connection);
		for (int i = 0; i < times; i++) {
			lock.acquire();
			try {
				counter.increment();
			} finally {
				lock.release();
			}
		}
	}
}
