#!/bin/sh
# apart.sh PROGRAM [ARGUMENT...]: runs a rank in a container of its own (network, /tmp), on the node of the others.
unshare --net --mount true 2>/dev/null || { echo "skipped: this machine does not let us make namespaces"; exit 77; }
unset XDG_RUNTIME_DIR TMPDIR
exec unshare --net --mount sh -c 'ip link set lo up; mount --make-rprivate / && mount -t tmpfs tmpfs /tmp && exec "$0" "$@"' "$@"
