"""The work of the app fft fails on a rank, or on all, while its exchange is under way (fft_probe.cpp): the job ends with a
sentence, whatever of the exchange goes on meanwhile."""

import dataclasses
import re

from given import Given
from jobs import MARGIN_S, Job

RANKS = 3
VICTIM = 1
SENTENCE = r"partita: rank (\d+): it fails on purpose\."
# What a launcher or a library says of a rank that has ended in another way.
OTHERWISE = re.compile(r"segmentation|bus error|signal|sanitizer|terminate called|fatal error|probe: rank \d+ ends well", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Failure:
    stage: str
    exchange: str
    victim: str
    link: str = "auto"

    def __str__(self):
        return f"{self.exchange}-{self.stage}-{self.victim}-{self.link}"

    def run(self, given):
        return Job(given, [self.stage, self.exchange, self.victim], RANKS, PARTITA_LINK=self.link,
                   PARTITA_TIMEOUT="60").end(2 * MARGIN_S)


def pytest_generate_tests(metafunc):
    """The links are those that were built."""
    links = Given(metafunc.config).get("links", "auto,mpi").split(",")
    one = str(VICTIM)
    cases = [*(Failure(stage, "partitioned", one, link) for link in links for stage in ("begin", "pack", "unpack")),
             Failure("pack", "partitioned", "all"), Failure("pack", "alltoall", one), Failure("unpack", "alltoallv", one)]
    metafunc.parametrize("case", cases)


def test_the_job_ends_with_a_sentence(case, job):
    assert job.code is not None, f"the job hangs; {job.tail()}"
    if case.link == "ucx":
        job.skip_where_ucx_has_ended([rank for rank in range(RANKS) if rank != VICTIM])
    assert job.code == 1, f"the job ended with code {job.code}; {job.tail()}"
    told = [int(rank) for rank in re.findall(SENTENCE, job.output)]
    expected = set(range(RANKS)) if case.victim == "all" else {VICTIM}
    assert told and set(told) <= expected and len(told) == len(set(told)), job.tail()
    assert not OTHERWISE.search(job.output), job.tail()
