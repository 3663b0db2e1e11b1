#!/bin/sh
# apart.sh PROGRAM [ARGUMENT...]: runs a rank in a container of its own (network, folder for temporary files), on the node of the
# others. The folder is not /tmp, in which the program may lie.
unshare --net --mount true 2>/dev/null || { echo "skipped: this machine does not let us make namespaces"; exit 77; }
unset XDG_RUNTIME_DIR
export TMPDIR=/mnt
exec unshare --net --mount sh -c 'ip link set lo up; mount --make-rprivate / && mount -t tmpfs tmpfs /mnt && exec "$0" "$@"' "$@"
