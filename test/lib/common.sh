# Small functions for the shell scripts of the tests and the demo.  Source this
# file.
#
# shellcheck shell=bash

# Print to standard error and exit.
die()
{
	printf '%s\n' "$*" >&2
	exit 1
}

# wait_until SECONDS COMMAND [ARG ...]: repeat the command until it succeeds.
# Fails when the time is up, or immediately if the command returns 2.
wait_until()
{
	local deadline=$((SECONDS + $1)) status
	shift
	until "$@"; do
		status=$?
		if ((status == 2 || SECONDS >= deadline)); then
			return 1
		fi
		sleep 0.05
	done
}

# process_start PID: print when a process was started, in a form that is only
# good for comparisons.  Fails if there is no such process, or if it has ended
# and is a zombie.
process_start()
{
	local stat=
	# The name, in parentheses, may contain anything.
	{ IFS= read -r -d '' stat <"/proc/$1/stat" || [ -n "$stat" ]; } 2>/dev/null || return 1
	read -r -a stat <<<"${stat##*) }"
	[ "${stat[0]}" != Z ] && printf '%s\n' "${stat[19]}"
}

process_gone()
{
	! process_start "$1" >/dev/null
}
