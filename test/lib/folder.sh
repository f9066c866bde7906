# Folders with a Debian of their own, for tests that install packages.  Source this file
# after common.sh and private.sh, with top set to the source tree's folder.
#
# Needs root, and Debian's servers.  FOLDERS=DIR makes the folders below DIR, keeps them,
# and reuses existing ones.  Otherwise they are temporary, and are removed at the end,
# unless KEEP=1.  MIRROR=URL names another mirror than debootstrap's default; an archive
# has earlier states of the suites, with other versions.
#
# shellcheck shell=bash

# How long it may take, in seconds, to make a folder, and to install packages in it,
# before it counts as not available.  The disk space that a folder takes, with the
# files that the tests write, in kilobytes.
patience=600
room=6000000

# The exit status of a command for which no folder is available.
not_to_be_had=75

# Where the folders are.
folders=

# Succeeds if there is room for a folder in DIR.
has_room()
{
	local free
	free=$(df --output=avail "$1" | tail -n 1)
	((free >= room)) || {
		echo "no room in $1: $free kB are free, and $room wanted" >&2
		return 1
	}
}

# make_folder SUITE FOLDER: make one with only the packages that apt needs.  Replaces
# an incomplete one.
make_folder()
{
	local suite=$1 folder=$2
	[ ! -e "$folder/.zklock-matrix" ] || return 0
	rm -rf "$folder"
	mkdir -p "$folder"
	has_room "$folder" || return 1
	echo "making a folder of $suite"
	timeout "$patience" debootstrap --variant=minbase "$suite" "$folder" ${MIRROR:+"$MIRROR"} \
		>"$folder.log" 2>&1 </dev/null || {
		tail -n 20 "$folder.log" >&2
		echo "debootstrap has not made a folder of $suite" >&2
		return 1
	}
	# An archive is past the date until which it is valid.
	printf '%s\n' 'Acquire::Check-Valid-Until "false";' 'Acquire::Retries "3";' \
		>"$folder/etc/apt/apt.conf.d/zklock-matrix"
	: >"$folder/.zklock-matrix"
}

# isolated FOLDER COMMAND [ARG ...]: run a command in namespaces of its own, with
# the file systems mounted in the folder that programs need.  It is alone with its
# processes: when it has ended, they have.  Fails with status 125 if that is not
# allowed.
isolated()
{
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --pid --fork --kill-child bash -c '
		folder=$1
		shift
		mkdir -p "$folder/proc" "$folder/dev/shm" "$folder/dev/pts" &&
			mount -t proc proc "$folder/proc" &&
			mount -t devpts -o newinstance,ptmxmode=0666 devpts "$folder/dev/pts" &&
			mount -t tmpfs -o mode=1777 tmpfs "$folder/dev/shm" || exit 125
		# A process must wait for orphans, so this shell remains.
		"$@"
		exit $?
	' isolated "$@"
}

# in_folder FOLDER COMMAND [ARG ...]: run a command as root in a folder, in the source
# tree's copy there.
in_folder()
{
	local folder=$1 name keep=()
	shift
	for name in QUICK JOBS REPEAT http_proxy https_proxy; do
		[ -z "${!name-}" ] || keep+=("$name=${!name}")
	done
	isolated "$folder" chroot "$folder" /usr/bin/env -i "${keep[@]}" HOME=/root LANG=C.UTF-8 \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		bash -c 'cd /zklock && exec "$@"' bash "$@"
}

# Succeeds if folders can probably be made here; otherwise prints the reason.
has_means()
{
	local dir status=0
	if ((EUID != 0)); then
		echo "A folder with another Debian can be made by root only: sudo $0" >&2
		return 1
	fi
	# shellcheck disable=SC2154 # top: the sourcing script has set it
	"$top/test/setup" matrix || return 1
	dir=$(private_folder matrix) || return 1
	isolated "$dir" true || status=$?
	rm -rf --one-file-system "$dir"
	((status == 0)) || echo "namespaces of processes, or mounts in them, are not allowed here" >&2
	return "$status"
}

# place_folders NAME: set folders, and have temporary ones removed at the end.  NAME is
# part of the name of a temporary place.
place_folders()
{
	if [ -n "${FOLDERS-}" ]; then
		mkdir -p "$FOLDERS"
		folders=$(cd "$FOLDERS" && pwd -P)
	else
		folders=$(private_folder "$1")
		[ "${KEEP-}" = 1 ] || trap 'rm -rf --one-file-system "$folders"' EXIT
	fi
}

# enter_folder SUITE FOLDER COMMAND [ARG ...]: run a command as root in a folder of this
# suite, in a new copy of the source tree there.  Makes the folder if necessary.
enter_folder()
{
	local suite=$1 folder=$2 file
	shift 2
	make_folder "$suite" "$folder" || return "$not_to_be_had"
	for file in /etc/hosts /etc/resolv.conf; do
		[ ! -e "$file" ] || cp -L "$file" "$folder$file"
	done
	rm -rf "$folder/zklock"
	copy_tree "$top" "$folder/zklock" || return 1
	in_folder "$folder" "$@"
}
