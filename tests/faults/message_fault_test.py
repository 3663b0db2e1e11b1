"""A rank is killed while a message is offered to it or by it (message_probe.cpp): what the other one is told. And MPI_Finalize with such messages under way."""

import dataclasses

import pytest

from jobs import MARGIN_S, Job

VICTIM = 1
FAR_TIMEOUT_S = 60  # the death is noticed, not the time limit


def job_of(given, stage):
    return Job(given, [stage], 3, survive=True, PARTITA_GPU_AWARE="on", PARTITA_PEER_MESSAGES="65536", PARTITA_TIMEOUT=str(FAR_TIMEOUT_S), UCX_TLS="tcp,self")


@dataclasses.dataclass(frozen=True)
class Death:
    stage: str

    def __str__(self):
        return self.stage

    def run(self, given):
        job = job_of(given, self.stage)
        job.wait_until(lambda: 0 in job.end_codes(), 2 * MARGIN_S)
        return job.end_now()


@dataclasses.dataclass(frozen=True)
class End:
    def __str__(self):
        return "finalize"

    def run(self, given):
        return job_of(given, "finalize").end(2 * MARGIN_S)


@pytest.mark.parametrize("case", [Death("unreceived"), Death("copying"), Death("staging")])
def test_the_other_rank_is_told_who_has_died(case, job):
    job.expect_good_end([0])
    assert f"rank {VICTIM} pid" in job.output, f"the fault did not strike; {job.tail()}"
    seconds, sentence = job.told.get(0, (None, "nothing"))
    assert seconds is not None and seconds < MARGIN_S, f"rank 0 was told after {seconds} s; {job.tail()}"
    assert f"rank {VICTIM} has ended" in sentence, f"rank 0 was told: {sentence}"


@pytest.mark.parametrize("case", [End()])
def test_what_was_sent_arrives_from_ranks_that_have_come_to_their_end(case, job):
    assert job.output.count("has received") == 3, job.tail()
