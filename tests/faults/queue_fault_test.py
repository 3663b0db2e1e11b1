"""A rank is killed while what another one has enqueued needs it (queue_probe.cpp): the stream goes on, and Queue_wait names the dead."""

import dataclasses

from given import Given
from jobs import MARGIN_S, Job

VICTIM = 1
FAR_TIMEOUT_S = 60  # the death is noticed, not the time limit
BY_ENGINE = ["receive", "send", "allreduce", "partitions"]
BY_STREAM = [*BY_ENGINE, "graph"]


@dataclasses.dataclass(frozen=True)
class Death:
    mode: str
    link: str

    def __str__(self):
        return f"{self.mode}-{self.link}"

    def run(self, given):
        job = Job(given, [self.mode], 2, survive=True, PARTITA_LINK=self.link, PARTITA_TIMEOUT=str(FAR_TIMEOUT_S), UCX_TLS="tcp,self")
        job.wait_until(lambda: 0 in job.end_codes(), 3 * MARGIN_S)
        return job.end_now()


def pytest_generate_tests(metafunc):
    """The engine runs what is enqueued over every link that was built; streams do over link direct."""
    links = Given(metafunc.config).get("links", "auto,mpi").split(",")
    cases = [Death(f"{where}_{what}", link) for where in ["host", "stream"] for what in BY_ENGINE for link in links]
    cases += [Death(f"far_{what}", "auto") for what in BY_ENGINE]
    cases += [Death(f"gpu_{what}", "auto") for what in BY_STREAM]
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases)


def test_a_queue_tells_who_has_died(case, job):
    job.skip_where_ucx_has_ended([0])
    job.expect_good_end([0])
    strikes = f"rank {VICTIM} pid"
    assert strikes in job.output, f"the fault did not strike; {job.tail()}"
    seconds, sentence = job.told.get(0, (None, "nothing"))
    assert seconds is not None and seconds < MARGIN_S, f"rank 0 was told after {seconds} s; {job.tail()}"
    # UCX may notice a lost connection before the library looks whether the process lives.
    ways = [f"rank {VICTIM} has ended"] + [f"lost rank {VICTIM}"] * (case.link == "ucx")
    assert any(way in sentence for way in ways), f"rank 0 was told: {sentence}; {job.tail()}"
    assert "rank 0 stream: goes on" in job.output, job.tail()
    if not case.mode.endswith("graph"):
        assert "rank 0 once more: class" in job.output and "rank 0 once more: class 0" not in job.output, f"the next epoch succeeds; {job.tail()}"
    for what in ["queue", "request"]:
        assert f"rank 0 frees the {what}: MPI_SUCCESS" in job.output, f"rank 0 could not free its {what}; {job.tail()}"
    print(f"rank 0 was told {job.time_between(strikes, 'rank 0 survives'):.2f} s after the death")
