#!/usr/bin/env python3
"""Two hosts on one machine: network namespaces joined by a bridge, ranks in each, TCP between them.

    hosts_test.py --mpiexec mpirun --family mpich PROGRAM [ARGUMENT...]

Runs PROGRAM on --ranks ranks, half of them on each host. Needs root and `ip`. Exit codes: PROGRAM's, or 77 with a line
"skipped: ..." where this machine cannot do it."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BRIDGE = "ptbr"
HOSTS = {"pthost1": "10.213.7.11", "pthost2": "10.213.7.12"}
BRIDGE_ADDRESS = "10.213.7.1"

# Takes the place of ssh: the last arguments are the host and the command. The host's name and shared memory are its own, or the MPI
# and UCX would see one machine.
NODE_SHELL = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    -l|-o|-p|-i) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=$1
shift
case "$host" in
  {first_address}) host={first} ;;
  {second_address}) host={second} ;;
esac
exec ip netns exec "$host" unshare --uts --ipc --mount sh -c \\
  'hostname "$0" && mount --make-rprivate / && mount -t tmpfs tmpfs /dev/shm && exec sh -c "$*"' "$host" "$@"
"""


def sh(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def missing():
    """Why this machine cannot do it, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "unshare", "hostname"):
        if shutil.which(tool) is None:
            return f"the command {tool} is not installed"
    if sh("ip", "netns", "add", "ptprobe", check=False).returncode != 0:
        return "this machine does not let us make network namespaces"
    sh("ip", "netns", "del", "ptprobe", check=False)
    return None


def tear_down():
    for host in HOSTS:
        sh("ip", "netns", "del", host, check=False)
    sh("ip", "link", "del", BRIDGE, check=False)


def set_up():
    tear_down()
    sh("ip", "link", "add", BRIDGE, "type", "bridge")
    sh("ip", "addr", "add", f"{BRIDGE_ADDRESS}/24", "dev", BRIDGE)
    sh("ip", "link", "set", BRIDGE, "up")
    for number, (host, address) in enumerate(HOSTS.items(), 1):
        outer, inner = f"ptveth{number}", "eth0"
        sh("ip", "netns", "add", host)
        sh("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", host)
        sh("ip", "link", "set", outer, "master", BRIDGE, "up")
        sh("ip", "-n", host, "addr", "add", f"{address}/24", "dev", inner)
        sh("ip", "-n", host, "link", "set", inner, "up")
        sh("ip", "-n", host, "link", "set", "lo", "up")


def command_for(options, shell):
    half = options.ranks // 2
    addresses = list(HOSTS.values())
    if options.family == "openmpi":
        return [options.mpiexec, "-n", str(options.ranks), *options.mpiexec_flags.split(),
                "--mca", "plm_rsh_agent", shell, "--mca", "plm_rsh_no_tree_spawn", "1",
                "--mca", "oob_tcp_if_include", "10.213.7.0/24", "--mca", "btl_tcp_if_include", "10.213.7.0/24",
                "--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
                "--host", ",".join(f"{address}:{half}" for address in addresses), *options.program]
    return [options.mpiexec, "-launcher", "ssh", "-launcher-exec", shell, "-localhost", BRIDGE_ADDRESS,
            "-hosts", ",".join(f"{address}:{half}" for address in addresses), "-n", str(options.ranks), *options.program]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--mpiexec-flags", default="")
    parser.add_argument("--family", choices=["mpich", "openmpi", "other"], required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--limit-s", type=float, default=100)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    reason = missing() or ("this launcher's ssh options are not known" if options.family == "other" else None)
    if reason:
        print(f"skipped: {reason}")
        return 77
    with tempfile.TemporaryDirectory(prefix="partita-hosts-") as folder:
        shell = os.path.join(folder, "node_shell")
        (first, first_address), (second, second_address) = HOSTS.items()
        with open(shell, "w", encoding="ascii") as file:
            file.write(NODE_SHELL.format(first=first, first_address=first_address, second=second, second_address=second_address))
        os.chmod(shell, 0o755)
        try:
            set_up()
            environment = dict(os.environ)
            environment.setdefault("UCX_NET_DEVICES", "eth0")
            environment.setdefault("UCX_TLS", "tcp,self")
            process = subprocess.Popen(command_for(options, shell), env=environment, start_new_session=True)
            try:
                return process.wait(options.limit_s)
            except subprocess.TimeoutExpired:
                print(f"FAILED: still running after {options.limit_s} s", flush=True)
                os.killpg(process.pid, signal.SIGTERM)
                time.sleep(2)
                return 1
        finally:
            for host in HOSTS:
                for pid in sh("ip", "netns", "pids", host, check=False).stdout.split():
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except (ProcessLookupError, ValueError):
                        pass
            tear_down()


if __name__ == "__main__":
    sys.exit(main())
