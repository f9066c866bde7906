/*-------------------------------------------------------------------------
 *
 * requests.c
 *	  Requests as libzookeeper writes them, and replies as it reads them.
 *
 * Both with the functions that the library has for that, which its makers generate.
 * What they return is ignored by the library, so here it must be success.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"
#include "requests.h"

/* The numbers of requests that need no order. */
#define PING_XID		(-2)
#define AUTH_XID		(-4)
#define SET_WATCHES_XID	(-8)

#define MULTI_TYPE		14
#define ERROR_TYPE		(-1)

static const struct
{
	int32_t		type;
	int32_t		xid;			/* 0 for the next number */
}			kinds[REQUEST_KINDS] =

{
	{MULTI_TYPE, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0}, {9, 0},
	{11, PING_XID}, {12, 0}, {15, 0}, {19, 0}, {21, 0}, {100, AUTH_XID}, {101, SET_WATCHES_XID},
	{102, 0}, {105, SET_WATCHES_XID}, {-11, 0}
};

/* Types of operations of a multi-op. */
static const int32_t op_types[] = {1, 2, 5, 13, 15, 19, 21};

static char path[] = "/a";
static char world[] = "world";
static char anyone[] = "anyone";
static char data[] = {'x', '\0', 'y'};

/* Writes what a request has after its header, if an operation of a multi-op can have it. */
static void
write_operation(struct oarchive *archive, int32_t type)
{
	struct ACL	acl = {.perms = 31,.id = {.scheme = world,.id = anyone}};
	struct CreateRequest create = {
		.path = path,.data = {.len = sizeof(data),.buff = data},
		.acl = {.count = 1,.data = &acl}
	};
	struct CreateTTLRequest lasting = {
		.path = path,.data = {.len = -1},.acl = {.count = 1,.data = &acl},.ttl = 1
	};
	struct SetDataRequest set = {
		.path = path,.data = {.len = sizeof(data),.buff = data},.version = -1
	};
	struct DeleteRequest removal = {.path = path,.version = -1};
	struct CheckVersionRequest check = {.path = path,.version = 1};

	switch (type)
	{
		case 1:
		case 15:
		case 19:
			CHECK(serialize_CreateRequest(archive, "req", &create) >= 0);
			break;
		case 2:
			CHECK(serialize_DeleteRequest(archive, "req", &removal) >= 0);
			break;
		case 5:
			CHECK(serialize_SetDataRequest(archive, "req", &set) >= 0);
			break;
		case 13:
			CHECK(serialize_CheckVersionRequest(archive, "req", &check) >= 0);
			break;
		case 21:
			CHECK(serialize_CreateTTLRequest(archive, "req", &lasting) >= 0);
			break;
		default:
			break;
	}
}

/*
 * Makes a request of a kind, to be closed by the caller.  *xid is the number of the last
 * one, and becomes that of this one if it needs one.  A multi-op has operations that these
 * bytes choose.
 */
struct oarchive *
request_make(int kind, int32_t *xid, const uint8_t *ops, int count)
{
	struct oarchive *archive = create_buffer_oarchive();
	struct RequestHeader header = {.xid = kinds[kind].xid,.type = kinds[kind].type};

	CHECK(archive != NULL);
	if (header.xid == 0)
		header.xid = ++(*xid);
	CHECK(serialize_RequestHeader(archive, "header", &header) >= 0);
	if (kind != MULTI_KIND)
	{
		write_operation(archive, header.type);
		return archive;
	}
	for (int i = 0; i <= count; i++)
	{
		struct MultiHeader next = {.type = -1,.done = 1,.err = -1};

		if (i < count)
		{
			next.type = op_types[ops[i] % (sizeof(op_types) / sizeof(op_types[0]))];
			next.done = 0;
		}
		CHECK(serialize_MultiHeader(archive, "multiheader", &next) >= 0);
		if (i < count)
			write_operation(archive, next.type);
	}
	return archive;
}

/* The library takes a string for text that has an end. */
static void
check_path(const char *text)
{
	CHECK(text != NULL && text[0] == '/');
}

static void
check_names(const struct String_vector *names)
{
	CHECK(names->count >= 0 && (names->count == 0 || names->data != NULL));
	for (int32_t i = 0; i < names->count; i++)
		CHECK(names->data[i] != NULL && names->data[i][0] != '\0' &&
			  strchr(names->data[i], '/') == NULL);
}

static void
read_created(struct iarchive *archive, bool with_stat)
{
	struct CreateResponse plain;
	struct Create2Response both;

	if (with_stat)
	{
		CHECK(deserialize_Create2Response(archive, "reply", &both) == 0);
		check_path(both.path);
		deallocate_Create2Response(&both);
		return;
	}
	CHECK(deserialize_CreateResponse(archive, "reply", &plain) == 0);
	check_path(plain.path);
	deallocate_CreateResponse(&plain);
}

static void
read_data(struct iarchive *archive)
{
	struct GetDataResponse reply;

	CHECK(deserialize_GetDataResponse(archive, "reply", &reply) == 0);
	CHECK(reply.data.len >= -1 && (reply.data.len <= 0 || reply.data.buff != NULL));
	deallocate_GetDataResponse(&reply);
}

static void
read_children(struct iarchive *archive, bool with_stat)
{
	struct GetChildrenResponse plain;
	struct GetChildren2Response both;

	if (with_stat)
	{
		CHECK(deserialize_GetChildren2Response(archive, "reply", &both) == 0);
		check_names(&both.children);
		deallocate_GetChildren2Response(&both);
		return;
	}
	CHECK(deserialize_GetChildrenResponse(archive, "reply", &plain) == 0);
	check_names(&plain.children);
	deallocate_GetChildrenResponse(&plain);
}

static void
read_acl(struct iarchive *archive)
{
	struct GetACLResponse reply;

	CHECK(deserialize_GetACLResponse(archive, "reply", &reply) == 0);
	CHECK(reply.acl.count >= 0);
	for (int32_t i = 0; i < reply.acl.count; i++)
		CHECK(reply.acl.data[i].id.scheme != NULL && reply.acl.data[i].id.id != NULL);
	deallocate_GetACLResponse(&reply);
}

static void
read_token(struct iarchive *archive)
{
	struct SetSASLResponse reply;

	CHECK(deserialize_SetSASLResponse(archive, "reply", &reply) == 0);
	CHECK(reply.token.len >= 0);
	deallocate_SetSASLResponse(&reply);
}

/* Read what an operation returns, as the library does. */
static void
read_result(struct iarchive *archive, int32_t type)
{
	struct SetDataResponse stat;

	switch (type)
	{
		case 1:
		case 9:
			read_created(archive, false);
			break;
		case 15:
		case 19:
		case 21:
			read_created(archive, true);
			break;
		case 3:
		case 5:
		case 7:
			CHECK(deserialize_SetDataResponse(archive, "reply", &stat) == 0);
			break;
		case 4:
			read_data(archive);
			break;
		case 6:
			read_acl(archive);
			break;
		case 8:
			read_children(archive, false);
			break;
		case 12:
			read_children(archive, true);
			break;
		case 102:
			read_token(archive);
			break;
		default:
			break;
	}
}

/*
 * The library takes an operation from its list for each result, whose end it must find when
 * that list ends; and it makes a success of what has no error that counts.
 */
static void
read_multi(struct iarchive *archive, const ZkSent *sent)
{
	struct MultiHeader header = {0};
	int			failed = 0;
	int32_t		reason = 0;

	for (int i = 0;; i++)
	{
		struct ErrorResponse error;

		CHECK(deserialize_MultiHeader(archive, "multiheader", &header) == 0);
		if (header.done)
		{
			CHECK(i == sent->count);
			break;
		}
		CHECK(i < sent->count);
		if (header.type != ERROR_TYPE)
		{
			CHECK(header.type == sent->ops[i] && header.err == 0);
			read_result(archive, header.type);
			continue;
		}
		CHECK(deserialize_ErrorResponse(archive, "error", &error) == 0);
		failed++;
		if (reason == 0 && error.err != 0 && error.err != ZRUNTIMEINCONSISTENCY)
			reason = error.err;
	}
	CHECK(failed == 0 || (failed == sent->count && reason < 0));
}

static void
read_event(struct iarchive *archive)
{
	struct WatcherEvent event;

	CHECK(deserialize_WatcherEvent(archive, "event", &event) == 0);
	CHECK(event.state == 3 && event.type >= 1 && event.type <= 4);
	check_path(event.path);
	deallocate_WatcherEvent(&event);
}

/*
 * Ends the program unless the library reads this packet, which answers that request, or is
 * an event (NULL), to its end.
 */
void
reply_must_be_readable(const ZkSent *sent, const void *packet, size_t size)
{
	char	   *copy = exact_copy(packet, size);
	struct iarchive *archive = create_buffer_iarchive(copy, (int) size);
	struct ReplyHeader header;
	int32_t		more;

	CHECK(archive != NULL);
	CHECK(deserialize_ReplyHeader(archive, "hdr", &header) == 0);
	CHECK(header.err <= 0 && header.err != ZCONNECTIONLOSS && header.err != ZINVALIDSTATE &&
		  header.err != ZCLOSING && header.err != ZNOTHING);
	if (sent == NULL)
		read_event(archive);
	else if (header.err == 0)
	{
		CHECK(header.xid == sent->xid);
		if (sent->type == MULTI_TYPE)
			read_multi(archive, sent);
		else
			read_result(archive, sent->type);
		CHECK(archive->deserialize_Bool(archive, "end", &more) != 0);
	}
	close_buffer_iarchive(&archive);
	free(copy);
}
