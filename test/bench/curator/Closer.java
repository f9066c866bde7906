import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Future;
import java.util.stream.Collectors;

/**
 * Ends many sessions.  ZooKeeper's client sleeps for 100 ms when it has closed its
 * connection, and holds a monitor meanwhile that all clients in a virtual machine have
 * in common (it is that of a constant): a thousand would take more than a minute.  So
 * threads that sleep there are woken, which is all the same to them.
 */
final class Closer {
	/** In the names of the threads that sleep. */
	private static final String SENDER = "-SendThread(";

	private Closer() {
	}

	/** End sessions, with nothing under way, and wait until that is done. */
	static void close(List<Session> sessions) throws Exception {
		List<Thread> senders = senders();
		List<Future<?>> closed = new ArrayList<>();
		for (Session session : sessions) {
			closed.add(session.beginClose());
		}
		for (Future<?> one : closed) {
			while (!one.isDone()) {
				wake(senders);
				Thread.sleep(1);
			}
			one.get();
		}
	}

	private static List<Thread> senders() {
		Thread[] threads = new Thread[2 * Thread.activeCount()];
		int count = Thread.enumerate(threads);
		return Arrays.stream(threads, 0, count)
				.filter(thread -> thread.getName().contains(SENDER))
				.collect(Collectors.toList());
	}

	/** Wake those that sleep.  Those that still wait for the network are in another state. */
	private static void wake(List<Thread> senders) {
		for (Thread sender : senders) {
			if (sender.getState() == Thread.State.TIMED_WAITING) {
				sender.interrupt();
			}
		}
	}
}
