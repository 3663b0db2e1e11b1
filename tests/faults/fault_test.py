#!/usr/bin/env python3
"""Runs the program `probe` with a fault in one rank, or a mistake on purpose, and checks what the ranks say.

    fault_test.py --mpiexec mpirun --probe PATH GROUP

Exit codes: 0 all passed, 77 skipped, else failed. PATH is gpu_probe for the group gpu, wrong_gpu_probe for wrong_gpu, thread_probe for kernels,
chunk_probe for chunk."""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

STAGES = ["before_init", "after_init", "after_start", "mid_epoch", "in_wait"]
RANKS = 3
VICTIM = 1
UCX_UNPACKS_KEYS_OF_THE_DEAD = (1, 22)  # the oldest seen to do so without harm
TIMEOUT_S = 3
# For noticing, and for a crowded machine.
MARGIN_S = 12
# Of kernels: long enough to tell a release by the host from the kernel's own time limit.
KERNEL_TIMEOUT_S = 30
# From the death of a rank to the end of the kernels that wait for it. The guide promises about a second; kernels on CPU threads
# run in crowded machines too.
KERNEL_RELEASE_S = {"gpu": 3, "kernels": 15}
ERR_ABORTED = 10  # PARTITA_DEVICE_ERR_ABORTED
KNOWN_SETTINGS = ["PARTITA_LINK", "PARTITA_PARTITIONS", "PARTITA_GPU_COPY", "PARTITA_PROGRESS", "PARTITA_WARN_AFTER",
                  "PARTITA_TIMEOUT", "PARTITA_TRACE", "PARTITA_SLOT_LIMIT", "PARTITA_FIRST_EPOCH", "PARTITA_VERBOSE"]


# Launchers end all ranks when one dies. MPICH's does so even when told not to clean up, so each rank runs under a shell that
# outlives it, and the launcher learns of no death.
# It says how its rank ended.
KEEPER = """trap "" USR1
"$@" &
pid=$!
wait $pid
echo "keeper: pid $pid ended with code $?"
i=0
while [ ! -e "$RELEASE" ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i + 1)); done"""


class Job:
    """One run under the launcher, with all that its ranks printed."""

    def __init__(self, options, arguments, ranks=RANKS, survive=False, **environment):
        variables = {k: v for k, v in os.environ.items() if not k.startswith("PARTITA_")}
        variables.update(environment)
        command = [options.mpiexec, "-n", str(ranks), *options.mpiexec_flags]
        self.release = None
        if survive:
            self.release = os.path.join(tempfile.mkdtemp(prefix="partita-fault-"), "release")
            variables["RELEASE"] = self.release
            command += ["sh", "-c", KEEPER, "sh"]
        command += [options.probe, *arguments]
        self.lines = []
        self.times = []  # of each line: when it came
        self.begin = time.monotonic()
        self.process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, errors="replace", start_new_session=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.times.append(time.monotonic())
            self.lines.append(line.rstrip("\n"))

    @property
    def output(self):
        return "\n".join(self.lines)

    def time_between(self, first, second):
        """Seconds from the line with `first` in it to the one with `second`; None where one is missing."""
        came = [next((at for at, line in zip(self.times, self.lines) if words in line), None) for words in (first, second)]
        return None if None in came else came[1] - came[0]

    def pids(self):
        return [int(n) for n in re.findall(r"runs as pid (\d+)", self.output)]

    def end_codes(self):
        """Rank -> exit code, of the ranks under a keeper that have ended."""
        rank_of = {pid: int(rank) for rank, pid in re.findall(r"rank (\d+) runs as pid (\d+)", self.output)}
        ended = re.findall(r"keeper: pid (\d+) ended with code (\d+)", self.output)
        return {rank_of[pid]: int(code) for pid, code in ended if pid in rank_of}

    def wait_until(self, done, limit_s):
        """Whether `done()` came true within the limit."""
        deadline = self.begin + limit_s
        while time.monotonic() < deadline:
            if done():
                return True
            if self.process.poll() is not None:
                self.reader.join(2)
                return done()
            time.sleep(0.05)
        return done()

    def end(self, limit_s):
        """Lets the job end by itself, else ends it. Returns its exit code, None if it had to be ended."""
        code = None
        if self.release:
            with open(self.release, "w", encoding="ascii"):
                pass
        try:
            code = self.process.wait(max(0.1, self.begin + limit_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        for pid in self.pids():
            if not self._is_probe(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if code is None:
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(2)
        if self.release:
            shutil.rmtree(os.path.dirname(self.release), ignore_errors=True)
        return code

    @staticmethod
    def _is_probe(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return b"probe" in file.read()
        except OSError:
            return False


class Checks:
    def __init__(self):
        self.failed = 0

    def expect(self, truth, what, job):
        if truth:
            return
        self.failed += 1
        print(f"FAILED: {what}\n" + "\n".join("    " + line for line in job.lines[-40:]), flush=True)


def survivors(job):
    """Rank -> (seconds, sentence)."""
    found = re.findall(r"probe: rank (\d+) survives: class \d+ after ([0-9.]+) s: (.*)", job.output)
    return {int(rank): (float(seconds), sentence) for rank, seconds, sentence in found}


def expect_good_end(checks, job, ranks, where):
    """Survivors end by themselves, and well. Asked before the job is ended."""
    codes = job.end_codes()
    for r in ranks:
        checks.expect(r in codes, f"{where}: rank {r} has not ended", job)
        checks.expect(codes.get(r, 0) == 0, f"{where}: rank {r} ended with code {codes.get(r)}", job)


def fault(options, checks, action, stage, link):
    where = f"{action} {stage}, link {link}"
    job = Job(options, ["ring", stage, action, str(VICTIM)], survive=True, PARTITA_TIMEOUT=str(TIMEOUT_S),
              PARTITA_WARN_AFTER="1", PARTITA_LINK=link)
    others = [r for r in range(RANKS) if r != VICTIM]
    job.wait_until(lambda: all(r in survivors(job) and r in job.end_codes() for r in others), TIMEOUT_S + MARGIN_S)
    told = survivors(job)
    expect_good_end(checks, job, others, where)
    job.end(time.monotonic() - job.begin + 0.1)
    checks.expect(f"rank {VICTIM} pid" in job.output, f"{where}: the fault did not strike", job)
    for r, (seconds, sentence) in told.items():
        checks.expect(seconds < TIMEOUT_S + 3, f"{where}: rank {r} waited {seconds} s", job)
        # A rank may wait for a survivor that waits for the victim.
        checks.expect(any(f"rank {g}" in sentence for g in range(RANKS) if g != r), f"{where}: rank {r}: {sentence}", job)
    for r in others:
        checks.expect(r in told, f"{where}: rank {r} did not report within {TIMEOUT_S + MARGIN_S} s", job)
    checks.expect(any(f"rank {VICTIM}" in sentence for _, sentence in told.values()), f"{where}: nobody names the victim", job)
    print(f"done: {where}: " + "; ".join(f"rank {r} after {told[r][0]} s" for r in sorted(told)), flush=True)


def what_ucx_forbids(stage, ucx_version):
    """Why a rank cannot be killed at `stage` on link ucx without harm to the others; None where it can."""
    if stage == "after_init" and ucx_version < UCX_UNPACKS_KEYS_OF_THE_DEAD:
        return "this UCX may end a rank that unpacks the key of a dying one"
    if stage in ("before_init", "after_init"):
        return None
    return "UCX itself may end a rank that a dying one is still putting to"


def group_kill(options, checks):
    for link in options.links:
        for stage in STAGES:
            reason = what_ucx_forbids(stage, options.ucx_version) if link == "ucx" else None
            if reason is None:
                fault(options, checks, "kill", stage, link)
            else:
                print(f"skipped: kill {stage}, link ucx: {reason} (docs/design/link-ucx.md)", flush=True)


def group_stop(options, checks):
    for link in options.links:
        for stage in STAGES:
            fault(options, checks, "stop", stage, link)


def group_slow(options, checks):
    """A slow rank is no error: the others wait, explain what they wait for, and all ends well."""
    for link in options.links:
        for stage in STAGES:
            job = Job(options, ["ring", stage, "slow", str(VICTIM)], PARTITA_TIMEOUT="20", PARTITA_WARN_AFTER="0.5",
                      PARTITA_LINK=link)
            code = job.end(40)
            where = f"slow {stage}, link {link}"
            checks.expect(code == 0, f"{where}: exit code {code}", job)
            checks.expect(job.output.count("ends well") == RANKS, f"{where}: not all ranks end well", job)
            explained = [line for line in job.lines if "has waited" in line]
            checks.expect(bool(explained), f"{where}: no rank explained its wait", job)
            for word in ["rank 1", "tag 1", "epoch", "partitions"]:
                checks.expect(any(word in line for line in explained), f"{where}: no explanation names '{word}'", job)
            print(f"done: {where}", flush=True)


def group_settings(options, checks):
    """A malformed setting ends the job at its start; one rank prints why, with the list of the known ones."""
    for name, value in [("PARTITA_LINK", "bogus"), ("PARTITA_TIMEOUT", "soon"), ("PARTITA_PARTITIONS", "0"),
                        ("PARTITA_PROGRESS", "maybe"), ("PARTITA_WARN_AFTER", "-1"),
                        ("PARTITA_FIRST_EPOCH", "4294967296"), ("PARTITA_GPU_COPY", "dma"), ("PARTITA_SLOT_LIMIT", "-1")]:
        job = Job(options, ["normal"], ranks=2, **{name: value})
        code = job.end(25)
        where = f"{name}={value}"
        checks.expect(code not in (0, None), f"{where}: exit code {code}", job)
        checks.expect("runs as" not in job.output, f"{where}: the program went on", job)
        checks.expect(job.output.count("the known settings are") == 1, f"{where}: not told by one rank", job)
        checks.expect(f"sets {name}={value}" in job.output, f"{where} is not named", job)
        for known in KNOWN_SETTINGS:
            checks.expect(known in job.output, f"{where}: {known} is missing in the list of known settings", job)
    job = Job(options, ["normal"], ranks=2, PARTITA_BOGUS="1", PARTITA_LINKS="mpi")
    checks.expect(job.end(25) == 0, "an unknown setting ends the job", job)
    checks.expect(job.output.count("PARTITA_BOGUS") == 1, "an unknown setting is not told by one rank", job)
    checks.expect("PARTITA_LINKS (is PARTITA_LINK meant?)" in job.output, "the nearest known one is not named", job)
    job = Job(options, ["normal"], ranks=2, PARTITA_ROOT="/opt", PARTITA_VERSION="1")
    checks.expect(job.end(25) == 0 and "PARTITA_" not in job.output, "what modules set is none of our business", job)
    job = Job(options, ["ring", "at_no_stage", "slow", "1"], ranks=2, PARTITA_VERBOSE="1", PARTITA_LINK="mpi")
    checks.expect(job.end(25) == 0, "a job that is told how it runs fails", job)
    checks.expect(job.output.count(" ranks, ") == 1, "versions and ranks are not told by one rank", job)
    for end in ["to rank 0", "to rank 1", "from rank 0", "from rank 1"]:
        checks.expect(job.output.count(f"requests {end} take link mpi: ") == 1, f"the link {end} is not told once", job)
    job = Job(options, ["normal"], ranks=2, PARTITEST_ANYTHING="1")
    checks.expect(job.end(25) == 0, "variables of other names are not ours", job)


def group_finalize(options, checks):
    job = Job(options, ["live_finalize"], ranks=2)
    code = job.end(30)
    checks.expect(code == 0, f"inactive requests at MPI_Finalize: exit code {code}", job)
    checks.expect(job.output.count("returned MPI_SUCCESS") == 2, "inactive requests at MPI_Finalize: an error", job)
    checks.expect(job.output.count("1 partitioned request was never freed") == 2,
                  "inactive requests at MPI_Finalize passed silently", job)
    job = Job(options, ["incomplete_finalize"], ranks=2)
    job.end(30)
    checks.expect("MPI_SUCCESS" not in job.output, "incomplete requests at MPI_Finalize passed silently", job)
    for rank in range(2):
        told = [line for line in job.lines if f"rank {rank} MPI_Finalize returned" in line]
        checks.expect(len(told) == 1 and "not complete" in told[0] and "send" in told[0],
                      f"incomplete requests at MPI_Finalize: rank {rank} got no sentence that says which", job)
    job = Job(options, ["unmatched_finalize"], ranks=2)
    code = job.end(30)
    checks.expect(code == 0, f"unmatched requests at MPI_Finalize: exit code {code}", job)
    checks.expect(job.output.count("returned MPI_SUCCESS") == 2, "unmatched requests at MPI_Finalize: an error", job)
    for progress in ["thread", "caller"]:
        job = Job(options, ["late_finalize"], ranks=2, PARTITA_TIMEOUT="1", PARTITA_PROGRESS=progress)
        code = job.end(30)
        where = f"a rank late at MPI_Finalize, PARTITA_PROGRESS={progress}"
        checks.expect(code == 0, f"{where}: exit code {code}", job)
        checks.expect("rank 0 MPI_Finalize returned" in job.output and "PARTITA_TIMEOUT" in job.output,
                      f"{where}: the one that waited was not told", job)


def group_fatal(options, checks):
    for misuse, words in [("fatal", ["MPI_Pready: ", "4711"]), ("fatal_abort", ["MPI_Pready: ", "4711"]),
                          ("fatal_waitall", ["MPI_Waitall: ", "sizes", "32 bytes"])]:
        job = Job(options, [misuse], ranks=2)
        code = job.end(30)
        checks.expect(code not in (0, None), f"{misuse}: a fatal error ends the job; exit code {code}", job)
        checks.expect("came back" not in job.output, f"{misuse}: MPI_ERRORS_ARE_FATAL returned", job)
        checks.expect(all(word in job.output for word in words), f"{misuse}: the sentence was not printed before the end",
                      job)
        told = re.findall(rf"\[partita rank (\d)\] {words[0]}", job.output)
        checks.expect(len(told) == len(set(told)), f"{misuse}: a rank printed its sentence twice", job)
        for inner in ["call_errhandler", "Partita_", "[partita rank 0] Pready", "Wait_until"]:
            checks.expect(inner not in job.output, f"{misuse}: {inner} is no call of the program's", job)


def kernel_fault(options, checks, mode, size_bytes, **environment):
    """Rank 1 of two is killed; a kernel of rank 0 waits for it, asks for what it does not send any more, or marks."""
    where = f"kernels, {mode}, {size_bytes} bytes" + "".join(f", {name}={value}" for name, value in environment.items())
    job = Job(options, [mode, str(size_bytes)], ranks=2, survive=True, PARTITA_TIMEOUT=str(KERNEL_TIMEOUT_S), **environment)
    job.wait_until(lambda: 0 in job.end_codes(), KERNEL_TIMEOUT_S + 2 * MARGIN_S)
    told = survivors(job)
    expect_good_end(checks, job, [0], where)
    job.end(time.monotonic() - job.begin + 0.1)
    strikes = f"rank {VICTIM} pid"
    checks.expect(strikes in job.output, f"{where}: the fault did not strike", job)
    ended = re.search(r"rank 0 kernel ended: code (-?\d+)", job.output)
    checks.expect(ended is not None, f"{where}: the kernel of rank 0 did not end", job)
    if ended:
        expected = 0 if mode in ("host_mark", "host_all") else ERR_ABORTED
        checks.expect(int(ended[1]) == expected, f"{where}: the kernel ended with code {ended[1]}, not {expected}", job)
    limit_s = KERNEL_RELEASE_S[options.group]
    _, sentence = told.get(0, (None, ""))
    times = []
    for what, line in [("the kernel ended", "rank 0 kernel ended"), ("rank 0 was told", "rank 0 survives")]:
        seconds = job.time_between(strikes, line)
        # Where all had come, the kernel is launched long after the death. Where it only marks, its host looks for its end after
        # its own wait.
        awaits = mode != "host_all"
        checks.expect(seconds is not None and (seconds < limit_s or not awaits),
                      f"{where}: {what} {seconds} s after the death of rank {VICTIM}", job)
        if awaits and seconds is not None:
            times.append(f"{what} {seconds:.2f} s after the death")
    if mode == "host_all":
        checks.expect("survives: class 0 " in job.output, f"{where}: all had come, but rank 0 was told: {sentence}", job)
    else:
        # UCX may notice a lost connection before the library looks whether the process lives.
        ways = [f"rank {VICTIM} has ended"] + [f"lost rank {VICTIM}"] * (environment.get("PARTITA_LINK") == "ucx")
        checks.expect(any(way in sentence for way in ways), f"{where}: rank 0 was told: {sentence}", job)
    checks.expect("rank 0 computes 144" in job.output, f"{where}: rank 0 has lost its GPU", job)
    checks.expect("rank 0 frees: MPI_SUCCESS" in job.output, f"{where}: rank 0 could not free its requests", job)
    print(f"done: {where}: {', '.join(times) or 'nobody had to wait'}", flush=True)


def group_kernels(options, checks):
    """Those that wait for the dead are released, whoever opens the epochs and however they wait; and nobody else."""
    packets, flags = 64, 65536
    modes = ["wait", "ask", "exchange"]
    if ranks_share_a_gpu():
        modes.remove("exchange")
        print("skipped: kernels that store into the dead rank's memory: of ranks that share a GPU under the multi-process "
              "service it goes with its process, and the stores fail")
    for mode in modes:
        for size_bytes in [packets, flags]:
            kernel_fault(options, checks, mode, size_bytes)
    kernel_fault(options, checks, "partition", packets)
    kernel_fault(options, checks, "prepare", flags)
    for mode in ["host_wait", "host_partition", "host_ask", "host_ask_in_wait", "host_all", "host_mark"]:
        kernel_fault(options, checks, mode, flags)
    for mode in ["host_wait", "host_ask", "host_all"]:
        for link in ["mpi", "ucx"] if "ucx" in options.links else ["mpi"]:
            kernel_fault(options, checks, mode, flags, PARTITA_LINK=link)  # the host tells its kernels
    kernel_fault(options, checks, "host_mark", flags, PARTITA_GPU_COPY="engine")


def ranks_share_a_gpu():
    return os.environ.get("PARTITEST_SHARE_GPU", "0") not in ("", "0")


def skip_without_gpus(needed):
    gpus = pathlib.Path("/proc/driver/nvidia/gpus")
    count = len(list(gpus.iterdir())) if gpus.exists() else 0
    if count < needed:
        print(f"skipped: needs {needed} GPUs, this machine has {count}")
        sys.exit(77)


def group_gpu(options, checks):
    skip_without_gpus(1 if ranks_share_a_gpu() else 2)
    group_kernels(options, checks)


def group_wrong_gpu(options, checks):
    """Where the two GPUs share their memory the marks may even count; else CUDA ends the kernel. Either way the hosts come to
    an end by themselves, and the other rank keeps its GPU."""
    skip_without_gpus(2)
    for copy in ["kernel", "engine"]:
        where = f"a kernel on the wrong GPU, {copy}"
        job = Job(options, [], ranks=2, survive=True, PARTITA_TIMEOUT=str(TIMEOUT_S), PARTITA_GPU_COPY=copy)
        job.wait_until(lambda: len(job.end_codes()) == 2, 2 * TIMEOUT_S + 2 * MARGIN_S)
        told = survivors(job)
        expect_good_end(checks, job, [0, 1], where)
        job.end(time.monotonic() - job.begin + 0.1)
        checks.expect("rank 0 Prequest_create returned MPI_SUCCESS" in job.output, f"{where}: no device request", job)
        kernel = re.search(r"rank 0 kernel: (.*)", job.output)
        checks.expect(kernel is not None, f"{where}: the kernel of rank 0 did not end", job)
        for r in range(2):
            seconds, sentence = told.get(r, (None, ""))
            checks.expect(seconds is not None and seconds < TIMEOUT_S + 3, f"{where}: rank {r} was told after {seconds} s", job)
            checks.expect(f"rank {r} Finalize returned MPI_SUCCESS" in job.output, f"{where}: rank {r} did not finalise", job)
        if kernel and kernel[1] != "no error":
            checks.expect("rank 0 survives: class 0 " not in job.output, f"{where}: rank 0 was told of no error", job)
        checks.expect("rank 1 computes 144" in job.output, f"{where}: rank 1 has lost its GPU", job)
        print(f"done: {where}: {kernel and kernel[1]}; rank 0 was told: {told.get(0)}; rank 1: {told.get(1)}", flush=True)


def chunk_job(options, action, victim, timeout_s):
    """A job of two ranks, of which `victim` is struck while it copies a chunk; skips the group where none does."""
    job = Job(options, [action, str(victim)], ranks=2, survive=True, PARTITA_TIMEOUT=str(timeout_s), PARTITA_WARN_AFTER="1",
              PARTITA_LINK="direct")
    job.wait_until(lambda: "strikes" in job.output or "shares no copies" in job.output, TIMEOUT_S + 2 * MARGIN_S)
    if "shares no copies" in job.output:
        job.end(time.monotonic() - job.begin + 0.1)
        print("skipped: the kernel does not let the ranks read each other's memory")
        sys.exit(77)
    return job


def continue_victim(job):
    struck = re.search(r"pid (\d+) strikes", job.output)
    if struck:
        os.kill(int(struck[1]), signal.SIGCONT)


def chunk_fault(options, checks, action, victim):
    """The other rank is told in time. A rank that was stopped for too long goes on: it is told as well, and takes nothing that
    the other has written into its buffer since for what was sent."""
    where = f"{action} of rank {victim} within a chunk"
    job = chunk_job(options, action, victim, TIMEOUT_S)
    other = 1 - victim
    job.wait_until(lambda: other in survivors(job), time.monotonic() - job.begin + TIMEOUT_S + MARGIN_S)
    if action == "stop":
        continue_victim(job)
        job.wait_until(lambda: victim in survivors(job), time.monotonic() - job.begin + TIMEOUT_S + MARGIN_S)
    told = survivors(job)
    job.end(time.monotonic() - job.begin + 0.1)
    checks.expect(f"rank {victim} pid" in job.output, f"{where}: the fault did not strike", job)
    seconds, sentence = told.get(other, (None, ""))
    checks.expect(seconds is not None and seconds < TIMEOUT_S + 3, f"{where}: rank {other} was told after {seconds} s", job)
    checks.expect(f"rank {victim}" in sentence, f"{where}: rank {other} was told: {sentence}", job)
    if action == "stop" and victim == 1:  # where it was killed, the sender's next copy may fail before
        # Open MPI keeps 255 characters of a sentence.
        checks.expect("bytes are still" in sentence, f"{where}: not told that the receiver holds bytes: {sentence}", job)
    if action == "stop":
        checks.expect(f"rank {other}" in told.get(victim, (None, ""))[1], f"{where}: rank {victim} heard nothing", job)
    checks.expect("wrong bytes" not in job.output, f"{where}: wrong bytes arrived", job)
    print(f"done: {where}: rank {other} after {seconds} s", flush=True)


def chunk_pause(options, checks, victim):
    """A rank that is stopped within a chunk, but not for too long: the other waits, and all ends well."""
    where = f"pause of rank {victim} within a chunk"
    job = chunk_job(options, "stop", victim, 60)
    job.wait_until(lambda: "has waited" in job.output, time.monotonic() - job.begin + MARGIN_S)
    continue_victim(job)
    job.wait_until(lambda: job.output.count("ends well") == 2, time.monotonic() - job.begin + 2 * MARGIN_S)
    job.end(time.monotonic() - job.begin + MARGIN_S)
    checks.expect("has waited" in job.output, f"{where}: no rank explained its wait", job)
    checks.expect(job.output.count("ends well") == 2, f"{where}: not both ranks end well", job)
    checks.expect("wrong bytes" not in job.output, f"{where}: wrong bytes arrived", job)
    print(f"done: {where}", flush=True)


def group_chunk(options, checks):
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        print(f"skipped: copies are shared where each rank has a core, and two ranks have {cores} here")
        sys.exit(77)
    for victim in range(2):
        for action in ["kill", "stop"]:
            chunk_fault(options, checks, action, victim)
        chunk_pause(options, checks, victim)


GROUPS = {"kill": group_kill, "stop": group_stop, "slow": group_slow, "settings": group_settings,
          "finalize": group_finalize, "fatal": group_fatal, "gpu": group_gpu, "wrong_gpu": group_wrong_gpu, "kernels": group_kernels, "chunk": group_chunk}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--mpiexec-flags", default="")
    parser.add_argument("--probe", required=True)
    parser.add_argument("--links", default="auto,mpi")
    parser.add_argument("--ucx-version", default="")
    parser.add_argument("group", choices=sorted(GROUPS))
    options = parser.parse_args()
    options.mpiexec_flags = options.mpiexec_flags.split()
    options.links = options.links.split(",")
    options.ucx_version = tuple(int(number) for number in options.ucx_version.split(".") if number)
    checks = Checks()
    GROUPS[options.group](options, checks)
    print(f"{checks.failed} checks failed" if checks.failed else "all passed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
