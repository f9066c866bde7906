import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Leadership by Curator's LeaderSelector; each one by a selector and a thread of its own. */
final class LeaderLock implements PathLock {
	private static final int PATIENCE_S = 60;

	private final CuratorFramework client;
	private final String path;
	private LeaderSelector selector;
	private ExecutorService executor;
	private Term term;

	LeaderLock(CuratorFramework client, String path) {
		this.client = client;
		this.path = path;
	}

	/** A time as the leader, from when it is granted until it is told to end. */
	private static final class Term extends LeaderSelectorListenerAdapter {
		private final CountDownLatch granted = new CountDownLatch(1);
		private final CountDownLatch toEnd = new CountDownLatch(1);

		@Override
		public void takeLeadership(CuratorFramework client) throws Exception {
			granted.countDown();
			toEnd.await();
		}
	}

	@Override
	public void acquire() throws Exception {
		term = new Term();
		executor = Executors.newSingleThreadExecutor();
		selector = new LeaderSelector(client, path, executor, term);
		selector.start();
		term.granted.await();
	}

	/** The selector's thread deletes the contender at its end; to close it before would disturb that. */
	@Override
	public void release() throws Exception {
		term.toEnd.countDown();
		executor.shutdown();
		if (!executor.awaitTermination(PATIENCE_S, TimeUnit.SECONDS)) {
			throw new Exception("leadership does not end");
		}
		selector.close();
	}

	@Override
	public int contenders() throws Exception {
		return selector.getParticipants().size();
	}
}
