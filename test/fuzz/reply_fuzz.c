/*-------------------------------------------------------------------------
 *
 * reply_fuzz.c
 *	  Replies of servers, against requests (S368): what is believed, the library can read.
 *
 * The input is a sequence of steps.  A byte below 128 makes a request of a kind; that of a
 * multi-op is followed by the number of its operations, and a byte for each.  Any other byte
 * makes a reply, whose length follows in two bytes; see ANSWERS and SUCCEEDS.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>

#include "fuzz.h"
#include "reply.h"
#include "requests.h"

/* A reply gets the number of the first request that is not answered. */
#define ANSWERS		1

/* A reply gets an error of 0. */
#define SUCCEEDS	2

/* What is left of the input. */
typedef struct Input
{
	const uint8_t *at;
	size_t		left;
} Input;

/* Takes so many bytes, or as many as there are, of which *size is the number. */
static const uint8_t *
take(Input *input, size_t *size)
{
	const uint8_t *bytes = input->at;

	if (*size > input->left)
		*size = input->left;
	input->at += *size;
	input->left -= *size;
	return bytes;
}

static uint8_t
take_byte(Input *input)
{
	size_t		size = 1;
	const uint8_t *byte = take(input, &size);

	return size == 1 ? *byte : 0;
}

/* A request is sent. */
static void
ask(ZkUnanswered *unanswered, Input *input, int kind, int32_t *xid)
{
	size_t		count = kind == MULTI_KIND ? take_byte(input) % 16 : 0;
	const uint8_t *ops = take(input, &count);
	struct oarchive *request = request_make(kind, xid, ops, (int) count);
	size_t		size = (size_t) get_buffer_len(request);
	void	   *packet = exact_copy(get_buffer(request), size);

	CHECK(zk_unanswered_add(unanswered, packet, size));
	CHECK(kind != MULTI_KIND || unanswered->last->count == (int) count);
	free(packet);
	close_buffer_oarchive(&request, 1);
}

/* A copy of the request that has the number of a packet; NULL if there is none. */
static ZkSent *
copy_request(const ZkUnanswered *unanswered, const uint8_t *packet, size_t size)
{
	int32_t		xid;

	if (size < sizeof(xid))
		return NULL;
	memcpy(&xid, packet, sizeof(xid));
	for (const ZkSent *sent = unanswered->first; sent != NULL; sent = sent->next)
		if (sent->xid == (int32_t) ntohl((uint32_t) xid))
			return exact_copy(sent, sizeof(*sent) + (size_t) (sent->count > 0 ? sent->count : 0));
	return NULL;
}

static int
count_requests(const ZkUnanswered *unanswered)
{
	int			count = 0;

	for (const ZkSent *sent = unanswered->first; sent != NULL; sent = sent->next)
	{
		CHECK(sent->next != NULL || sent == unanswered->last);
		count++;
	}
	return count;
}

/* A packet comes.  Returns whether it is believed. */
static bool
answer(ZkUnanswered *unanswered, Input *input, int step)
{
	size_t		size = (size_t) take_byte(input) << 8 | take_byte(input);
	const uint8_t *bytes = take(input, &size);
	uint8_t    *packet = exact_copy(bytes, size);
	int			before = count_requests(unanswered);
	char	   *why = calloc(1, ZK_REPLY_WHY);
	ZkSent	   *request;
	bool		believed;

	CHECK(why != NULL);
	if ((step & ANSWERS) != 0 && size >= ZK_REPLY_HEADER && unanswered->first != NULL)
	{
		uint32_t	xid = htonl((uint32_t) unanswered->first->xid);

		memcpy(packet, &xid, sizeof(xid));
	}
	if ((step & SUCCEEDS) != 0 && size >= ZK_REPLY_HEADER)
		memset(packet + ZK_REPLY_HEADER - 4, 0, 4);
	request = copy_request(unanswered, packet, size);
	believed = zk_reply_check(unanswered, packet, size, why);
	CHECK(believed == (why[0] == '\0') && memchr(why, '\0', ZK_REPLY_WHY) != NULL);
	if (believed)
	{
		CHECK(count_requests(unanswered) == before - (request != NULL));
		reply_must_be_readable(request, packet, size);
	}
	free(request);
	free(why);
	free(packet);
	return believed;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input		input = {.at = data,.left = size};
	ZkUnanswered unanswered = {0};
	int32_t		xid = 0;
	bool		connected = true;

	while (connected && input.left > 0)
	{
		int			step = take_byte(&input);

		if (step < 128)
			ask(&unanswered, &input, step % REQUEST_KINDS, &xid);
		else
			connected = answer(&unanswered, &input, step);
	}
	zk_unanswered_forget(&unanswered);
	return 0;
}
