/*-------------------------------------------------------------------------
 *
 * tls_settings.c
 *	  The settings about TLS and SASL.
 *
 * The lock client's library speaks TLS and SASL, if it was built with them.
 * All that can be checked without it is checked here, before a client is
 * started and anything is sent.  Secrets are read from files, for the reasons
 * given in auth_settings.c.
 *
 * Of the rules about TLS (tls.c):
 *
 * C1. The call that needs the connection reports everything that is wrong with
 * settings and files, before anything is sent, even to the resolver: the
 * backend reads the files, so that their permissions are judged by the rules
 * for secrets, and the helper has OpenSSL load them as the library will.  The
 * library cannot report anything: it would retry forever, without a pause.  If
 * a file becomes bad later, the library answers ZSSLCONNECTIONERROR with its
 * socket still open, and the handle is given up.
 *
 * C2. Without support in the library any of these settings is an error (0A000):
 * none is silently ignored, as users must be able to rely on TLS.  There is no
 * fallback to plain connections.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"

#include "zklock.h"
#include "secret.h"
#include "secret_file.h"
#include "tls_settings.h"
#include "zk_check.h"

/*
 * The host name of ZooKeeper's servers in DIGEST-MD5, whatever their real name.
 */
#define DIGEST_MECHANISM	"DIGEST-MD5"
#define DIGEST_HOST			"zk-sasl-md5"

/* A setting; each of the client's texts has one. */
typedef struct Setting
{
	bool		is_file;		/* its value is the name of a file */
	const char *name;
	const char *short_desc;
	const char *long_desc;		/* may be NULL */
	const char *boot_value;
} Setting;

static const Setting settings[ZK_TRANSPORT_TEXTS] = {
	[ZK_SASL_HOST] = {false, "zklock.sasl_host",
		"Sets the host name of the ZooKeeper servers for SASL.",
	"If empty, DIGEST-MD5 uses \"zk-sasl-md5\", and other mechanisms use each server's address.", ""},
	[ZK_SASL_MECHANISM] = {false, "zklock.sasl_mechanism",
		"Sets the SASL mechanism for authentication to ZooKeeper.",
	"For example \"DIGEST-MD5\" or \"GSSAPI\". If empty, zklock does not use SASL.", ""},
	[ZK_SASL_PASSWORD] = {true, "zklock.sasl_password_file",
		"Sets the file with the SASL password.",
	"The password is the file's first line. Only the server's user may have access to it.", ""},
	[ZK_SASL_SERVICE] = {false, "zklock.sasl_service",
		"Sets the SASL service name of the ZooKeeper servers.",
	NULL, "zookeeper"},
	[ZK_SASL_USER] = {false, "zklock.sasl_user",
		"Sets the SASL user name.",
	NULL, ""},
	[ZK_TLS_CA] = {true, "zklock.tls_ca_file",
		"Sets the file with the trusted certificate authorities.",
	"If empty, zklock does not use TLS.", ""},
	[ZK_TLS_CERT] = {true, "zklock.tls_cert_file",
		"Sets the file with the client certificate and its chain.",
	NULL, ""},
	[ZK_TLS_KEY] = {true, "zklock.tls_key_file",
		"Sets the file with the private key of the client certificate.",
	"Only the server's user may have access to it.", ""},
	[ZK_TLS_PASSPHRASE] = {true, "zklock.tls_passphrase_file",
		"Sets the file with the passphrase of the private key.",
	"The passphrase is the file's first line. Only the server's user may have access to it.", ""}
};

/* Their values. */
static char *values[ZK_TRANSPORT_TEXTS];

/* Whether a server's certificate must match its host in zklock.servers. */
static bool verify_host;

/* Defines the settings.  Module load. */
void
zklock_transport_define(void)
{
	for (int i = 0; i < ZK_TRANSPORT_TEXTS; i++)
		DefineCustomStringVariable(settings[i].name, settings[i].short_desc,
								   settings[i].long_desc, &values[i],
								   settings[i].boot_value, PGC_SUSET,
								   settings[i].is_file ? GUC_SUPERUSER_ONLY : 0,
								   NULL, NULL, NULL);
	DefineCustomBoolVariable("zklock.tls_verify_host",
							 "Checks that a server's certificate matches its host name.",
							 "If off, any certificate signed by a trusted authority is accepted.",
							 &verify_host, true,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);
}

/* Returns true if the setting has a value. */
static bool
is_set(ZkTransportText which)
{
	return values[which][0] != '\0';
}

/* Returns true if anything about TLS is set. */
bool
zklock_transport_tls(void)
{
	return is_set(ZK_TLS_CA) || is_set(ZK_TLS_CERT) || is_set(ZK_TLS_KEY) ||
		is_set(ZK_TLS_PASSPHRASE);
}

/* Returns true if anything about SASL is set; the service always is. */
static bool
sasl_wanted(void)
{
	return is_set(ZK_SASL_MECHANISM) || is_set(ZK_SASL_HOST) ||
		is_set(ZK_SASL_USER) || is_set(ZK_SASL_PASSWORD);
}

/* Returns the SASL mechanism; empty without SASL. */
const char *
zklock_transport_mechanism(void)
{
	return values[ZK_SASL_MECHANISM];
}

/* Returns true if these settings identify the client to ZooKeeper. */
bool
zklock_transport_identifies(void)
{
	return is_set(ZK_TLS_CERT) || is_set(ZK_SASL_MECHANISM);
}

/* Returns a number that changes with these settings and their files. */
uint64
zklock_transport_stamp(uint64 stamp)
{
	if (!zklock_transport_tls() && !sasl_wanted())
		return stamp;
	stamp = zklock_stamp_text(stamp, verify_host ? "on" : "off");
	for (int i = 0; i < ZK_TRANSPORT_TEXTS; i++)
	{
		stamp = zklock_stamp_text(stamp, values[i]);
		if (settings[i].is_file && is_set(i))
			stamp = zklock_stamp_file(stamp, values[i]);
	}
	return stamp;
}

/* Reports that a setting requires another one, unless set.  Throws 55000. */
static void
demand(ZkTransportText which, ZkTransportText for_which)
{
	if (is_set(which))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("parameter \"%s\" requires parameter \"%s\"",
					settings[for_which].name, settings[which].name),
			 errhint("Set both parameters, or neither.")));
}

/* Returns the name of the first of these settings that has a value. */
static const char *
first_set(ZkTransportText first, ZkTransportText last)
{
	ZkTransportText which = first;

	while (which < last && (which == ZK_SASL_SERVICE || !is_set(which)))
		which++;
	return settings[which].name;
}

/* Reports what the library was built without.  Throws 0A000. */
pg_noreturn static void
report_unsupported(const char *what, const char *setting)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s is not supported by this build", what),
			 errdetail("zklock was built with a libzookeeper_mt that lacks %s support.", what),
			 errhint("Rebuild zklock with a libzookeeper_mt that supports %s, or unset \"%s\".",
					 what, setting)));
}

/* Checks that settings fit each other and the library.  Throws 0A000, 55000. */
static void
check_settings(void)
{
	if (zklock_transport_tls() && !zk_tls_supported())
		report_unsupported("TLS", first_set(ZK_TLS_CA, ZK_TLS_PASSPHRASE));
	if (sasl_wanted() && !zk_sasl_supported())
		report_unsupported("SASL", first_set(ZK_SASL_MECHANISM, ZK_SASL_PASSWORD));
	if (zklock_transport_tls() && sasl_wanted())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use TLS and SASL together"),
				 errhint("Set either \"zklock.tls_ca_file\" or \"zklock.sasl_mechanism\" to an empty string, together with its related parameters.")));
	if (zklock_transport_tls())
	{
		if (verify_host && !zk_tls_verifies_hosts())
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot verify host names of server certificates"),
					 errdetail("zklock was built with the shared library, and \"zklock.tls_verify_host\" is on."),
					 errhint("Rebuild zklock where libzookeeper_mt.a is installed.")));
		demand(ZK_TLS_CA, is_set(ZK_TLS_CERT) ? ZK_TLS_CERT :
			   is_set(ZK_TLS_KEY) ? ZK_TLS_KEY : ZK_TLS_PASSPHRASE);
		demand(ZK_TLS_CERT, ZK_TLS_CA);
		demand(ZK_TLS_KEY, ZK_TLS_CERT);
	}
	if (sasl_wanted())
	{
		demand(ZK_SASL_MECHANISM, is_set(ZK_SASL_USER) ? ZK_SASL_USER :
			   is_set(ZK_SASL_PASSWORD) ? ZK_SASL_PASSWORD :
			   ZK_SASL_HOST);
		demand(ZK_SASL_SERVICE, ZK_SASL_MECHANISM);
		if (is_set(ZK_SASL_PASSWORD))
			demand(ZK_SASL_USER, ZK_SASL_PASSWORD);
	}
}

/* Returns the first line of a secret file, palloc'd.  Throws F0000. */
static char *
read_secret(ZkTransportText which)
{
	const Setting *setting = &settings[which];
	size_t		len;
	size_t		secret_len;
	char	   *text = zklock_file_read(setting->name, values[which], true, &len);
	const char *wrong = zk_secret_check(text, len, which == ZK_TLS_PASSPHRASE,
										&secret_len);

	explicit_bzero(text + secret_len, len - secret_len);
	if (wrong != NULL)
		zklock_file_report(setting->name, values[which], wrong, NULL);
	return text;
}

/*
 * Checks a file in PEM format.  A key is a secret.  Returns its path, palloc'd.
 * Throws F0000.
 */
static char *
check_pem(ZkTransportText which, ZkPem pem)
{
	const Setting *setting = &settings[which];
	size_t		len;
	char	   *text = zklock_file_read(setting->name, values[which],
										pem != ZK_PEM_CERTIFICATES, &len);
	char	   *path = zklock_file_path(values[which]);
	const char *wrong = zk_pem_check(text, len, pem);

	if (wrong == NULL)
		wrong = zk_library_path_check(path);
	explicit_bzero(text, len);
	pfree(text);
	if (wrong != NULL)
		zklock_file_report(setting->name, values[which], wrong, NULL);
	return path;
}

/* Fills in the texts about TLS.  Throws as check_pem() and read_secret(). */
static void
take_tls(const char **transport)
{
	transport[ZK_TLS_CA] = check_pem(ZK_TLS_CA, ZK_PEM_CERTIFICATES);
	transport[ZK_TLS_CERT] = check_pem(ZK_TLS_CERT, ZK_PEM_CERTIFICATES);
	transport[ZK_TLS_KEY] = check_pem(ZK_TLS_KEY, is_set(ZK_TLS_PASSPHRASE) ?
									  ZK_PEM_KEY_WITH_PASSPHRASE : ZK_PEM_KEY);
	if (is_set(ZK_TLS_PASSPHRASE))
		transport[ZK_TLS_PASSPHRASE] = read_secret(ZK_TLS_PASSPHRASE);
}

/* Fills in the texts about SASL.  Throws as read_secret(). */
static void
take_sasl(const char **transport)
{
	bool		digest = pg_strcasecmp(values[ZK_SASL_MECHANISM],
									   DIGEST_MECHANISM) == 0;

	if (digest)
	{
		demand(ZK_SASL_USER, ZK_SASL_MECHANISM);
		demand(ZK_SASL_PASSWORD, ZK_SASL_USER);
	}
	for (int i = ZK_SASL_MECHANISM; i < ZK_TRANSPORT_TEXTS; i++)
		if (is_set(i) && i != ZK_SASL_PASSWORD)
			transport[i] = values[i];
	if (digest && !is_set(ZK_SASL_HOST))
		transport[ZK_SASL_HOST] = DIGEST_HOST;
	if (is_set(ZK_SASL_PASSWORD))
		transport[ZK_SASL_PASSWORD] = read_secret(ZK_SASL_PASSWORD);
}

/* Fills in the transport of a config; zklock_transport_wipe() is due. */
void
zklock_transport_config(ZkConfig *config)
{
	check_settings();
	config->tls_verify_host = verify_host;
	if (is_set(ZK_TLS_CA))
		take_tls(config->transport);
	if (is_set(ZK_SASL_MECHANISM))
		take_sasl(config->transport);
}

/* Wipes and frees the secrets among the texts. */
void
zklock_transport_wipe(const char **transport)
{
	zklock_wipe(unconstify(char *, transport[ZK_TLS_PASSPHRASE]));
	zklock_wipe(unconstify(char *, transport[ZK_SASL_PASSWORD]));
}
