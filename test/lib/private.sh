# A private folder to build and run servers in, as an ordinary user.  Source
# this file after common.sh.
#
# shellcheck shell=bash

# private_folder PURPOSE [DIR]: print the name of a new folder, below TMPDIR, or else DIR.
private_folder()
{
	mktemp -d "${TMPDIR:-${2-/tmp}}/zklock-$1.XXXXXX"
}

# copy_tree FROM TO: copy the files that git does not ignore; without git, all files.
copy_tree()
{
	mkdir -p "$2"
	if git -C "$1" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		(cd "$1" && git ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' file; do
				[ ! -e "$file" ] || printf '%s\0' "$file"
			done | tar -c --null -T -) | tar -x -C "$2"
	else
		(cd "$1" && tar -c .) | tar -x -C "$2"
	fi
}

# cpu_groups DIR: print the control groups of processors that can be for the processes of
# a private folder: below where this shell is, if that is the top.
cpu_groups()
{
	local path
	path=$(sed -nE 's/^[0-9]+:([^:]*,)?cpu(,[^:]*)?://p' /proc/self/cgroup)
	[ "${path:-$(sed -n 's/^0:://p' /proc/self/cgroup)}" = / ] || return 0
	awk -v name="${1##*/}" '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ || $3 == "cgroup2" \
		{ print $2 "/" name }' /proc/mounts
}

# join_cpu_group DIR: have one control group for all processes of a private folder, from
# this one on.  At the top Linux makes a group of each session instead (sched_autogroup),
# so of each backend and each server.  Linux 6.18 then lets those that mostly wait
# stand still for seconds beside programs of many threads.  The group gets as much of the
# processors as eight of other users' sessions.
join_cpu_group()
{
	local group
	for group in $(cpu_groups "$1"); do
		mkdir -p "$group" || continue
		if { [ -e "$group/cpu.shares" ] && echo 8192 >"$group/cpu.shares"; } ||
			{ [ -e "$group/cpu.weight" ] && echo 800 >"$group/cpu.weight"; }; then
			echo "$BASHPID" >"$group/cgroup.procs" && return
		fi
		rmdir "$group"
	done
} 2>/dev/null

# Remove that control group.  What was killed may still be there for a moment.
remove_cpu_group()
{
	local group
	for group in $(cpu_groups "$1"); do
		[ ! -d "$group" ] || wait_until 5 rmdir "$group" 2>/dev/null || true
	done
}

# in_private_folder DIR COMMAND [ARG ...]: run a command as an ordinary user.
# As root, that is the user postgres, because PostgreSQL does not run as root.
# If this shell is killed, the command gets a SIGTERM.
in_private_folder()
{
	local dir=$1
	shift
	mkdir -p "$dir/tmp"
	if ((EUID == 0)); then
		join_cpu_group "$dir" || true
		chown -R postgres: "$dir"
		exec setpriv --reuid=postgres --regid=postgres --init-groups --pdeathsig=TERM \
			env HOME="$dir" USER=postgres LOGNAME=postgres TMPDIR="$dir/tmp" "$@"
	else
		exec setpriv --pdeathsig=TERM env TMPDIR="$dir/tmp" "$@"
	fi
}

# build_zklock ROOT LOG [MAKE_ARGUMENT ...]: in the source tree, with a copy of
# PostgreSQL below ROOT, which is left in PATH.  Sets pg_config.
build_zklock()
{
	local root=$1 log=$2
	shift 2
	pg_config=$(test/lib/postgres install "$root")
	PATH=$("$pg_config" --bindir):$PATH
	make -s -j "$(nproc)" PG_CONFIG="$pg_config" "$@" all install >"$log" 2>&1 || {
		cat "$log" >&2
		die "zklock does not build"
	}
}

# tap_environment DIR: make programs that use PostgreSQL's test modules, and
# ours, run in a folder.  Call it in the top folder, with pg_config set.
tap_environment()
{
	local pgxs
	pgxs=$(dirname "$(dirname "$("$pg_config" --pgxs)")")
	rm -rf "$1"
	mkdir -p "$1"
	export TESTDIR=$1 TESTDATADIR=$1/tmp_check TESTLOGDIR=$1/tmp_check/log \
		PG_TEST_PORT_DIR=$TMPDIR/ports PG_REGRESS=$pgxs/test/regress/pg_regress \
		PERL5LIB=$pgxs/test/perl:$PWD/test/perl
}

# kill_in_folder SIGNAL DIR PATTERN: signal the processes that live in a folder
# (their working directory or their program is below it) and whose program's
# path matches the pattern, but not this shell.  Fails if there are none.
kill_in_folder()
{
	local pid program found=1
	while read -r pid; do
		program=$(readlink "/proc/$pid/exe" 2>/dev/null) || continue
		# shellcheck disable=SC2053 # a pattern it is
		if [[ $program == $3 ]] && ((pid != $$ && pid != BASHPID)) &&
			kill "-$1" "$pid" 2>/dev/null; then
			found=0
		fi
	done < <(cd / && find /proc -mindepth 2 -maxdepth 2 '(' -name cwd -o -name exe ')' \
		-lname "$2/*" -printf '%h\n' 2>/dev/null | sed 's,.*/,,' | sort -u)
	return $found
}

# Signal them, and report whether there were none.
none_to_kill()
{
	! kill_in_folder "$@"
}

# Stop all processes in a folder.  First the scripts and tests, which might
# start others, and ZooKeeper, which needs no orderly end.  Then PostgreSQL, in an
# orderly way where its servers respond.
stop_private_servers()
{
	local dir
	# Processes outlive a folder that another program removed.
	dir=$(cd "$1" 2>/dev/null && pwd -P) || dir=$1
	wait_until 10 none_to_kill KILL "$dir" '!(*/postgres)' || true
	if kill_in_folder CONT "$dir" '*/postgres'; then
		kill_in_folder QUIT "$dir" '*/postgres' || true
		wait_until 10 none_to_kill 0 "$dir" '*/postgres' ||
			wait_until 10 none_to_kill KILL "$dir" '*' || true
	fi
	remove_shared_memory "$dir"
	remove_cpu_group "$dir"
}

# Remove the shared memory of servers that were killed.  Their postmaster.pid names it.
remove_shared_memory()
{
	local id
	while read -r id; do
		ipcrm -m "$id" 2>/dev/null || true
	done < <(find "$1" -name postmaster.pid -exec awk 'FNR == 7 { print $2 }' {} + 2>/dev/null)
}

# Stop what runs in the folder and remove it, unless KEEP=1.
leave_private_folder()
{
	stop_private_servers "$1"
	if [ "${KEEP-}" = 1 ]; then
		echo "kept: $1"
	else
		rm -rf "$1"
	fi
}

# end_inside DIR: the end of a command that in_private_folder has run.  Stops what
# runs in the folder, and removes it as well if no other process is left to do that.
end_inside()
{
	if grep -q "^PPid:[[:space:]]*$PPID\$" "/proc/$$/status"; then
		stop_private_servers "$1"
	else
		leave_private_folder "$1"
	fi
}
