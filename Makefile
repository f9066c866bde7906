# zklock: the distributed locks of Apache ZooKeeper, in SQL
#
# The usual targets of a PostgreSQL extension (all, install, installcheck,
# clean, ...) need PostgreSQL's development files.  These do not, and install
# what they need first:
#
#   make demo [KEEP=1]		see it work; demo-stop ends what KEEP=1 left
#   make test [SUITE=...]	every test; see test/run for the choices
#   make chaos [SECONDS=n] [SEED=s] [KEEP=1]
#				many faults at random, and a check that none
#				did harm; see test/chaos/README
#   make sim [SECONDS=n] [SEED=s] [JOBS=n] [PLAN=f] [TRACE=1] [SHRINK=1]
#				many lock clients in a simulated world; with TRACE=1,
#				all that happens in one of them; with SHRINK=1, the
#				least that a failure needs; see test/sim/README
#   make random [SECONDS=n] [SEED=s] [SHRINK=1] [KEEP=1]
#				random transactions, each result of which a model
#				predicts; with SHRINK=1, a failure is shortened; see
#				test/random/README
#   make fuzz [SECONDS=n] [TARGET="..."]
#				random inputs to all that parses; see test/fuzz/README
#   make sabotage [NAMES="..."]	what the simulation notices of a client that is
#				broken on purpose; see test/sabotage/README
#   make mutants [FILES="..."] [SAMPLE=n] [SEED=s]
#				which small changes of src/ the tests notice; see
#				test/mutants/README
#   make coverage [SUITE=...]	which lines of src/ the tests reach; see test/coverage
#   make matrix [SUITES="..."] [QUICK=1] [FOLDERS=...] [OPTIONAL=1]
#				every test, with the PostgreSQL and the ZooKeeper of
#				other suites of Debian; as root; see test/matrix
#   make debian [SUITES="..."] [FOLDERS=...]
#				the Debian package: build, install, test and remove
#				it; as root; see test/debian
#   make upgrade [FOLDERS=...]	pg_upgrade from an older PostgreSQL; as root; see
#				test/upgrade
#   make bench [ROUNDS=n] [ONLY=...] [SETUPS=...] [PEERS=...] [AWAKE=1]
#              [KEEP=1]
#				the speed of zklock and of others; see
#				test/bench/README
#   make sizing [BACKENDS=...] [CALCULATE=...] [SERVERS=n] [TIMEOUT=...] [REST=n]
#				what many sessions take of ZooKeeper, PostgreSQL and the
#				network; see doc/sizing.md
#
#   make dist [DIST=DIR]	the archives of a release, for PGXN and for Debian's
#				source package, by default in build/
#
# And these need pg_bsd_indent, clang-tidy, cppcheck, shellcheck, or spin, which
# "make test" installs:
#
#   make format			lay out the C code as PostgreSQL does
#   make lint [DEEP=1]		check the code with compilers and other programs;
#				takes -j; see .clang-tidy and test/lint/cppcheck.txt
#   make model [DEEP=1]		check the models of the lease and the queue; see
#				test/model/README
#
# Variables: PG_CONFIG chooses the PostgreSQL to build for, ZOOKEEPER_PREFIX=DIR
# another libzookeeper_mt than the system's, such as one with TLS and SASL, by its
# DIR/include/zookeeper and DIR/lib; WERROR=1 makes warnings fatal.

EXTENSION = zklock
MODULE_big = zklock
DATA = $(wildcard sql/zklock--*.sql)

# The backend side, and the lock client, which does not depend on PostgreSQL: it is
# compiled without PostgreSQL's headers.
SRC = src
include src/folders.mk
objects = $(patsubst %.c,%.o,$(sort $(wildcard src/$(1)/*.c)))
BACKEND_OBJS = $(call objects,backend)
CLIENT_OBJS = $(foreach folder,$(CLIENT_FOLDERS),$(call objects,$(folder)))
OBJS = $(BACKEND_OBJS) $(CLIENT_OBJS)

REGRESS = $(patsubst sql/%.sql,%, \
	$(filter-out sql/zklock--%,$(sort $(wildcard sql/*.sql))))
REGRESS_OPTS = --load-extension=$(EXTENSION)

# The stock isolation tester cannot see a wait for a ZooKeeper lock: "probe"
# teaches the test database to, and so comes first.
ISOLATION = $(patsubst test/isolation/specs/%.spec,%, \
	$(sort $(wildcard test/isolation/specs/*.spec)))
override ISOLATION := $(if $(ISOLATION),probe $(filter-out probe,$(ISOLATION)))
ISOLATION_OPTS = --inputdir=test/isolation --load-extension=$(EXTENSION)

EXTRA_CLEAN = src/exports.list src/library.stamp

PG_CONFIG ?= pg_config
# PGXS itself may be there without the header files.
PGXS := $(and \
	$(wildcard $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)/postgres.h), \
	$(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null)))

comma := ,

ifneq ($(PGXS),)

# Only functions that SQL calls are exported, whatever the compiler's default is.
SHLIB_EXPORTS = src/exports.txt

# The library, its form and its features; test/unit includes this, too.
include src/library.mk

SHLIB_LINK = $(ZOOKEEPER_LINK)
CLIENT_CPPFLAGS = $(ZOOKEEPER_CPPFLAGS)

# As system headers, PostgreSQL's are not subject to our warnings.
PG_CPPFLAGS = -isystem$(shell $(PG_CONFIG) --includedir-server)
PG_CFLAGS = -std=gnu11 -Wall -Wextra
ifeq ($(WERROR),1)
PG_CFLAGS += -Werror
endif
# Count which lines run, in all threads; see test/coverage.  The counters get sections of
# their own for test/sim.
ifeq ($(COVERAGE),1)
PG_CFLAGS += -Og --coverage -fprofile-update=atomic -fdata-sections
SHLIB_LINK += --coverage
endif

# Bitcode serves to inline functions into compiled queries: nothing to gain
# for functions that wait for a network, and it would take a second compiler.
override with_llvm := no

include $(PGXS)

# The client program, by a Makefile of its own: PGXS makes one thing at a time.
.PHONY: program program-install program-uninstall program-clean
all: program
install: program-install
uninstall: program-uninstall
clean: program-clean
program:
	$(MAKE) -C src/bin all
program-install: program
program-install program-uninstall program-clean: program-%:
	$(MAKE) -C src/bin $*
BIN_OBJS = $(call objects,bin)

# The flags of each folder; the lock client is compiled without PostgreSQL's.
define FOLDER_RULES
$(call objects,$(1)): override CPPFLAGS := $$(INCLUDES_$(1)) $$(if $$(filter backend,$(1)),$$(CPPFLAGS), \
	$$(CLIENT_CPPFLAGS) -D_GNU_SOURCE $$(filter-out -I% -isystem% -D_GNU_SOURCE,$$(CPPFLAGS)))
endef
$(foreach folder,$(SOURCE_FOLDERS),$(eval $(call FOLDER_RULES,$(folder))))
$(CLIENT_OBJS): override CFLAGS += -fvisibility=hidden
$(OBJS): $(wildcard $(SOURCE_FOLDERS:%=src/%/*.h) src/zkclient/*.h)

# Objects made for one library do not fit another.
$(CLIENT_OBJS): src/library.stamp
src/library.stamp: FORCE
	@echo '$(CLIENT_CPPFLAGS)' | cmp -s - $@ || echo '$(CLIENT_CPPFLAGS)' >$@
.PHONY: FORCE
FORCE:

# Warnings of a second compiler: the one PostgreSQL's packages bring along.
LINT_FLAGS = -std=gnu11 -Wall -Wextra -D_GNU_SOURCE
BIN_FLAGS = -DZKLOCK_VERSION='""' -isystem$(shell $(PG_CONFIG) --includedir)
LINT = $(or $(CLANG),clang) -fsyntax-only $(LINT_FLAGS) -Werror

# The programs of the bench that need no packages of their own.
BENCH_SOURCES = $(addprefix test/bench/,peer.c recipe.c raw.c processes.c pgpeer.c \
	awake.c \
	$(if $(wildcard /usr/include/hiredis/hiredis.h),redispeer.c))
TOOL_SOURCES = $(wildcard test/tools/*.c)
UNIT_SOURCES = $(wildcard test/unit/*.c)
SIM_SOURCES = $(wildcard test/sim/*.c)
FUZZ_SOURCES = $(wildcard test/fuzz/*.c)
FUZZ_BACKEND_SOURCES = $(wildcard test/fuzz/backend/*.c)

.PHONY: lint lint-clang lint-tidy lint-cppcheck lint-shellcheck
lint: lint-clang lint-tidy lint-cppcheck lint-shellcheck

lint-clang:
	$(LINT) $(INCLUDES_backend) $(PG_CPPFLAGS) $(BACKEND_OBJS:.o=.c)
	$(foreach folder,$(CLIENT_FOLDERS),$(LINT) $(INCLUDES_$(folder)) $(CLIENT_CPPFLAGS) \
		$(patsubst %.o,%.c,$(call objects,$(folder))) &&) true
	$(LINT) $(BIN_FLAGS) $(BIN_OBJS:.o=.c)
	$(LINT) -DTHREADED $(TOOL_SOURCES)
	$(LINT) -DTHREADED -isystem$(shell $(PG_CONFIG) --includedir) \
		$(BENCH_SOURCES)
	$(LINT) $(CLIENT_CPPFLAGS) $(INCLUDES_tests) $(UNIT_SOURCES)
	$(LINT) -Itest/sim $(CLIENT_CPPFLAGS) $(INCLUDES_tests) $(SIM_SOURCES)
	$(LINT) -iquote test/unit $(CLIENT_CPPFLAGS) $(INCLUDES_tests) $(FUZZ_SOURCES)
	$(LINT) -iquote test/fuzz -iquote src/backend $(INCLUDES_backend) $(PG_CPPFLAGS) \
		$(FUZZ_BACKEND_SOURCES)

# One target for each file, so that "make -j" takes several at a time.  The analyzer
# takes minutes.
TIDY = $(addprefix tidy/,$(OBJS:.o=.c) $(BIN_OBJS:.o=.c) $(if $(DEEP),$(TOOL_SOURCES) $(UNIT_SOURCES)))
.PHONY: $(TIDY)
lint-tidy: $(TIDY)
# The client program has one thread.
tidy/src/bin/%: TIDY_FLAGS = $(BIN_FLAGS)
tidy/src/bin/%: TIDY_OMITTED = ,-concurrency-mt-unsafe
tidy/test/%: TIDY_FLAGS = -DTHREADED $(CLIENT_CPPFLAGS) $(INCLUDES_tests)
define TIDY_RULES
$(patsubst %.o,tidy/%.c,$(call objects,$(1))): TIDY_FLAGS = $$(INCLUDES_$(1)) \
	$$(if $$(filter backend,$(1)),$$(PG_CPPFLAGS),$$(CLIENT_CPPFLAGS))
endef
$(foreach folder,$(SOURCE_FOLDERS),$(eval $(call TIDY_RULES,$(folder))))
$(TIDY):
	clang-tidy --quiet --checks='$(if $(DEEP),,-clang-analyzer-*)$(TIDY_OMITTED)' \
		$(@:tidy/%=%) -- $(LINT_FLAGS) $(TIDY_FLAGS)

# test/lint/cppcheck.h tells it about PostgreSQL.
lint-cppcheck:
	cppcheck --quiet --error-exitcode=1 --std=c11 --library=posix,gnu \
		--enable=warning,performance,portability,style --inline-suppr \
		--suppressions-list=test/lint/cppcheck.txt \
		-D_GNU_SOURCE -DTHREADED -DZKLOCK_STATIC_LIBRARY -DPG_VERSION_NUM=150000 \
		--include=test/lint/cppcheck.h $(subst -iquote ,-I,$(INCLUDES_tests)) -Isrc/backend \
		src test/tools test/unit test/sim test/fuzz

# Files whose first line names a shell, and those that shell scripts source.
lint-shellcheck:
	shellcheck --severity=warning --external-sources $$(grep -rlE \
		'^#!.*[/ ](ba)?sh( |$$)|^# shellcheck shell=' \
		.ci debian demo src test)

.PHONY: sim
SIM := test/sim/build/plain/sim
SIM_WORLD = $(if $(PLAN),-r $(PLAN),$(SEED:%=-s %))
sim: all
	$(MAKE) -s -C test/sim
	$(if $(SHRINK),test/sim/shrink $(SIM) test/sim/build/shrunk.plan $(SIM_WORLD), \
		$(SIM) $(SIM_WORLD) -p test/sim/build/last.plan \
		$(if $(TRACE),-v,$(if $(PLAN),,-t $(or $(SECONDS),60) -j $(or $(JOBS),$(shell nproc)))))

.PHONY: sabotage
sabotage: all
	test/sabotage/run build/sabotage $(NAMES)

.PHONY: check-symbols check-calls
check-calls: all
	SOURCE_FOLDERS='$(SOURCE_FOLDERS) bin' OBJS='$(OBJS) $(BIN_OBJS)' CC='$(CC)' \
		test/check-calls
check-symbols: all
	CLIENT_OBJS='$(CLIENT_OBJS)' BACKEND_OBJS='$(BACKEND_OBJS)' \
	MODULE='$(shlib)' SHLIB_LINK='$(SHLIB_LINK)' CC='$(CC)' \
	POSTGRES='$(bindir)/postgres' test/check-symbols

else # no PGXS

.PHONY: all install uninstall installcheck clean lint check-symbols check-calls sim \
	sabotage
all install uninstall installcheck clean lint check-symbols check-calls sim sabotage:
	@echo 'PostgreSQL'"'"'s development files were not found through "$(PG_CONFIG)".' >&2
	@echo 'Install them (test/setup does), or set PG_CONFIG.' >&2
	@exit 1

endif

.PHONY: demo demo-stop test fuzz mutants coverage matrix debian upgrade chaos random bench sizing format model dist
demo:
	demo/run
demo-stop:
	demo/stop
test:
	test/run $(SUITE)
fuzz:
	@CLANG='$(or $(CLANG),clang)' PG_CONFIG='$(PG_CONFIG)' test/fuzz/run $(or $(FOLDER),test/fuzz/build) \
		$(or $(SECONDS),60) $(TARGET)
mutants:
	@SAMPLE='$(SAMPLE)' SEED='$(SEED)' test/mutants/run $(FILES)
coverage:
	test/coverage $(SUITE)
matrix:
	@test/matrix $(SUITES)
debian:
	@test/debian $(SUITES)
upgrade:
	@test/upgrade
chaos:
	@CHAOS_SECONDS='$(SECONDS)' CHAOS_SEED='$(SEED)' test/chaos/run
random:
	@RANDOM_SECONDS='$(SECONDS)' RANDOM_SEED='$(SEED)' RANDOM_SHRINK='$(SHRINK)' test/random/run
bench:
	@test/bench/run
sizing:
	@test/bench/run sizing
format:
	test/format $(wildcard src/*/*.[ch] src/client/library/*.[ch] test/tools/*.[ch] test/unit/*.[ch] \
		test/sim/*.[ch] test/fuzz/*.[ch] \
		test/fuzz/backend/*.[ch] test/bench/*.[ch])
model:
	test/model/run

# Only committed files.  Debian's source package adds debian/ itself.
DIST = build
dist: DISTVERSION = $(shell sed -n 's/^  "version": "\(.*\)",$$/\1/p' META.json)
dist: DEBVERSION = $(shell sed -n '1s/.*(\(.*\)-[^-]*).*/\1/p' debian/changelog)
dist: ARCHIVE = git archive --prefix=zklock-$(DISTVERSION)/
dist:
	mkdir -p $(DIST)
	$(ARCHIVE) --format=zip --output=$(DIST)/zklock-$(DISTVERSION).zip HEAD
	$(ARCHIVE) --format=tar.gz --output=$(DIST)/zklock_$(DEBVERSION).orig.tar.gz \
		HEAD -- . ':(exclude)debian'
.DEFAULT_GOAL := all
