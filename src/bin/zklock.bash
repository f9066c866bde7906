# shellcheck shell=bash
#
# Completion of zklock(1) in bash.  Up to the lock path there are options; behind it, there
# is a command, which is completed as bash completes any command.
#
# The package bash-completion loads this file when it is needed, and completes the arguments
# of the command.  Without that package, source this file; arguments are file names then.

_zklock_options=(-s --shared --semaphore= --job= --note= -t --timeout= -n --nonblock
	-E --conflict-exit-code= -d --dbname= -h --host= -p --port= -U --username=
	-w --no-password -V --version '-?' --help)

# The letters of those that need a value.
_zklock_valued=tEdhpU

# _zklock_match PREFIX WORD ...: offer the words that begin with the current one.  A word
# that ends with "=" wants a value behind it, and no blank.
_zklock_match()
{
	local prefix=$1 word
	shift
	for word; do
		[[ $word != "$prefix"* ]] || COMPREPLY+=("$word")
	done
	[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
}

# _zklock_needs_value OPTION: succeeds if the next word is the value of this option.
_zklock_needs_value()
{
	local option
	case $1 in
		--*=*) return 1 ;;
		--*)
			for option in "${_zklock_options[@]}"; do
				[[ $option != "$1"*= ]] || return 0
			done
			return 1 ;;
		*) [[ $1 =~ ^-[^$_zklock_valued]*[$_zklock_valued]$ ]] ;;
	esac
}

# _zklock_value OPTION WORD: offer values of an option.
_zklock_value()
{
	local prefix=''
	[[ $2 != --*=* ]] || prefix=${2%%=*}=
	case $1 in
		-*h | --ho*)
			mapfile -t COMPREPLY < <(compgen -P "$prefix" -A hostname -- "${2#"$prefix"}") ;;
	esac
}

# _zklock_command INDEX: complete a command that begins with that word of COMP_WORDS.
_zklock_command()
{
	local offset
	for offset in _comp_command_offset _command_offset; do
		if declare -F "$offset" >/dev/null; then
			"$offset" "$1"
			return
		fi
	done
	if ((COMP_CWORD == $1)); then
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}" | sort -u)
	else
		compopt -o default
	fi
}

_zklock()
{
	local current=$2 line=$COMP_LINE words=() starts=() option='' at
	COMPREPLY=()

	# bash also splits words at "=" and ":"; these are the words as the program has them,
	# and where they start in COMP_WORDS
	for ((at = 0; at <= COMP_CWORD; at++)); do
		if ((at == 0)) || [[ $line == [[:space:]]* ]]; then
			line=${line#"${line%%[![:space:]]*}"}
			words+=("${COMP_WORDS[at]}")
			starts+=("$at")
		else
			words[-1]+=${COMP_WORDS[at]}
		fi
		line=${line#"${COMP_WORDS[at]}"}
	done

	local last=$((${#words[@]} - 1))
	if ((last == 1)); then
		_zklock_match "$current" run -V --version '-?' --help
		return
	fi
	[ "${words[1]}" = run ] || return
	for ((at = 2; at < last; at++)); do
		if [ -n "$option" ]; then
			option=
		elif [ "${words[at]}" = -- ]; then
			at=$((at + 1))
			break
		elif [[ ${words[at]} != -?* ]]; then
			break
		elif _zklock_needs_value "${words[at]}"; then
			option=${words[at]}
		fi
	done

	# words[at] is the lock path, unless the current word comes before it
	if [ -n "$option" ]; then
		_zklock_value "$option" "$current"
	elif ((at >= last)); then
		case ${words[last]} in
			--*=*) _zklock_value "${words[last]%%=*}" "$current" ;;
			-*) _zklock_match "$current" "${_zklock_options[@]}" ;;
		esac
	elif ((at + 1 == last)) && [[ -n $current && -- == "$current"* ]]; then
		COMPREPLY=(--)
	elif [ "${words[at + 1]}" = -- ]; then
		_zklock_command "${starts[at + 2]}"
	else
		_zklock_command "${starts[at + 1]}"
	fi
}

complete -F _zklock zklock
