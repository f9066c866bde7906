/*-------------------------------------------------------------------------
 *
 * secret_test.c
 *	  Tests of secret.c: files with secrets and certificates (S175).
 *
 *-------------------------------------------------------------------------
 */
#include "secret.h"
#include "tap.h"

#define lengthof(array) ((int) (sizeof(array) / sizeof((array)[0])))

/* Text that may have zero bytes. */
#define TEXT(text)	text, sizeof(text) - 1

#define CERTIFICATE	"-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"
#define KEY			"-----BEGIN PRIVATE KEY-----\nMII=\n-----END PRIVATE KEY-----\n"
#define LOCKED_KEY	"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII=\n-----END ENCRYPTED PRIVATE KEY-----\n"

typedef struct SecretCase
{
	const char *what;
	const char *text;
	size_t		len;
	bool		goes_to_library;
	int			secret_len;
	const char *wrong;			/* a part of the reason; or NULL */
} SecretCase;

static const SecretCase secret_cases[] = {
	{"a line", TEXT("Open Sesame\n"), true, 11, NULL},
	{"without its end", TEXT("Open Sesame"), true, 11, NULL},
	{"of Windows", TEXT("Open Sesame\r\n"), true, 11, NULL},
	{"more lines", TEXT("one\ntwo,\n"), true, 3, NULL},
	{"a zero byte behind it", TEXT("one\n\0"), true, 3, NULL},
	{"a comma", TEXT("Open, Sesame\n"), false, 12, NULL},
	{"a comma that the library is given", TEXT("Open, Sesame\n"), true, 0, "comma"},
	{"a zero byte", TEXT("Open\0Sesame\n"), false, 0, "zero byte"},
	{"a zero byte before all", TEXT("\0Sesame\n"), false, 0, "zero byte"},
	{"an empty line", TEXT("\nOpen Sesame\n"), false, 0, "empty"},
	{"an empty file", TEXT(""), false, 0, "empty"}
};

static void
test_secrets(void)
{
	for (int i = 0; i < lengthof(secret_cases); i++)
	{
		const SecretCase *c = &secret_cases[i];
		size_t		len = 12345;
		const char *wrong = zk_secret_check(c->text, c->len, c->goes_to_library, &len);

		ok(c->wrong == NULL ? wrong == NULL : wrong != NULL && strstr(wrong, c->wrong) != NULL,
		   "a secret: %s", c->what);
		is_int((int) len, c->secret_len, "its length");
	}
}

static void
test_long_secrets(void)
{
	char		text[ZK_MAX_SECRET + 2];
	size_t		len;

	memset(text, 'x', sizeof(text));
	text[ZK_MAX_SECRET] = '\n';
	ok(zk_secret_check(text, sizeof(text), true, &len) == NULL && len == ZK_MAX_SECRET,
	   "the longest secret");
	text[ZK_MAX_SECRET] = 'x';
	is_str(zk_secret_check(text, sizeof(text), true, &len), "Its first line is too long.",
		   "one that is longer");
}

typedef struct PemCase
{
	const char *what;
	const char *text;
	size_t		len;
	ZkPem		pem;
	const char *wrong;			/* a part of the reason; or NULL */
} PemCase;

static const PemCase pem_cases[] = {
	{"certificates", TEXT(CERTIFICATE CERTIFICATE), ZK_PEM_CERTIFICATES, NULL},
	{"words before one", TEXT("Subject: db1\n" CERTIFICATE), ZK_PEM_CERTIFICATES, NULL},
	{"a key as a certificate", TEXT(KEY), ZK_PEM_CERTIFICATES, "no certificate"},
	{"nothing", TEXT(""), ZK_PEM_CERTIFICATES, "no certificate"},
	{"its end only", TEXT("CERTIFICATE-----"), ZK_PEM_CERTIFICATES, "no certificate"},
	{"a key", TEXT(KEY), ZK_PEM_KEY, NULL},
	{"one of RSA", TEXT("-----BEGIN RSA PRIVATE KEY-----"), ZK_PEM_KEY, NULL},
	{"a certificate as a key", TEXT(CERTIFICATE), ZK_PEM_KEY, "no private key"},
	{"an encrypted key", TEXT(LOCKED_KEY), ZK_PEM_KEY, "is encrypted"},
	{"an encrypted key behind a zero byte", TEXT("\0" LOCKED_KEY), ZK_PEM_KEY, "is encrypted"},
	{"one with a passphrase", TEXT(LOCKED_KEY), ZK_PEM_KEY_WITH_PASSPHRASE, NULL},
	{"a passphrase for a certificate", TEXT(CERTIFICATE), ZK_PEM_KEY_WITH_PASSPHRASE,
	"no private key"}
};

static void
test_pem(void)
{
	for (int i = 0; i < lengthof(pem_cases); i++)
	{
		const PemCase *c = &pem_cases[i];
		const char *wrong = zk_pem_check(c->text, c->len, c->pem);

		ok(c->wrong == NULL ? wrong == NULL : wrong != NULL && strstr(wrong, c->wrong) != NULL,
		   "PEM: %s", c->what);
	}
}

int
main(void)
{
	test_secrets();
	test_long_secrets();
	test_pem();
	ok(zk_library_path_check("/etc/ca.pem") == NULL, "a path");
	ok(zk_library_path_check("/etc/c,a.pem") != NULL, "a path with a comma");
	return done_testing();
}
