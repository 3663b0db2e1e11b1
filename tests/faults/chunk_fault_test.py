"""A rank is killed or stopped in the very call by which it copies a chunk of a shared copy (chunk_probe.cpp). What the other is
told, and that no byte goes where it should not."""

import dataclasses
import os
import re
import signal

import pytest

from jobs import MARGIN_S, SLACK_S, TIMEOUT_S, Job

CORES = len(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(CORES < 2, reason=f"copies are shared where each rank has a core, and two ranks have {CORES} here")


def start(given, action, victim, timeout_s):
    """A job of two ranks, of which `victim` is struck while it copies a chunk, or which shares no copies."""
    job = Job(given, [action, str(victim)], 2, survive=True, PARTITA_TIMEOUT=str(timeout_s), PARTITA_WARN_AFTER="1",
              PARTITA_LINK="direct")
    job.wait_until(lambda: "strikes" in job.output or shares_nothing(job), TIMEOUT_S + 2 * MARGIN_S)
    return job


def shares_nothing(job):
    return "shares no copies" in job.output


def continue_victim(job):
    struck = re.search(r"pid (\d+) strikes", job.output)
    if struck:
        os.kill(int(struck[1]), signal.SIGCONT)


@dataclasses.dataclass(frozen=True)
class Fault:
    """A rank that was stopped for too long goes on once the other has reported."""
    action: str
    victim: int

    def __str__(self):
        return f"{self.action}-{self.victim}"

    def run(self, given):
        job = start(given, self.action, self.victim, TIMEOUT_S)
        if shares_nothing(job):
            return job.end_now()
        job.wait_until(lambda: 1 - self.victim in job.survivors(), job.seconds() + TIMEOUT_S + MARGIN_S)
        if self.action == "stop":
            continue_victim(job)
            job.wait_until(lambda: self.victim in job.survivors(), job.seconds() + TIMEOUT_S + MARGIN_S)
        return job.end_now()


@dataclasses.dataclass(frozen=True)
class Pause:
    """It goes on once the other has said that it waits."""
    victim: int

    def __str__(self):
        return str(self.victim)

    def run(self, given):
        job = start(given, "stop", self.victim, 60)
        if shares_nothing(job):
            return job.end_now()
        job.wait_until(lambda: "has waited" in job.output, job.seconds() + MARGIN_S)
        continue_victim(job)
        job.wait_until(lambda: job.count("ends well") == 2, job.seconds() + 2 * MARGIN_S)
        return job.end(job.seconds() + MARGIN_S)


@pytest.fixture(autouse=True)
def needs_shared_copies(job):
    if shares_nothing(job):
        pytest.skip("the kernel does not let the ranks read each other's memory")


@pytest.mark.parametrize("case", [Fault(action, victim) for victim in range(2) for action in ["kill", "stop"]])
def test_the_other_rank_is_told_in_time(case, job):
    """A rank that was stopped for too long is told as well, and takes nothing that the other has written into its buffer since for
    what was sent."""
    victim, other = case.victim, 1 - case.victim
    assert f"rank {victim} pid" in job.output, f"the fault did not strike; {job.tail()}"
    seconds, sentence = job.told.get(other, (None, ""))
    assert seconds is not None and seconds < TIMEOUT_S + SLACK_S, f"rank {other} was told after {seconds} s; {job.tail()}"
    assert f"rank {victim}" in sentence, f"rank {other} was told: {sentence}; {job.tail()}"
    if case.action == "stop" and victim == 1:  # where it was killed, the sender's next copy may fail before
        # Open MPI keeps 255 characters of a sentence.
        assert "of which bytes are" in sentence, f"not told that the receiver holds bytes: {sentence}; {job.tail()}"
    if case.action == "stop":
        assert f"rank {other}" in job.told.get(victim, (None, ""))[1], f"rank {victim} heard nothing; {job.tail()}"
    assert "wrong bytes" not in job.output, f"wrong bytes arrived; {job.tail()}"
    print(f"rank {other} after {seconds} s")


@pytest.mark.parametrize("case", [Pause(victim) for victim in range(2)])
def test_the_other_rank_waits_for_a_short_stop(case, job):
    assert "has waited" in job.output, f"no rank explained its wait; {job.tail()}"
    assert job.count("ends well") == 2, f"not both ranks end well; {job.tail()}"
    assert "wrong bytes" not in job.output, f"wrong bytes arrived; {job.tail()}"
