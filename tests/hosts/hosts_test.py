"""A suite on two hosts on one machine: network namespaces joined by a bridge in a third one, where the launcher runs, half of the
ranks in each host, TCP between them. Needs root and `ip`. What the suite prints is its own report, lines `skipped: ...` among it.

Nothing of this is seen outside: UCX takes whatever network it finds, and a job that has taken one that goes hangs."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

SKIPPED_EXIT_CODE = 77  # of the suite
LIMIT_S = 100
SWITCH = "ptswitch"
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
    for namespace in (*HOSTS, SWITCH):
        sh("ip", "netns", "del", namespace, check=False)


def set_up():
    tear_down()
    sh("ip", "netns", "add", SWITCH)
    sh("ip", "-n", SWITCH, "link", "set", "lo", "up")
    sh("ip", "-n", SWITCH, "link", "add", BRIDGE, "type", "bridge")
    sh("ip", "-n", SWITCH, "addr", "add", f"{BRIDGE_ADDRESS}/24", "dev", BRIDGE)
    sh("ip", "-n", SWITCH, "link", "set", BRIDGE, "up")
    for number, (host, address) in enumerate(HOSTS.items(), 1):
        outer, inner = f"ptveth{number}", "eth0"
        sh("ip", "netns", "add", host)
        sh("ip", "-n", SWITCH, "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", host)
        sh("ip", "-n", SWITCH, "link", "set", outer, "master", BRIDGE, "up")
        sh("ip", "-n", host, "addr", "add", f"{address}/24", "dev", inner)
        sh("ip", "-n", host, "link", "set", inner, "up")
        sh("ip", "-n", host, "link", "set", "lo", "up")


def interfaces():
    """The names of those outside."""
    return {entry.name for entry in pathlib.Path("/sys/class/net").iterdir()}


@pytest.fixture
def shell(tmp_path):
    """A file that takes the place of ssh."""
    (first, first_address), (second, second_address) = HOSTS.items()
    file = tmp_path / "node_shell"
    file.write_text(NODE_SHELL.format(first=first, first_address=first_address, second=second, second_address=second_address),
                    encoding="ascii")
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def hosts(given):
    reason = missing() or ("this launcher's ssh options are not known" if given["vendor"] == "other" else None)
    if reason:
        pytest.skip(reason)
    outside = interfaces()
    try:
        set_up()
        assert interfaces() <= outside, "a network of this test is seen outside of it"
        yield
    finally:
        for namespace in (*HOSTS, SWITCH):
            for pid in sh("ip", "netns", "pids", namespace, check=False).stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except (ProcessLookupError, ValueError):
                    pass
        tear_down()


def command_for(given, shell):
    half = int(given["ranks"]) // 2
    addresses = list(HOSTS.values())
    if given["vendor"] == "openmpi":
        return [*given.launcher(), "--mca", "plm_rsh_agent", shell, "--mca", "plm_rsh_no_tree_spawn", "1",
                "--mca", "oob_tcp_if_include", "10.213.7.0/24", "--mca", "btl_tcp_if_include", "10.213.7.0/24",
                "--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
                "--host", ",".join(f"{address}:{half}" for address in addresses), given["program"]]
    return [given["mpiexec"], "-launcher", "ssh", "-launcher-exec", shell, "-localhost", BRIDGE_ADDRESS,
            "-hosts", ",".join(f"{address}:{half}" for address in addresses), "-n", given["ranks"], given["program"]]


def test_hosts_run_the_suite(given, shell, hosts, capfd):
    """The suite passes, or says itself why it skips."""
    environment = {"UCX_NET_DEVICES": "eth0", "UCX_TLS": "tcp,self", **os.environ}
    with capfd.disabled():  # also what it says of its own skipped cases
        process = subprocess.Popen(["ip", "netns", "exec", SWITCH, *command_for(given, shell)], env=environment, start_new_session=True)
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(2)
            process.kill()
            process.wait()
            pytest.fail(f"still running after {LIMIT_S} s")
    if code == SKIPPED_EXIT_CODE:
        pytest.skip("every case of the suite was skipped")
    assert code == 0
