/*-------------------------------------------------------------------------
 *
 * secret_fuzz.c
 *	  Files for TLS and SASL: secrets, certificates and keys (S379).
 *
 * The input is the content of such a file, and the path of one.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"
#include "secret.h"

/* A reason is a sentence without anything of the file. */
static bool
is_sentence(const char *reason)
{
	return reason[0] >= 'A' && reason[0] <= 'Z' && reason[strlen(reason) - 1] == '.';
}

/* What is accepted is the text up to the first end of a line. */
static void
check_secret(const char *text, size_t size, bool goes_to_library)
{
	size_t		len = SIZE_MAX;
	const char *wrong = zk_secret_check(text, size, goes_to_library, &len);

	if (wrong != NULL)
	{
		CHECK(is_sentence(wrong) && len == 0);
		return;
	}
	CHECK(len > 0 && len <= size && len <= ZK_MAX_SECRET);
	CHECK(len == size || text[len] == '\n' || text[len] == '\r');
	for (size_t i = 0; i < len; i++)
		CHECK(text[i] != '\0' && text[i] != '\n' && text[i] != '\r' &&
			  !(goes_to_library && text[i] == ','));
}

/* With a passphrase, no key is worse; and no text is refused because of what follows it. */
static void
check_pem(const char *text, size_t size)
{
	const char *certificates = zk_pem_check(text, size, ZK_PEM_CERTIFICATES);
	const char *key = zk_pem_check(text, size, ZK_PEM_KEY);
	const char *with_passphrase = zk_pem_check(text, size, ZK_PEM_KEY_WITH_PASSPHRASE);

	CHECK(certificates == NULL || is_sentence(certificates));
	CHECK(key == NULL || is_sentence(key));
	CHECK(key != NULL || with_passphrase == NULL);
	if (size > 0)
	{
		CHECK(certificates == NULL ||
			  zk_pem_check(text, size - 1, ZK_PEM_CERTIFICATES) != NULL);
		CHECK(with_passphrase == NULL ||
			  zk_pem_check(text, size - 1, ZK_PEM_KEY_WITH_PASSPHRASE) != NULL);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = exact_copy(data, size);
	char	   *path = exact_text(data, size);

	check_secret(text, size, false);
	check_secret(text, size, true);
	check_pem(text, size);
	CHECK((zk_library_path_check(path) == NULL) == (strchr(path, ',') == NULL));
	free(path);
	free(text);
	return 0;
}
