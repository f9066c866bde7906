/*-------------------------------------------------------------------------
 *
 * zkprobe.c
 *	  Look at znodes and disturb them, line by line.
 *
 * Reads commands from standard input, one on each line, its words separated by
 * blanks, and answers each with one line of fields separated by tabs, the
 * first of which is the return code of the C client library (0 is success).
 * In both directions %XX stands for the byte with that hexadecimal number, and
 * in a command the word "-" for an empty value.
 *
 *	connect SERVERS [TIMEOUT]	-> session id, negotiated timeout in ms
 *	close
 *	session						-> session id, password, timeout, state
 *	expire ID PASSWORD			end that session as its own client would
 *	auth SCHEME CREDENTIALS
 *	create PATH [DATA [FLAGS]]	-> path; FLAGS: of "ephemeral", "sequential",
 *								   or "container", joined by commas
 *	delete PATH [VERSION]
 *	deleteall PATH				-> count; the node and all below it
 *	get PATH					-> data, version
 *	set PATH DATA [VERSION]		-> new version
 *	stat PATH					-> NAME=VALUE ...; also an "exists"
 *	ls PATH						-> names, sorted
 *	tree PATH					-> paths of the node and all below, sorted
 *	acl PATH [ACL]				set, or get -> SCHEME:ID:PERMISSIONS ...,
 *								   joined by commas; permissions of "crwda"
 *	sync PATH
 *	reconfig JOINING LEAVING	change the ensemble: lines of configuration of
 *								the servers that join, numbers of those that
 *								leave, joined by commas
 *
 * A test has one probe running for all it wants to know: starting a client
 * for each question would cost more than the question.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

/* Words of a command. */
#define MAX_WORDS		8

/* A znode's data as read, at most; the server's own limit is less. */
#define MAX_DATA		(2 * 1024 * 1024)

/* Longest path that create answers with. */
#define MAX_PATH		4096

typedef struct Command
{
	const char *name;
	int			min_words;		/* without the name */
	int			max_words;
	bool		connected;		/* needs a connection */
	int			(*run) (void);	/* prints its fields */
} Command;

static zhandle_t *handle = NULL;

/* The command being run: the words after its name. */
static int	count;
static char *words[MAX_WORDS];

static char *data_buffer;

/* Collects the fields of an answer: the code comes before them, known last. */
static FILE *answer;

/*
 * Print a field: a tab, and the bytes with those escaped that would break the
 * line up.
 */
static void
put_bytes(const char *bytes, size_t len)
{
	size_t		i;

	fputc('\t', answer);
	for (i = 0; i < len; i++)
	{
		unsigned char byte = (unsigned char) bytes[i];

		if (byte < ' ' || byte == '%' || byte == 0x7f)
			fprintf(answer, "%%%02x", byte);
		else
			fputc(byte, answer);
	}
}

static void
put_text(const char *text)
{
	put_bytes(text, strlen(text));
}

/*
 * Undo the escaping of a word, in place.  What is no escape stays.
 */
static void
unescape(char *word)
{
	char	   *to = word;
	const char *from = word;
	unsigned int byte;

	while (*from)
	{
		if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1)
		{
			*to++ = (char) byte;
			from += 3;
		}
		else
			*to++ = *from++;
	}
	*to = '\0';
}

static const char *
value(const char *word)
{
	return strcmp(word, "-") == 0 ? "" : word;
}

/*
 * Wait until a handle is connected.  Returns a code of the library.
 */
static int
wait_connected(zhandle_t *zh, int timeout_ms)
{
	const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
	int			waited;

	for (waited = 0; waited < timeout_ms; waited += 5)
	{
		int			state = zoo_state(zh);

		if (state == ZOO_CONNECTED_STATE)
			return ZOK;
		if (state == ZOO_EXPIRED_SESSION_STATE)
			return ZSESSIONEXPIRED;
		if (state == ZOO_AUTH_FAILED_STATE)
			return ZAUTHFAILED;
		nanosleep(&pause, NULL);
	}
	return ZOPERATIONTIMEOUT;
}

static int
run_close(void)
{
	int			rc = ZOK;

	if (handle)
		rc = zookeeper_close(handle);
	handle = NULL;
	return rc;
}

static int
run_connect(void)
{
	int			timeout = count > 1 ? atoi(words[1]) : 10000;
	int			rc;

	run_close();
	handle = zookeeper_init(words[0], NULL, timeout, NULL, NULL, 0);
	if (!handle)
		return ZSYSTEMERROR;
	rc = wait_connected(handle, 10000);
	if (rc != ZOK)
	{
		run_close();
		return rc;
	}
	fprintf(answer, "\t0x%" PRIx64 "\t%d", zoo_client_id(handle)->client_id,
			zoo_recv_timeout(handle));
	return ZOK;
}

static int
run_session(void)
{
	const clientid_t *id = zoo_client_id(handle);
	size_t		i;

	fprintf(answer, "\t0x%" PRIx64 "\t", id->client_id);
	for (i = 0; i < sizeof(id->passwd); i++)
		fprintf(answer, "%02x", (unsigned char) id->passwd[i]);
	fprintf(answer, "\t%d\t%d", zoo_recv_timeout(handle), zoo_state(handle));
	return ZOK;
}

/*
 * Expire another client's session: join it with its id and password, and close
 * it.  The servers are those of our own connection.
 */
static int
run_expire(void)
{
	clientid_t	id = {0};
	zhandle_t  *other;
	char		server[128];
	size_t		i;
	int			rc;

	id.client_id = (int64_t) strtoull(words[0], NULL, 16);
	for (i = 0; i < sizeof(id.passwd); i++)
	{
		unsigned int byte;

		if (sscanf(words[1] + 2 * i, "%2x", &byte) != 1)
			return ZBADARGUMENTS;
		id.passwd[i] = (char) byte;
	}
	snprintf(server, sizeof(server), "%s", zoo_get_current_server(handle));

	/*
	 * Its own client may win the session back before the close is sent: it is
	 * over when no client can join it any more.
	 */
	do
	{
		other = zookeeper_init(server, NULL, zoo_recv_timeout(handle), &id,
							   NULL, 0);
		if (!other)
			return ZSYSTEMERROR;
		rc = wait_connected(other, 10000);
		zookeeper_close(other);
	} while (rc == ZOK);
	return rc == ZSESSIONEXPIRED ? ZOK : rc;
}

static int
run_auth(void)
{
	return zoo_add_auth(handle, words[0], words[1], (int) strlen(words[1]),
						NULL, NULL);
}

static int
create_mode(const char *flags)
{
	if (strstr(flags, "container"))
		return ZOO_CONTAINER;
	return (strstr(flags, "ephemeral") ? ZOO_EPHEMERAL : 0) |
		(strstr(flags, "sequential") ? ZOO_SEQUENCE : 0);
}

static int
run_create(void)
{
	const char *data = count > 1 ? value(words[1]) : "";
	char		path[MAX_PATH];
	int			rc;

	rc = zoo_create(handle, words[0], data, (int) strlen(data),
					&ZOO_OPEN_ACL_UNSAFE, create_mode(count > 2 ? words[2] : ""),
					path, sizeof(path));
	if (rc == ZOK)
		put_text(path);
	return rc;
}

static int
run_delete(void)
{
	return zoo_delete(handle, words[0], count > 1 ? atoi(words[1]) : -1);
}

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/*
 * The children of a node, sorted; to be freed with the library's
 * deallocate_String_vector().  Returns a code of the library.
 */
static int
get_children(const char *path, struct String_vector *children)
{
	int			rc = zoo_get_children(handle, path, 0, children);

	if (rc == ZOK && children->count > 0)
		qsort(children->data, (size_t) children->count,
			  sizeof(children->data[0]), compare_texts);
	return rc;
}

/*
 * Call visit for all below a node, and then or before that for itself.  A node
 * that vanishes in between is skipped.  Returns a code of the library.
 */
static int
walk(const char *path, bool children_first, int (*visit) (const char *path))
{
	struct String_vector children;
	int			rc = ZOK;
	int			i;

	if (!children_first)
		rc = visit(path);
	if (rc == ZOK)
		rc = get_children(path, &children);
	if (rc != ZOK)
		return rc == ZNONODE ? ZOK : rc;
	for (i = 0; i < children.count && rc == ZOK; i++)
	{
		char		child[MAX_PATH];

		snprintf(child, sizeof(child), "%s/%s",
				 strcmp(path, "/") == 0 ? "" : path, children.data[i]);
		rc = walk(child, children_first, visit);
	}
	deallocate_String_vector(&children);
	if (rc == ZOK && children_first)
		rc = visit(path);
	return rc;
}

static int	deleted;

static int
delete_visited(const char *path)
{
	int			rc;

	/* These two belong to the server. */
	if (strcmp(path, "/") == 0 || strncmp(path, "/zookeeper", 10) == 0)
		return ZOK;
	rc = zoo_delete(handle, path, -1);
	if (rc == ZOK)
		deleted++;
	return rc == ZNONODE ? ZOK : rc;
}

/*
 * Clients may create children meanwhile: they go, too.
 */
static int
run_deleteall(void)
{
	int			tries = 100;
	int			rc;

	deleted = 0;
	do
	{
		rc = walk(words[0], true, delete_visited);
	} while (rc == ZNOTEMPTY && --tries > 0);
	fprintf(answer, "\t%d", deleted);
	return rc;
}

static int
put_visited(const char *path)
{
	put_text(path);
	return ZOK;
}

static int
run_tree(void)
{
	struct Stat stat;
	int			rc = zoo_exists(handle, words[0], 0, &stat);

	return rc == ZOK ? walk(words[0], false, put_visited) : rc;
}

static int
run_ls(void)
{
	struct String_vector children;
	int			rc = get_children(words[0], &children);
	int			i;

	if (rc != ZOK)
		return rc;
	for (i = 0; i < children.count; i++)
		put_text(children.data[i]);
	deallocate_String_vector(&children);
	return ZOK;
}

static int
run_get(void)
{
	struct Stat stat;
	int			len = MAX_DATA;
	int			rc = zoo_get(handle, words[0], 0, data_buffer, &len, &stat);

	if (rc == ZOK)
	{
		put_bytes(data_buffer, len > 0 ? (size_t) len : 0);
		fprintf(answer, "\t%d", stat.version);
	}
	return rc;
}

static int
run_set(void)
{
	const char *data = value(words[1]);
	struct Stat stat;
	int			rc = zoo_set2(handle, words[0], data, (int) strlen(data),
							  count > 2 ? atoi(words[2]) : -1, &stat);

	if (rc == ZOK)
		fprintf(answer, "\t%d", stat.version);
	return rc;
}

static int
run_stat(void)
{
	struct Stat stat;
	int			rc = zoo_exists(handle, words[0], 0, &stat);

	if (rc == ZOK)
		fprintf(answer, "\tczxid=%" PRId64 "\tmzxid=%" PRId64 "\tpzxid=%" PRId64
				"\tctime=%" PRId64 "\tmtime=%" PRId64
				"\tversion=%d\tcversion=%d\taversion=%d"
				"\tephemeralOwner=0x%" PRIx64 "\tdataLength=%d\tnumChildren=%d",
				stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime,
				stat.version, stat.cversion, stat.aversion,
				stat.ephemeralOwner, stat.dataLength, stat.numChildren);
	return rc;
}

/* The letters of permissions, in the order of their bits. */
static const char permissions[] = "rwcda";

static int
put_acl(const char *path)
{
	struct ACL_vector list;
	struct Stat stat;
	int			rc = zoo_get_acl(handle, path, &list, &stat);
	int			i;
	int			p;

	if (rc != ZOK)
		return rc;
	fputc('\t', answer);
	for (i = 0; i < list.count; i++)
	{
		fprintf(answer, "%s%s:%s:", i > 0 ? "," : "", list.data[i].id.scheme,
				list.data[i].id.id);
		for (p = 0; permissions[p]; p++)
			if (list.data[i].perms & (1 << p))
				fputc(permissions[p], answer);
	}
	deallocate_ACL_vector(&list);
	return ZOK;
}

/*
 * Set the ACL given as SCHEME:ID:PERMISSIONS,...  The parts are cut out of
 * the text in place; an id may have colons in it.
 */
static int
set_acl(const char *path, char *text)
{
	struct ACL	entries[16];
	struct ACL_vector list = {.count = 0,.data = entries};
	char	   *entry;
	char	   *rest = text;

	while ((entry = strsep(&rest, ",")) != NULL)
	{
		char	   *id = strchr(entry, ':');
		char	   *letters = strrchr(entry, ':');
		struct ACL *acl = &entries[list.count];
		int			p;

		if (list.count == 16 || !id || letters == id)
			return ZBADARGUMENTS;
		*id++ = '\0';
		*letters++ = '\0';
		acl->id = (struct Id)
		{
			.scheme = entry,.id = id
		};
		acl->perms = 0;
		for (p = 0; permissions[p]; p++)
			if (strchr(letters, permissions[p]))
				acl->perms |= 1 << p;
		list.count++;
	}
	return zoo_set_acl(handle, path, -1, &list);
}

static int
run_acl(void)
{
	return count > 1 ? set_acl(words[0], words[1]) : put_acl(words[0]);
}

static sem_t sync_answered;
static int	sync_rc;

/* Runs on the library's thread. */
static void
sync_completed(int rc, const char *path, const void *context)
{
	(void) path;
	(void) context;
	sync_rc = rc;
	sem_post(&sync_answered);
}

static int
run_sync(void)
{
	int			rc = zoo_async(handle, words[0], sync_completed, NULL);

	if (rc == ZOK)
	{
		while (sem_wait(&sync_answered) != 0)
			continue;
		rc = sync_rc;
	}
	return rc;
}

/* What the library takes for "none" is no text at all. */
static const char *
text_or_null(const char *word)
{
	return strcmp(word, "-") == 0 ? NULL : word;
}

static int
run_reconfig(void)
{
	int			len = MAX_DATA;
	struct Stat stat;

	return zoo_reconfig(handle, text_or_null(words[0]),
						text_or_null(words[1]), NULL, -1, data_buffer, &len,
						&stat);
}

static const Command commands[] = {
	{"connect", 1, 2, false, run_connect},
	{"close", 0, 0, false, run_close},
	{"session", 0, 0, true, run_session},
	{"expire", 2, 2, true, run_expire},
	{"auth", 2, 2, true, run_auth},
	{"create", 1, 3, true, run_create},
	{"delete", 1, 2, true, run_delete},
	{"deleteall", 1, 1, true, run_deleteall},
	{"get", 1, 1, true, run_get},
	{"set", 2, 3, true, run_set},
	{"stat", 1, 1, true, run_stat},
	{"exists", 1, 1, true, run_stat},
	{"ls", 1, 1, true, run_ls},
	{"tree", 1, 1, true, run_tree},
	{"acl", 1, 2, true, run_acl},
	{"sync", 1, 1, true, run_sync},
	{"reconfig", 2, 2, true, run_reconfig}
};

/*
 * Run one line and print its answer.  Returns the code, which is not printed.
 */
static int
run_line(char *line)
{
	const char *name = strtok(line, " \n");
	char	   *word;
	size_t		i;

	count = 0;
	while ((word = strtok(NULL, " \n")) != NULL)
	{
		if (count == MAX_WORDS)
			return ZBADARGUMENTS;
		unescape(word);
		words[count++] = word;
	}
	for (i = 0; name && i < sizeof(commands) / sizeof(commands[0]); i++)
	{
		const Command *command = &commands[i];

		if (strcmp(name, command->name) != 0)
			continue;
		if (count < command->min_words || count > command->max_words)
			return ZBADARGUMENTS;
		if (command->connected && !handle)
			return ZINVALIDSTATE;
		return command->run();
	}
	return ZUNIMPLEMENTED;
}

int
main(void)
{
	char	   *line = NULL;
	size_t		size = 0;
	char	   *fields;
	size_t		fields_len;

	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	data_buffer = malloc(MAX_DATA);
	if (!data_buffer || sem_init(&sync_answered, 0, 0) != 0)
		return 1;
	while (getline(&line, &size, stdin) > 0)
	{
		int			rc;

		answer = open_memstream(&fields, &fields_len);
		if (!answer)
			return 1;
		rc = run_line(line);
		fclose(answer);
		printf("%d%s\n", rc, fields);
		fflush(stdout);
		free(fields);
	}
	run_close();
	return 0;
}
