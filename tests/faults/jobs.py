"""Jobs in which one rank is killed, stopped or slow, or which misuse something on purpose: how they are started,
watched and ended. A case of the tests is an object whose run(given) starts a job and returns it when it has ended; the
jobs of all cases that were chosen run side by side, as many at once as `--given jobs_at_once=N` says, since they mostly
wait."""

import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

TIMEOUT_S = 2  # PARTITA_TIMEOUT where a rank does not come back
SLACK_S = 3  # from this limit to the error, on a crowded machine
MARGIN_S = 12  # for a job's start, and for a crowded machine

# Taken once: jobs start in threads of their own, while pytest changes a variable with each case.
VARIABLES = {name: value for name, value in os.environ.items() if not name.startswith("PARTITA_")}

# A rank that answers the last puts of a dead one UCX may end by itself. It pads the number of a process to five places.
UCX_ENDED = re.compile(r"\[[^]:]+:(\d+) *(?::\d+)+\] +ucp_request\.inl:\d+ +Fatal: unexpected error: Endpoint timeout")

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

    def __init__(self, given, arguments, ranks, survive=False, **environment):
        variables = {**VARIABLES, **environment}
        command = given.launcher(ranks)
        self.release = None
        if survive:
            self.release = os.path.join(tempfile.mkdtemp(prefix="partita-fault-"), "release")
            variables["RELEASE"] = self.release
            command += ["sh", "-c", KEEPER, "sh"]
        command += [given["probe"], *arguments]
        self.lines = []
        self.times = []  # of each line: when it came
        self.code = None  # once it has ended by itself: its exit code
        self.told = {}  # what the survivors had said before the job was ended
        self.codes_of_ranks = {}  # of those that had ended by themselves before
        self.begin = time.monotonic()
        self.process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, errors="replace", start_new_session=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.times.append(time.monotonic())
                self.lines.append(line.rstrip("\n"))

    @property
    def output(self):
        return "\n".join(self.lines)

    def time_between(self, first, second):
        """Seconds from the line with `first` in it to the one with `second`; None where one is missing."""
        came = [next((at for at, line in zip(self.times, self.lines) if words in line), None) for words in (first, second)]
        return None if None in came else came[1] - came[0]

    def seconds(self):
        """Since its start."""
        return time.monotonic() - self.begin

    def survivors(self):
        """Rank -> (seconds, sentence)."""
        found = re.findall(r"probe: rank (\d+) survives: class \d+ after ([0-9.]+) s: (.*)", self.output)
        return {int(rank): (float(seconds), sentence) for rank, seconds, sentence in found}

    def pids(self):
        return [int(n) for n in re.findall(r"runs as pid (\d+)", self.output)]

    def rank_of_pid(self):
        return {int(pid): int(rank) for rank, pid in re.findall(r"rank (\d+) runs as pid (\d+)", self.output)}

    def end_codes(self):
        """Rank -> exit code, of the ranks under a keeper that have ended."""
        rank_of = self.rank_of_pid()
        ended = re.findall(r"keeper: pid (\d+) ended with code (\d+)", self.output)
        return {rank_of[int(pid)]: int(code) for pid, code in ended if int(pid) in rank_of}

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
        """Lets the job end by itself, else ends it. `code` is its exit code then, None if it had to be ended."""
        if self.release:
            with open(self.release, "w", encoding="ascii"):
                pass
        try:
            self.code = self.process.wait(max(0.1, self.begin + limit_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        for pid in self.pids():
            if not self._is_probe(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.code is None:
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(2)
        if self.release:
            shutil.rmtree(os.path.dirname(self.release), ignore_errors=True)
        return self

    def end_now(self):
        """Notes what the survivors have said and how they have ended by themselves, then ends the job."""
        self.told = self.survivors()
        self.codes_of_ranks = self.end_codes()
        return self.end(self.seconds() + 0.1)

    @staticmethod
    def _is_probe(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return b"probe" in file.read()
        except OSError:
            return False

    def count(self, words):
        return self.output.count(words)

    def tail(self):
        """For the message of a failed check."""
        return "the job's last lines:\n" + "\n".join("    " + line for line in self.lines[-40:])

    def skip_where_ucx_has_ended(self, ranks):
        """Skips the test where UCX has ended one of these."""
        for ended in UCX_ENDED.finditer(self.output):
            if self.rank_of_pid().get(int(ended[1])) in ranks:
                pytest.skip(f"UCX itself has ended a rank that a dead one had put to (docs/design/link-ucx.md): {ended[0]}")

    def expect_good_end(self, ranks):
        """The survivors ended by themselves, and well."""
        for rank in ranks:
            assert rank in self.codes_of_ranks, f"rank {rank} has not ended; {self.tail()}"
            assert self.codes_of_ranks[rank] == 0, f"rank {rank} ended with code {self.codes_of_ranks[rank]}; {self.tail()}"


def start_all(items, given):
    """A future of the finished job for each item that has a case and is not skipped, by the item's id."""
    chosen = {item.nodeid: item.callspec.params["case"] for item in items
              if hasattr(item, "callspec") and "case" in item.callspec.params and not item.get_closest_marker("skip")}
    pool = concurrent.futures.ThreadPoolExecutor(int(given.get("jobs_at_once", "1")))
    return pool, {name: pool.submit(case.run, given) for name, case in chosen.items()}
