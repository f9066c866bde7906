import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

import org.apache.curator.framework.recipes.locks.InterProcessLock;

/** What the bench asks of a peer (see ../README), done with Curator; durations in microseconds. */
final class Commands {
	/** The lock that new sessions acquire. */
	private static final String FIRST_PATH = "/bench/first-curator";

	/** How long one session has to get into the queue. */
	private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(60);

	/** Before a common start: time to tell all threads. */
	private static final long RUN_UP_NS = TimeUnit.MILLISECONDS.toNanos(100);

	private final String servers;
	private final List<Session> sessions = new ArrayList<>();

	Commands(String servers) {
		this.servers = servers;
	}

	/** Have at least so many sessions connected. */
	void open(int count) throws Exception {
		int before = sessions.size();
		while (sessions.size() < count) {
			sessions.add(new Session(servers));
		}
		for (Session session : sessions.subList(before, sessions.size())) {
			session.awaitConnected();
		}
	}

	/** End all sessions. */
	void close() throws Exception {
		Closer.close(sessions);
		sessions.clear();
	}

	/** Acquire and release a lock so many times: the durations of the cycles. */
	double[] cycle(String path, int count) throws Exception {
		open(1);
		Session session = sessions.get(0);
		return session.submit(() -> {
			InterProcessLock mutex = session.mutex(path);
			double[] durations = new double[count];
			for (int i = 0; i < count; i++) {
				long begin = System.nanoTime();
				mutex.acquire();
				mutex.release();
				durations[i] = Hold.microseconds(System.nanoTime() - begin);
			}
			return durations;
		}).get();
	}

	/** Acquire a number of locks together so many times: the durations of the acquire() calls. */
	double[] array(String path, int size, int count) throws Exception {
		open(1);
		Session session = sessions.get(0);
		return session.submit(() -> {
			InterProcessLock locks = session.multiLock(path, size);
			double[] durations = new double[count];
			for (int i = 0; i < count; i++) {
				long begin = System.nanoTime();
				locks.acquire();
				durations[i] = Hold.microseconds(System.nanoTime() - begin);
				locks.release();
			}
			return durations;
		}).get();
	}

	/** The durations of so many first acquires, from the beginning of connecting. */
	double[] first(int count) throws Exception {
		double[] durations = new double[count];
		for (int i = 0; i < count; i++) {
			long begin = System.nanoTime();
			Session session = new Session(servers);
			long end = session.submit(() -> {
				session.mutex(FIRST_PATH).acquire();
				return System.nanoTime();
			}).get();
			durations[i] = Hold.microseconds(end - begin);
			Closer.close(List.of(session));
		}
		return durations;
	}

	/** So many sessions, each on a path of its own: cycles, and the seconds they took. */
	double[] throughput(String prefix, int count, double seconds) throws Exception {
		open(count);
		AtomicInteger cycles = new AtomicInteger();
		long begin = System.nanoTime() + RUN_UP_NS;
		long until = begin + (long) (seconds * 1e9);
		List<Future<Long>> ends = new ArrayList<>();
		for (int i = 0; i < count; i++) {
			Session session = sessions.get(i);
			String path = prefix + "/" + i;
			ends.add(session.submit(() -> {
				sleepUntil(begin);
				cycles.addAndGet(cyclesUntil(session.mutex(path), until));
				return System.nanoTime();
			}));
		}
		long end = begin;
		for (Future<Long> one : ends) {
			end = Math.max(end, one.get());
		}
		return new double[] {cycles.get(), (end - begin) / 1e9};
	}

	private static int cyclesUntil(InterProcessLock mutex, long until) throws Exception {
		int cycles = 0;
		while (System.nanoTime() < until) {
			mutex.acquire();
			mutex.release();
			cycles++;
		}
		return cycles;
	}

	/**
	 * So many sessions contend, each of which holds the lock for a while and queues
	 * again: the durations of so many hand-offs, the first rounds left out.
	 */
	double[] handOff(String path, int contenders, int count, int holdUs) throws Exception {
		open(contenders);
		int leftOut = 2 * contenders;
		int wanted = leftOut + count + 1;
		AtomicInteger held = new AtomicInteger();
		List<Future<List<Hold>>> results = new ArrayList<>();
		for (Session session : sessions.subList(0, contenders)) {
			results.add(session.submit(() -> {
				List<Hold> holds = new ArrayList<>();
				while (held.get() < wanted) {
					holds.add(hold(session.mutex(path), holdUs, held));
				}
				return holds;
			}));
		}
		List<Hold> all = new ArrayList<>();
		for (Future<List<Hold>> result : results) {
			all.addAll(result.get());
		}
		return Hold.handOffs(all, leftOut, count);
	}

	/** Acquire, count it, hold the lock for so long, and release it. */
	private static Hold hold(InterProcessLock mutex, int holdUs, AtomicInteger held)
			throws Exception {
		mutex.acquire();
		long acquired = System.nanoTime();
		held.incrementAndGet();
		sleepUntil(acquired + TimeUnit.MICROSECONDS.toNanos(holdUs));
		long released = System.nanoTime();
		mutex.release();
		return new Hold(acquired, released);
	}

	/** So many wait for a lock, and let it go as soon as they have it: the durations. */
	double[] drain(String path, int waiters) throws Exception {
		open(waiters + 1);
		Session holder = sessions.get(0);
		List<Session> others = sessions.subList(1, waiters + 1);
		holder.submit(() -> {
			holder.mutex(path).acquire();
			return null;
		}).get();
		List<Future<Hold>> results = new ArrayList<>();
		for (Session session : others) {
			results.add(session.submit(() -> hold(session.mutex(path), 0, new AtomicInteger())));
		}
		for (Session session : others) {
			awaitQueued(session);
		}
		List<Hold> holds = new ArrayList<>();
		holds.add(holder.submit(() -> letGo(holder.mutex(path))).get());
		for (Future<Hold> result : results) {
			holds.add(result.get());
		}
		return Hold.handOffs(holds, 0, waiters);
	}

	/** Release a lock that was acquired before all others. */
	private static Hold letGo(InterProcessLock mutex) throws Exception {
		long released = System.nanoTime();
		mutex.release();
		return new Hold(Long.MIN_VALUE, released);
	}

	private static void awaitQueued(Session session) throws Exception {
		long deadline = System.nanoTime() + PATIENCE_NS;
		while (!session.isQueued()) {
			if (System.nanoTime() > deadline) {
				throw new Exception("a session does not get into the queue");
			}
			Thread.sleep(1);
		}
	}

	private static void sleepUntil(long time) {
		for (long left; (left = time - System.nanoTime()) > 0;) {
			LockSupport.parkNanos(left);
		}
	}
}
