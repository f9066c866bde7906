/*-------------------------------------------------------------------------
 *
 * zklock.c
 *	  The client program: its options.
 *
 * "zklock run" is flock(1) for clusters: it runs a command under a lock, which
 * a backend holds.  Its calls point down: run.c, lock_connection.c, events.c,
 * guardian.c, descendants.c.
 *
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* libpq's parameters; the last pair is NULL. */
#define MAX_PARAMETERS	8

typedef struct Parameters
{
	int			count;
	const char *keywords[MAX_PARAMETERS];
	const char *values[MAX_PARAMETERS];
} Parameters;

/* Options without a letter. */
enum
{
	OPTION_HELP = 256,
	OPTION_JOB,
	OPTION_NOTE,
	OPTION_SEMAPHORE
};

static const struct option long_options[] = {
	{"conflict-exit-code", required_argument, NULL, 'E'},
	{"dbname", required_argument, NULL, 'd'},
	{"help", no_argument, NULL, OPTION_HELP},
	{"host", required_argument, NULL, 'h'},
	{"job", required_argument, NULL, OPTION_JOB},
	{"no-password", no_argument, NULL, 'w'},
	{"note", required_argument, NULL, OPTION_NOTE},
	{"nonblock", no_argument, NULL, 'n'},
	{"port", required_argument, NULL, 'p'},
	{"semaphore", required_argument, NULL, OPTION_SEMAPHORE},
	{"shared", no_argument, NULL, 's'},
	{"timeout", required_argument, NULL, 't'},
	{"username", required_argument, NULL, 'U'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0}
};

static const char usage_text[] =
"zklock run runs a command under a lock in ZooKeeper, by way of PostgreSQL.\n"
"\n"
"Usage:\n"
"  zklock run [OPTION]... PATH [--] COMMAND [ARGUMENT]...\n"
"\n"
"Lock:\n"
"  -s, --shared              lock in shared mode\n"
"      --semaphore=N         acquire one of N permits\n"
"      --job=FIRE_TIME       run the job that was due at that time, if it is not\n"
"                            done, and mark it as done if the command succeeds\n"
"      --note=TEXT           a note that others see beside the lock\n"
"  -t, --timeout=INTERVAL    wait that long for the lock, in seconds if there is\n"
"                            no unit; without this option, forever\n"
"  -n, --nonblock            do not wait\n"
"  -E, --conflict-exit-code=N\n"
"                            exit status if the lock is not acquired (default:\n"
"                            124; with --job 0)\n"
"\n"
"Connection:\n"
"  -d, --dbname=DBNAME       database name or connection string\n"
"  -h, --host=HOSTNAME       database server host or socket directory\n"
"  -p, --port=PORT           database server port\n"
"  -U, --username=USERNAME   database user name\n"
"  -w, --no-password         never ask for a password (there is no other way)\n"
"\n"
"  -V, --version             output version information, then exit\n"
"  -?, --help                show this help, then exit\n"
"\n"
"The command finds ZKLOCK_PATH and ZKLOCK_TOKEN in its environment.  The exit\n"
"status is the command's, or 122 if PostgreSQL or ZooKeeper cannot be reached,\n"
"123 if the lock was lost, 124 if it was not acquired, 125 after other errors,\n"
"126 if the command cannot be executed, 127 if it cannot be found, and 128+N if\n"
"signal N killed it.\n";

/* Ends with a message about the arguments. */
static _Noreturn void
misused(const char *format, const char *argument)
{
	fprintf(stderr, "zklock: ");
	fprintf(stderr, format, argument);
	fprintf(stderr, "\nTry \"zklock --help\" for more information.\n");
	exit(EXIT_ERROR);
}

/* Ends after an option that only asks for information. */
static _Noreturn void
show_usage(void)
{
	fputs(usage_text, stdout);
	exit(0);
}

static _Noreturn void
show_version(void)
{
	printf("zklock %s\n", ZKLOCK_VERSION);
	exit(0);
}

/* Adds a parameter of the connection, or replaces its value. */
static void
add_parameter(Parameters *parameters, const char *keyword, const char *value)
{
	for (int i = 0; i < parameters->count; i++)
		if (strcmp(parameters->keywords[i], keyword) == 0)
		{
			parameters->values[i] = value;
			return;
		}
	parameters->keywords[parameters->count] = keyword;
	parameters->values[parameters->count++] = value;
}

/* Returns an exit status. */
static int
parse_status(const char *text)
{
	char	   *end;
	long		status = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || status < 0 || status > 255)
		misused("invalid exit status: \"%s\"", text);
	return (int) status;
}

/* Reads the options of "zklock run"; the rest is path and command. */
static void
parse_run(int argc, char **argv, RunOptions *options, Parameters *parameters)
{
	Target	   *target = &options->target;
	int			option;

	/* "+": the options of the command are its own */
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+d:E:h:np:st:U:Vw", long_options, NULL)) != -1)
		switch (option)
		{
			case 'd':
				add_parameter(parameters, "dbname", optarg);
				break;
			case 'E':
				options->busy_status = parse_status(optarg);
				break;
			case 'h':
				add_parameter(parameters, "host", optarg);
				break;
			case 'n':
				target->timeout = "0";
				break;
			case 'p':
				add_parameter(parameters, "port", optarg);
				break;
			case 's':
				target->shared = true;
				break;
			case 't':
				target->timeout = optarg;
				break;
			case 'U':
				add_parameter(parameters, "user", optarg);
				break;
			case 'w':
				break;
			case 'V':
				show_version();
			case OPTION_HELP:
				show_usage();
			case OPTION_JOB:
				target->fire_time = optarg;
				break;
			case OPTION_NOTE:
				target->note = optarg;
				break;
			case OPTION_SEMAPHORE:
				target->permits = optarg;
				break;
			default:
				/* getopt's way to report an error is '?', too */
				if (strcmp(argv[optind - 1], "-?") == 0)
					show_usage();
				misused("invalid option: \"%s\"", argv[optind - 1]);
		}
	if ((target->shared != 0) + (target->permits != NULL) + (target->fire_time != NULL) > 1)
		misused("%s", "--shared, --semaphore and --job exclude each other");
	if (argc - optind < 1)
		misused("%s", "no lock path was given");
	target->path = argv[optind++];
	if (optind < argc && strcmp(argv[optind], "--") == 0)
		optind++;
	if (optind == argc)
		misused("%s", "no command was given");
	options->command = argv + optind;
}

int
main(int argc, char **argv)
{
	Parameters	parameters = {0};
	RunOptions	options = {.busy_status = -1};

	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0))
		show_usage();
	if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0))
		show_version();
	if (argc < 2 || strcmp(argv[1], "run") != 0)
		misused("%s", argc < 2 ? "no command was given" : "the only command is \"run\"");
	parse_run(argc - 1, argv + 1, &options, &parameters);
	if (options.busy_status < 0)
		options.busy_status = options.target.fire_time != NULL ? 0 : EXIT_BUSY;
	add_parameter(&parameters, "fallback_application_name", "zklock run");
	options.keywords = parameters.keywords;
	options.values = parameters.values;
	return run(&options);
}
