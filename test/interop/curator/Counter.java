import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;

/** The number in a table, read and written in statements of their own, through a psql. */
final class Counter {
	private final BufferedWriter input;
	private final BufferedReader output;

	Counter(String connection) throws IOException {
		Process psql = new ProcessBuilder(
				"psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", connection)
				.redirectError(ProcessBuilder.Redirect.INHERIT)
				.start();
		input = new BufferedWriter(
				new OutputStreamWriter(psql.getOutputStream(), StandardCharsets.UTF_8));
		output = new BufferedReader(
				new InputStreamReader(psql.getInputStream(), StandardCharsets.UTF_8));
	}

	void increment() throws IOException {
		int seen = ask("SELECT n FROM counter, pg_sleep(0.002)");
		ask("UPDATE counter SET n = " + (seen + 1) + " RETURNING n");
	}

	/** Execute a statement that returns a number. */
	private int ask(String statement) throws IOException {
		input.write(statement + ";\n");
		input.flush();
		return Integer.parseInt(output.readLine());
	}
}
