import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/** The peer of the bench that is Curator: commands from standard input, an answer to each. */
public final class Peer {
	private final Commands commands;

	private Peer(String servers) {
		commands = new Commands(servers);
	}

	/** The one argument is the connect string. */
	public static void main(String[] args) throws IOException {
		Peer peer = new Peer(args[0]);
		BufferedReader input =
				new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
		String line;
		while ((line = input.readLine()) != null && !line.equals("quit")) {
			System.out.println(peer.answer(line.split(" ")));
		}
		System.exit(0);
	}

	private String answer(String[] words) {
		try {
			return carryOut(words);
		} catch (Exception e) {
			e.printStackTrace();
			return "error " + e.toString().replace('\n', ' ');
		}
	}

	private String carryOut(String[] words) throws Exception {
		switch (words[0]) {
			case "open":
				commands.open(number(words[1]));
				return "ok";
			case "close":
				commands.close();
				return "ok";
			case "cycle":
				return durations(commands.cycle(words[1], number(words[2])));
			case "throughput":
				return throughput(commands.throughput(
						words[1], number(words[2]), Double.parseDouble(words[3])));
			case "handoff":
				return durations(commands.handOff(
						words[1], number(words[2]), number(words[3]), number(words[4])));
			case "drain":
				return durations(commands.drain(words[1], number(words[2])));
			case "array":
				return durations(commands.array(words[1], number(words[2]), number(words[3])));
			case "first":
				return durations(commands.first(number(words[1])));
			default:
				return "unsupported " + words[0];
		}
	}

	private static int number(String word) {
		return Integer.parseInt(word);
	}

	private static String durations(double[] durations) {
		StringBuilder answer = new StringBuilder("ok");
		for (double duration : durations) {
			answer.append(String.format(Locale.ROOT, " %.1f", duration));
		}
		return answer.toString();
	}

	private static String throughput(double[] result) {
		return String.format(Locale.ROOT, "ok %.0f %.6f", result[0], result[1]);
	}
}
