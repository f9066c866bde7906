# Small things that the shell scripts of the tests and the demo share.  To be
# sourced.
#
# shellcheck shell=bash

# Print to standard error and give up.
die()
{
	printf '%s\n' "$*" >&2
	exit 1
}

# wait_until SECONDS COMMAND [ARG ...]: repeat the command until it succeeds.
# Fails when the time is over, or at once if the command returns 2.
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

# process_start PID: when a process was started, in a form that only serves to
# be compared.  Fails if there is no such process, or if it has ended and just
# has not been waited for.
process_start()
{
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	# The name, in parentheses, may contain anything.
	read -r -a stat <<<"${stat##*) }"
	[ "${stat[0]}" != Z ] && printf '%s\n' "${stat[19]}"
}

process_gone()
{
	! process_start "$1" >/dev/null
}
