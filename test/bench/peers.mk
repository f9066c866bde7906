# The peers around the clients of other projects.  Each is built if what it needs
# is there; otherwise it is said what is left out, and why.
#
# ZOO_LOCK is a folder with zoo_lock.c and zoo_lock.h, ZooKeeper's lock recipe.  If
# it is empty they are taken from Debian's source package.

ZOO_LOCK ?= build/zoo_lock

all: peers

peers: curator redis recipe

curator:
	@if [ -e /usr/share/java/curator-recipes.jar ] && command -v javac >/dev/null; \
	then curator/compile curator/build; \
	else echo "curator: there is no Curator, or no compiler of Java; left out"; fi

redis:
	@if [ -e /usr/include/hiredis/hiredis.h ]; then $(MAKE) redispeer; \
	else echo "redispeer: there is no hiredis; left out"; fi

recipe:
	@if [ -e $(ZOO_LOCK)/zoo_lock.c ] || ./zoo_lock $(ZOO_LOCK); \
	then $(MAKE) crecipe; fi

redispeer crecipe: peer.o
redispeer: LDLIBS = -lhiredis

crecipe: build/zoo_lock.o
crecipe: CPPFLAGS += -isystem $(ZOO_LOCK) -isystem /usr/include/zookeeper
crecipe: LDLIBS = -lzookeeper_mt

# Not ours: its warnings are not, either.
build/zoo_lock.o: $(ZOO_LOCK)/zoo_lock.c
	@mkdir -p build
	$(CC) -w -pthread -D_GNU_SOURCE -DTHREADED -I$(ZOO_LOCK) \
		-I/usr/include/zookeeper $(CFLAGS) -c -o $@ $<

clean: clean-peers
clean-peers:
	rm -rf redispeer crecipe build curator/build

.PHONY: peers curator redis recipe clean-peers
