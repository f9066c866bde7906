# Which libzookeeper_mt is linked, how, and what it knows.
#
# An assertion of the library, or a thread that cannot be created, must not end the
# server: where the library's archive is installed, that is linked, and our own hands
# are put on the calls it makes.  It may want the mathematical library.
#
# That goes by what the library does inside, and so only with versions that it was
# tried with.  Any other is used as any program does: with the threads that its makers
# have meant it to have, and by nothing but its interface.  The archive says what it
# is; the headers have to be of the same version.
#
# Debian's knows neither TLS nor SASL.  One that does has the functions
# zookeeper_init_ssl and zookeeper_init_sasl; its header shows them to those who define
# what it was configured with.
#
# In:  ZOOKEEPER_PREFIX, where the library is if not where the compiler looks;
#      ZOOKEEPER_TRIED, those versions, as patterns of make.
# Out: ZOOKEEPER_LINK and ZOOKEEPER_CPPFLAGS, for the linker and the compiler.

comma := ,

ifneq ($(ZOOKEEPER_PREFIX),)
ZOOKEEPER_PATH := -L$(abspath $(ZOOKEEPER_PREFIX))/lib
ZOOKEEPER_CPPFLAGS := -isystem$(abspath $(ZOOKEEPER_PREFIX))/include
ZOOKEEPER_ARCHIVE := $(wildcard $(abspath $(ZOOKEEPER_PREFIX))/lib/libzookeeper_mt.a)
ZOOKEEPER_SHARED := $(wildcard $(abspath $(ZOOKEEPER_PREFIX))/lib/libzookeeper_mt.so)
else
ZOOKEEPER_CPPFLAGS :=
ZOOKEEPER_ARCHIVE := $(filter /%, \
	$(shell $(CC) -print-file-name=libzookeeper_mt.a))
ZOOKEEPER_SHARED := $(filter /%, \
	$(shell $(CC) -print-file-name=libzookeeper_mt.so))
endif

# A "zookeeper C client VERSION" is what the library calls itself in its log.
ZOOKEEPER_TRIED ?= 3.8.% 3.9.%
ifneq ($(ZOOKEEPER_ARCHIVE),)
ZOOKEEPER_VERSION := $(shell LC_ALL=C grep -a -o -m 1 'zookeeper C client [0-9.]*[0-9]' \
	$(ZOOKEEPER_ARCHIVE) | sed -n '1s/.* //p')
ZOOKEEPER_HEADERS := $(shell printf '\043include <zookeeper/zookeeper_version.h>' | \
	$(CC) $(ZOOKEEPER_CPPFLAGS) -E -dM - 2>/dev/null | \
	sed -n 's/^.define ZOO_VERSION "\(.*\)"/\1/p')
ifeq ($(and $(filter $(ZOOKEEPER_TRIED),$(ZOOKEEPER_VERSION)), \
	$(filter $(ZOOKEEPER_VERSION),$(ZOOKEEPER_HEADERS))),)
$(warning zklock was not tried with libzookeeper_mt $(or $(ZOOKEEPER_VERSION),of an unknown \
	version) and the headers of $(or $(ZOOKEEPER_HEADERS),none), \
	and uses it without what it knows of others: see N3 in src/client/library/library.h)
ZOOKEEPER_PLAIN := $(if $(ZOOKEEPER_SHARED),,$(ZOOKEEPER_ARCHIVE))
override ZOOKEEPER_ARCHIVE :=
endif
endif

ZOOKEEPER_KNOWS := $(if $(ZOOKEEPER_ARCHIVE), \
	$(shell nm --format=posix --defined-only $(ZOOKEEPER_ARCHIVE) 2>/dev/null), \
	$(if $(ZOOKEEPER_SHARED), \
	$(shell nm --format=posix --defined-only -D $(ZOOKEEPER_SHARED) 2>/dev/null), \
	$(if $(ZOOKEEPER_PLAIN), \
	$(shell nm --format=posix --defined-only $(ZOOKEEPER_PLAIN) 2>/dev/null))))

ZOOKEEPER_WRAPPED := __assert_fail pthread_create pthread_join pipe socket getaddrinfo connect close recv \
	send adaptor_send_queue adaptor_finish zookeeper_interest zookeeper_process
ZOOKEEPER_NEEDS := -lm

ifneq ($(filter zookeeper_init_ssl,$(ZOOKEEPER_KNOWS)),)
ZOOKEEPER_CPPFLAGS += -DZKLOCK_TLS -DHAVE_OPENSSL_H
ZOOKEEPER_WRAPPED += SSL_connect SSL_read SSL_write SSL_set_fd SSL_free \
	SSL_CTX_set_default_verify_paths select strtok
ZOOKEEPER_NEEDS += -lssl -lcrypto
endif
ifneq ($(filter zookeeper_init_sasl,$(ZOOKEEPER_KNOWS)),)
ZOOKEEPER_CPPFLAGS += -DZKLOCK_SASL -DHAVE_CYRUS_SASL_H
ZOOKEEPER_NEEDS += -lsasl2
endif

ifneq ($(ZOOKEEPER_ARCHIVE),)
ZOOKEEPER_CPPFLAGS += -DZKLOCK_STATIC_LIBRARY
ZOOKEEPER_LINK := $(ZOOKEEPER_ARCHIVE) -Wl,--exclude-libs,ALL \
	$(addprefix -Wl$(comma)--wrap=,$(ZOOKEEPER_WRAPPED)) $(ZOOKEEPER_NEEDS)
else ifneq ($(ZOOKEEPER_PLAIN),)
ZOOKEEPER_LINK := $(ZOOKEEPER_PLAIN) -Wl,--exclude-libs,ALL $(ZOOKEEPER_NEEDS)
else
ZOOKEEPER_LINK := $(ZOOKEEPER_PATH) \
	$(if $(ZOOKEEPER_PATH),-Wl$(comma)-rpath$(comma)$(abspath $(ZOOKEEPER_PREFIX))/lib) \
	-lzookeeper_mt $(filter-out -lm,$(ZOOKEEPER_NEEDS))
endif
