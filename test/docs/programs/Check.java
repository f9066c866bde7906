import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * The Java code of doc/howto-applications.md, carried out on command: see "java" beside this
 * file.
 */
final class Check {
	private final String url;

	private Check(String url) {
		this.url = url;
	}

	public static void main(String[] arguments) throws Exception {
		Check check = new Check(arguments[0]);
		BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
		for (String command = commands.readLine(); command != null; command = commands.readLine()) {
			String answer;
			try {
				answer = check.carryOut(command);
			} catch (SQLException | InterruptedException e) {
				answer = "error " + e.toString().replace('\n', ' ');
			}
			System.out.println(answer);
		}
	}

	private String carryOut(String command) throws SQLException, InterruptedException {
		switch (command) {
		case "busy":
			return busy();
		case "lost":
			return lost();
		case "invalid":
			return invalid();
		case "unreachable":
			return unreachable();
		case "never":
			return never();
		case "no cast":
			return withoutCast();
		case "autocommit":
			return autocommit();
		case "pool":
			return pool();
		case "session":
			return session();
		case "session lost":
			return sessionLost();
		case "query timeout":
			return queryTimeout();
		case "socket timeout":
			return socketTimeout();
		default:
			return "error no such command";
		}
	}

	/** A pool with one connection, and with settings of its sessions. */
	private HikariDataSource newPool(String... settings) {
		HikariConfig config = new HikariConfig();
		config.setJdbcUrl(url);
		config.setMaximumPoolSize(1);
		if (settings.length > 0)
			config.setConnectionInitSql("SET " + String.join("; SET ", settings));
		return new HikariDataSource(config);
	}

	private static String value(Connection connection, String query) throws SQLException {
		try (Statement statement = connection.createStatement();
				ResultSet result = statement.executeQuery(query)) {
			result.next();
			return result.getString(1);
		}
	}

	/** Take the lock away from its holder. */
	private void breakLock(String path) throws SQLException {
		try (Connection other = DriverManager.getConnection(url)) {
			value(other, "SELECT zk_lock_break('" + path + "', contender) FROM zk_lock_queue('"
					+ path + "') WHERE granted");
		}
	}

	private String busy() throws SQLException, InterruptedException {
		try (HikariDataSource pool = newPool(); Connection holder = DriverManager.getConnection(url)) {
			value(holder, "SELECT zk_lock_acquire('/java/busy')");
			boolean first = Locked.run(pool, "/java/busy", "0", connection -> { });
			value(holder, "SELECT zk_lock_release('/java/busy')");
			boolean second = Locked.run(pool, "/java/busy", "0", connection -> { });
			return first + " " + second;
		}
	}

	private String lost() throws SQLException, InterruptedException {
		int[] calls = {0};
		try (HikariDataSource pool = newPool()) {
			boolean done = Locked.run(pool, "/java/lost", "5 s", connection -> {
				if (calls[0]++ == 0)
					breakLock("/java/lost");
			});
			return done + " " + calls[0];
		}
	}

	private String invalid() throws InterruptedException {
		int[] calls = {0};
		try (HikariDataSource pool = newPool()) {
			Locked.run(pool, "/java/invalid", "5 s", connection -> {
				calls[0]++;
				value(connection, "SELECT zk_lock_verify('invalid')");
			});
			return "done";
		} catch (SQLException e) {
			return e.getSQLState() + " " + calls[0];
		}
	}

	/** While ZooKeeper is down: what becomes of a pooled connection. */
	private String unreachable() throws SQLException {
		try (HikariDataSource pool = newPool("zklock.connect_timeout = '500ms'");
				Connection connection = pool.getConnection()) {
			boolean valid = connection.isValid(10);
			try {
				value(connection, "SELECT zk_lock_acquire_xact('/java/down')");
				return "acquired";
			} catch (SQLException e) {
				return e.getSQLState() + " " + valid + " " + connection.isClosed();
			}
		}
	}

	/** While ZooKeeper is down: the code on the page tries several times, and reports it. */
	private String never() throws InterruptedException {
		try (HikariDataSource pool = newPool("zklock.connect_timeout = '500ms'")) {
			Locked.run(pool, "/java/never", "5 s", connection -> { });
			return "done";
		} catch (SQLException e) {
			return e.getSQLState();
		}
	}

	private String withoutCast() throws SQLException {
		try (Connection connection = DriverManager.getConnection(url);
				PreparedStatement call = connection
						.prepareStatement("SELECT zk_lock_acquire_xact(?, ?)")) {
			call.setString(1, "/java/cast");
			call.setString(2, "5 s");
			call.executeQuery();
			return "acquired";
		} catch (SQLException e) {
			return e.getSQLState() + " " + e.getMessage().contains("character varying");
		}
	}

	private String autocommit() throws SQLException {
		try (Connection first = DriverManager.getConnection(url);
				Connection second = DriverManager.getConnection(url)) {
			String query = "SELECT zk_lock_acquire_xact('/java/auto', '0')";
			return value(first, query) + " " + value(second, query);
		}
	}

	/** What the second user of a connection finds that the first one locked. */
	private String pool() throws SQLException {
		try (HikariDataSource pool = newPool()) {
			try (Connection first = pool.getConnection()) {
				value(first, "SELECT zk_lock_acquire('/java/pooled')");
			}
			try (Connection second = pool.getConnection()) {
				return value(second, "SELECT count(*) FROM zk_locks") + " "
						+ value(second, "SELECT zk_lock_acquire('/java/pooled', '0')");
			}
		}
	}

	private String session() throws SQLException {
		String[] held = {null};
		try (HikariDataSource pool = newPool()) {
			boolean done = SessionLock.run(pool,
					connection -> held[0] = value(connection, "SELECT count(*) FROM zk_locks"));
			try (Connection second = pool.getConnection()) {
				return done + " " + held[0] + " " + value(second, "SELECT count(*) FROM zk_locks");
			}
		}
	}

	/** A lock of the session is lost: the error, and whether the next user can commit. */
	private String sessionLost() throws SQLException {
		String[] pid = {null};
		try (HikariDataSource pool = newPool()) {
			String state = "none";
			try {
				SessionLock.run(pool, connection -> {
					pid[0] = value(connection, "SELECT pg_backend_pid()");
					breakLock("/jobs/report");
					value(connection, "SELECT zk_lock_verify('/jobs/report')");
				});
			} catch (SQLException e) {
				state = e.getSQLState();
			}
			try (Connection second = pool.getConnection();
					Statement statement = second.createStatement()) {
				statement.execute("UPDATE report SET number = number + 1");
				return state + " " + value(second, "SELECT pg_backend_pid()").equals(pid[0]);
			}
		}
	}

	private String queryTimeout() throws SQLException {
		try (Connection holder = DriverManager.getConnection(url);
				Connection waiter = DriverManager.getConnection(url);
				Statement statement = waiter.createStatement()) {
			value(holder, "SELECT zk_lock_acquire('/java/busy')");
			statement.setQueryTimeout(1);
			try {
				statement.execute("SELECT zk_lock_acquire('/java/busy')");
				return "acquired";
			} catch (SQLException e) {
				return e.getSQLState();
			}
		}
	}

	/** The connection breaks: whether the server says so, and who is still in the queue. */
	private String socketTimeout() throws SQLException {
		try (Connection holder = DriverManager.getConnection(url);
				Connection waiter = DriverManager.getConnection(url + "&socketTimeout=1")) {
			value(holder, "SELECT zk_lock_acquire('/java/busy')");
			try {
				value(waiter, "SELECT zk_lock_acquire('/java/busy')");
				return "acquired";
			} catch (SQLException e) {
				return e.getSQLState() + " " + waiter.isClosed() + " "
						+ value(holder, "SELECT count(*) FROM zk_lock_queue('/java/busy')");
			}
		}
	}
}
