/*-------------------------------------------------------------------------
 *
 * path_fuzz.c
 *	  Paths of locks (S364), and the paths that are made of them.
 *
 * The input is a path, which is compared with what PathUtils.validatePath() of ZooKeeper
 * does with its UTF-16.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"
#include "queue.h"
#include "record.h"
#include "utf16.h"
#include "zk_check.h"

/* Longest component that is allowed. */
#define MAX_COMPONENT	255

/* Returns true if ZooKeeper's validatePath() accepts this. */
static bool
zookeeper_accepts(const uint16_t *path, int count)
{
	if (count <= 0 || path[0] != '/')
		return false;
	if (count == 1)
		return true;
	if (path[count - 1] == '/')
		return false;
	for (int i = 1; i < count; i++)
	{
		bool		last = i + 1 == count || path[i + 1] == '/';

		if (path[i] == '/' && path[i - 1] == '/')
			return false;
		if (path[i] == '.' && last &&
			(path[i - 1] == '/' || (path[i - 1] == '.' && path[i - 2] == '/')))
			return false;
		if (path[i] <= 0x1F || (path[i] >= 0x7F && path[i] <= 0x9F) ||
			(path[i] >= 0xD800 && path[i] <= 0xF8FF) || path[i] >= 0xFFF0)
			return false;
	}
	return true;
}

/* Returns true if zklock takes no component of this path, accepted by ZooKeeper, amiss. */
static bool
components_fit(const char *path)
{
	const char *end;

	if (path[1] == '\0')
		return false;
	for (const char *start = path + 1;; start = end + 1)
	{
		size_t		len = strcspn(start, "/");
		char	   *component = exact_text(start, len);
		bool		fits = len <= MAX_COMPONENT && !zk_contender_check(component);

		if (start == path + 1 &&
			(strcmp(component, ".zklock") == 0 || strcmp(component, "zookeeper") == 0))
			fits = false;
		free(component);
		if (!fits)
			return false;
		end = start + len;
		if (*end == '\0')
			return true;
	}
}

/* The paths of the record and of its parents, below any part of the path as root. */
static void
check_record_path(const char *path, size_t len)
{
	for (size_t root = 0; root < len; root++)
	{
		char		record[ZK_RECORD_PATH_SIZE];
		size_t		at;

		if (path[root] != '/')
			continue;
		zk_record_path(path, root, record);
		CHECK(strlen(record) == len + strlen(ZK_RECORDS_NODE));
		CHECK(memcmp(record, path, root) == 0);
		CHECK(strcmp(record + root + strlen(ZK_RECORDS_NODE), path + root) == 0);

		/* down to the root, and up again */
		at = zk_path_above(record, strlen(record));
		CHECK(record[at] == '/' && strchr(record + at + 1, '/') == NULL);
		while (zk_path_next_above(record, root, &at, false))
			CHECK(at > root && record[at] == '/');
		CHECK(at == root);
		while (zk_path_next_above(record, root, &at, true))
			CHECK(record[at] == '/');
		CHECK(at == zk_path_above(record, strlen(record)));
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *path = exact_copy(data, size);
	char	   *text = exact_text(data, size);
	uint16_t   *units = malloc(sizeof(uint16_t) * (size + 1));
	int			count;
	bool		accepted = zk_path_check(path, size) == NULL;
	bool		fit;

	CHECK(units != NULL);
	count = utf16_decode(data, size, units);
	fit = size < ZK_NODE_PATH_SIZE && zookeeper_accepts(units, count) &&
		strlen(text) == size && components_fit(text);
	CHECK(accepted == fit);
	if (accepted)
		check_record_path(text, size);
	free(units);
	free(text);
	free(path);
	return 0;
}
