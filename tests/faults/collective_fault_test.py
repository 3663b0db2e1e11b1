"""A rank is killed before a collective that goes from GPU to GPU, or within it (collective_probe.cpp): what the others are told."""

import dataclasses

import pytest

from jobs import MARGIN_S, Job

VICTIM = 1
OTHERS = [0, 2]
FAR_TIMEOUT_S = 60  # the death is noticed, not the time limit


@dataclasses.dataclass(frozen=True)
class Death:
    stage: str
    form: str

    def __str__(self):
        return f"{self.stage}-{self.form}"

    def run(self, given):
        job = Job(given, [self.stage, self.form], 3, survive=True, PARTITA_GPU_AWARE="on", PARTITA_PEER_COLLECTIVES="65536", PARTITA_TIMEOUT=str(FAR_TIMEOUT_S), UCX_TLS="tcp,self")
        job.wait_until(lambda: all(rank in job.end_codes() for rank in OTHERS), 2 * MARGIN_S)
        return job.end_now()


@pytest.mark.parametrize("case", [Death(stage, form) for stage in ("before", "within") for form in ("blocking", "nonblocking")])
def test_the_other_ranks_are_told_who_has_died(case, job):
    """One of them may hear it from the other, which has given the call up."""
    job.expect_good_end(OTHERS)
    assert f"rank {VICTIM} pid" in job.output, f"the fault did not strike; {job.tail()}"
    assert "went through host memory" not in job.output, job.tail()
    told = {rank: job.told.get(rank, (None, "nothing")) for rank in OTHERS}
    for rank, (seconds, sentence) in told.items():
        assert seconds is not None and seconds < MARGIN_S, f"rank {rank} was told after {seconds} s; {job.tail()}"
        assert f"rank {VICTIM} has ended" in sentence or "has given up the call" in sentence, f"rank {rank} was told: {sentence}"
    assert any(f"rank {VICTIM} has ended" in sentence for _, sentence in told.values()), told
    print(told)
