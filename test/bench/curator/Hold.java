import java.util.Comparator;
import java.util.List;

/** One time that a lock was held; in nanoseconds of System.nanoTime(), which is CLOCK_MONOTONIC. */
final class Hold {
	/** When acquire() had returned. */
	final long acquired;

	/** Just before release() was called. */
	final long released;

	Hold(long acquired, long released) {
		this.acquired = acquired;
		this.released = released;
	}

	/**
	 * How long hand-offs took: from a release to the return of the acquire() that it let
	 * through.  The holds are all there were of one lock, in any order; so many
	 * hand-offs are counted after so many that are left out.
	 */
	static double[] handOffs(List<Hold> holds, int leftOut, int count) {
		double[] durations = new double[count];
		holds.sort(Comparator.comparingLong(hold -> hold.acquired));
		for (int i = 0; i < count; i++) {
			Hold next = holds.get(leftOut + i + 1);
			durations[i] = microseconds(next.acquired - holds.get(leftOut + i).released);
			if (durations[i] < 0) {
				throw new IllegalStateException("two have held the lock at a time");
			}
		}
		return durations;
	}

	static double microseconds(long nanoseconds) {
		return nanoseconds / 1000.0;
	}
}
