--
-- SECURE: SETTINGS ABOUT TLS AND SASL
--
-- What the library cannot do, and settings that do not fit each other, are told
-- before anything is sent: the server named here does not exist.  secure_1.out is what
-- a library says that knows TLS and SASL, which Debian's does not.
--
-- S-numbers name the scenario that a test covers.

LOAD 'zklock';
SET zklock.servers = '127.0.0.1:1';
SET zklock.connect_timeout = '1h';

-- one of them is enough to be told (S117)
SET zklock.tls_ca_file = '/no/such/file';
SELECT zk_lock_acquire('/secure');
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM zk_lock_queue('/secure');
\echo :LAST_ERROR_SQLSTATE
RESET zklock.tls_ca_file;
SET zklock.tls_cert_file = '/no/such/file';
SELECT zk_lock_acquire('/secure', '0');
\echo :LAST_ERROR_SQLSTATE
SET zklock.tls_ca_file = '/no/such/file';
SELECT zk_lock_acquire('/secure', '0');
\echo :LAST_ERROR_SQLSTATE
SET zklock.tls_key_file = '/no/such/file';
SELECT zk_lock_acquire('/secure', '0');
\echo :LAST_ERROR_SQLSTATE
RESET zklock.tls_ca_file;
RESET zklock.tls_cert_file;
RESET zklock.tls_key_file;
SET zklock.tls_passphrase_file = '/no/such/file';
SELECT zk_lock_acquire('/secure', '0');
\echo :LAST_ERROR_SQLSTATE
RESET zklock.tls_passphrase_file;

SET zklock.sasl_mechanism = 'DIGEST-MD5';
SELECT zk_lock_acquire('/secure');
\echo :LAST_ERROR_SQLSTATE
SET zklock.sasl_user = 'app';
SELECT zk_lock_acquire('/secure');
\echo :LAST_ERROR_SQLSTATE
SET zklock.sasl_password_file = '/no/such/file';
SELECT zk_lock_acquire('/secure');
\echo :LAST_ERROR_SQLSTATE

-- both at once (S117)
SET zklock.tls_ca_file = '/no/such/file';
SELECT zk_lock_acquire('/secure');
\echo :LAST_ERROR_SQLSTATE
RESET zklock.tls_ca_file;
RESET zklock.sasl_mechanism;
SELECT zk_lock_acquire('/secure');
\echo :LAST_ERROR_SQLSTATE
RESET zklock.sasl_user;
RESET zklock.sasl_password_file;

-- files are the superuser's business, and so is what is set at all
SET zklock.tls_key_file = '/no/such/file';
CREATE ROLE regress_zklock_secure;
SET ROLE regress_zklock_secure;
SHOW zklock.sasl_mechanism;
SET zklock.tls_ca_file = '';
SET zklock.tls_passphrase_file = '/no/such/file';
SET zklock.sasl_password_file = '/no/such/file';
SET zklock.sasl_user = 'app';
SET zklock.tls_verify_host = off;
SELECT count(*) FROM pg_settings WHERE name ~ '^zklock\..*_file$';
RESET ROLE;
SELECT count(*) FROM pg_settings WHERE name ~ '^zklock\..*_file$';
DROP ROLE regress_zklock_secure;
