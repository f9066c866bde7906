import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** Locks of Curator, and of ZooKeeper's own recipe, taken on command; see ../README. */
public final class Program {
	private Program() {
	}

	/** The arguments are the connect strings of ZooKeeper and of PostgreSQL. */
	public static void main(String[] args) throws IOException {
		Map<String, Session> sessions = new HashMap<>();
		BufferedReader input =
				new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
		String line;
		while ((line = input.readLine()) != null) {
			String[] words = line.split(" ");
			sessions.computeIfAbsent(words[0], number -> new Session(number, args[0], args[1]))
					.send(words);
		}
		// Do not wait for threads that still wait for a lock.
		System.exit(0);
	}
}
