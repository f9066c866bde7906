# Results in TAP, for shell scripts.  Source this file.
#
# shellcheck shell=bash

count=0
failed=0

# check DESCRIPTION EXPECTED ACTUAL: one result.
check()
{
	count=$((count + 1))
	if [ "$2" = "$3" ]; then
		printf 'ok %d - %s\n' "$count" "$1"
	else
		failed=$((failed + 1))
		printf 'not ok %d - %s\n# expected: %s\n#      got: %s\n' "$count" "$1" "$2" "$3"
	fi
}

# Print the plan, after all checks.  Fails if a check failed, or if there was none.
done_checking()
{
	printf '1..%d\n' "$count"
	((failed == 0 && count > 0))
}
