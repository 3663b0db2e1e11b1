"""Ranks that are killed, stopped or slow, bad settings, what is left at MPI_Finalize, and fatal errors: what the other ranks
say, and that they end well. The jobs run the program of probe.cpp."""

import dataclasses
import re

import pytest

from given import Given
from jobs import MARGIN_S, SLACK_S, TIMEOUT_S, Job

STAGES = ["before_init", "after_init", "after_start", "mid_epoch", "in_wait"]
RANKS = 3
VICTIM = 1
OTHERS = [0, 2]
LIMIT_S = 30  # for a job that ends by itself
UCX_UNPACKS_KEYS_OF_THE_DEAD = (1, 22)  # the oldest seen to do so without harm
KNOWN_SETTINGS = ["PARTITA_LINK", "PARTITA_PARTITIONS", "PARTITA_GPU_COPY", "PARTITA_GPU_AWARE", "PARTITA_PEER_COLLECTIVES", "PARTITA_PEER_MESSAGES", "PARTITA_PROGRESS", "PARTITA_WARN_AFTER",
                  "PARTITA_TIMEOUT", "PARTITA_TRACE", "PARTITA_TUNING", "PARTITA_SLOT_LIMIT", "PARTITA_FIRST_EPOCH", "PARTITA_VERBOSE", "PARTITA_NODES"]
BAD_SETTINGS = [("PARTITA_LINK", "bogus"), ("PARTITA_TIMEOUT", "soon"), ("PARTITA_PARTITIONS", "0"), ("PARTITA_PROGRESS", "maybe"),
                ("PARTITA_WARN_AFTER", "-1"), ("PARTITA_FIRST_EPOCH", "4294967296"), ("PARTITA_GPU_COPY", "dma"), ("PARTITA_GPU_AWARE", "yes"), ("PARTITA_PEER_COLLECTIVES", "on"), ("PARTITA_PEER_MESSAGES", "251"),
                ("PARTITA_SLOT_LIMIT", "-1"), ("PARTITA_NODES", "0")]


@dataclasses.dataclass(frozen=True)
class Fault:
    """`action` strikes the victim at `stage`."""
    action: str
    stage: str
    link: str
    traffic: str = "ring"

    def __str__(self):
        return f"{self.traffic}-{self.stage}-{self.link}"

    @property
    def timeout_s(self):
        """The others hear of a killed rank in one or two seconds, before the time limit that ends waits for a stopped one."""
        return TIMEOUT_S + 1 if self.action == "kill" else TIMEOUT_S

    def run(self, given):
        job = Job(given, [self.traffic, self.stage, self.action, str(VICTIM)], RANKS, survive=True, PARTITA_TIMEOUT=str(self.timeout_s),
                  PARTITA_WARN_AFTER="1", PARTITA_LINK=self.link)
        job.wait_until(lambda: len(job.pids()) == RANKS, LIMIT_S)  # a crowd may start slowly
        job.wait_until(lambda: all(rank in job.survivors() and rank in job.end_codes() for rank in OTHERS),
                       job.seconds() + self.timeout_s + MARGIN_S)
        return job.end_now()


@dataclasses.dataclass(frozen=True)
class Slow:
    stage: str
    link: str

    def __str__(self):
        return f"{self.stage}-{self.link}"

    def run(self, given):
        return Job(given, ["ring", self.stage, "slow", str(VICTIM)], RANKS, PARTITA_TIMEOUT="20", PARTITA_WARN_AFTER="0.5",
                   PARTITA_LINK=self.link).end(40)


class Plain:
    """A job of two ranks that ends by itself."""

    def __init__(self, *arguments, **environment):
        self.arguments, self.environment = list(arguments), environment

    def run(self, given):
        return Job(given, self.arguments, 2, **self.environment).end(LIMIT_S)


def plain(*arguments, **environment):
    """The case of a test that has one job."""
    return pytest.mark.parametrize("case", [Plain(*arguments, **environment)], ids=[arguments[0]])


def kill_case(stage, link, ucx_version):
    """Skipped where this UCX may end others with a sentence of no kind."""
    marks = ()
    if link == "ucx" and stage != "before_init" and ucx_version < UCX_UNPACKS_KEYS_OF_THE_DEAD:
        marks = pytest.mark.skip(reason="this UCX may end a rank that unpacks the key of a dying one (docs/design/link-ucx.md)")
    return pytest.param(Fault("kill", stage, link), marks=marks)


def skip_what_ucx_has_ended(case, job):
    """Then the job shows nothing about Partita."""
    if case.link == "ucx" and case.stage != "before_init":
        job.skip_where_ucx_has_ended(OTHERS)


def pytest_generate_tests(metafunc):
    """The links are those that were built."""
    given = Given(metafunc.config)
    links = given.get("links", "auto,mpi").split(",")
    places = [(stage, link) for link in links for stage in STAGES]
    ucx_version = tuple(int(number) for number in given.get("ucx_version", "").split(".") if number)
    # A collective has the transfers of the ring; what it adds is the same over every link.
    allreduces = [Fault(action, stage, "auto", "allreduce") for action in ("kill", "stop") for stage in STAGES]
    cases = {test_the_others_report_a_killed_rank: [*(kill_case(*place, ucx_version) for place in places), *allreduces[:len(STAGES)]],
             test_the_others_report_a_stopped_rank: [*(Fault("stop", *place) for place in places), *allreduces[len(STAGES):]],
             test_the_others_wait_for_a_slow_rank: [Slow(*place) for place in places]}
    if metafunc.function in cases:
        metafunc.parametrize("case", cases[metafunc.function])


def expect_reports(case, job):
    job.expect_good_end(OTHERS)
    assert f"rank {VICTIM} pid" in job.output, f"the fault did not strike; {job.tail()}"
    for rank in OTHERS:
        assert rank in job.told, f"rank {rank} did not report within {case.timeout_s + MARGIN_S} s; {job.tail()}"
    for rank, (seconds, sentence) in job.told.items():
        assert seconds < case.timeout_s + SLACK_S, f"rank {rank} waited {seconds} s; {job.tail()}"
        # A rank may wait for a survivor that waits for the victim.
        assert any(f"rank {other}" in sentence for other in range(RANKS) if other != rank), f"rank {rank}: {sentence}; {job.tail()}"
    assert any(f"rank {VICTIM}" in sentence for _, sentence in job.told.values()), f"nobody names the victim; {job.tail()}"
    print("; ".join(f"rank {rank} after {job.told[rank][0]} s" for rank in sorted(job.told)))


def test_the_others_report_a_killed_rank(case, job):
    skip_what_ucx_has_ended(case, job)
    expect_reports(case, job)


def test_the_others_report_a_stopped_rank(case, job):
    expect_reports(case, job)


def test_the_others_wait_for_a_slow_rank(case, job):
    """A slow rank is no error: the others wait, explain what they wait for, and all ends well."""
    assert job.code == 0, job.tail()
    assert job.count("ends well") == RANKS, job.tail()
    explained = [line for line in job.lines if "has waited" in line]
    assert explained, f"no rank explained its wait; {job.tail()}"
    for word in ["rank 1", "tag 1", "epoch", "partitions"]:
        assert any(word in line for line in explained), f"no explanation names '{word}'; {job.tail()}"


# ---- Settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [Plain("normal", **{name: value}) for name, value in BAD_SETTINGS],
                         ids=[f"{name}={value}" for name, value in BAD_SETTINGS])
def test_settings_a_malformed_one_ends_the_job_at_its_start(case, job):
    """One rank prints why, with the list of the known ones."""
    (name, value), = case.environment.items()
    assert job.code not in (0, None), job.tail()
    assert "runs as" not in job.output, f"the program went on; {job.tail()}"
    assert job.count("the known settings are") == 1, f"not told by one rank; {job.tail()}"
    assert f"sets {name}={value}" in job.output, job.tail()
    for known in KNOWN_SETTINGS:
        assert known in job.output, f"{known} is missing in the list of known settings; {job.tail()}"


@plain("normal", PARTITA_BOGUS="1", PARTITA_LINKS="mpi")
def test_settings_unknown_ones_are_told_once(case, job):
    assert job.code == 0, f"an unknown setting ends the job; {job.tail()}"
    assert job.count("PARTITA_BOGUS") == 1, f"not told by one rank; {job.tail()}"
    assert "PARTITA_LINKS (is PARTITA_LINK meant?)" in job.output, f"the nearest known one is not named; {job.tail()}"


@plain("normal", PARTITA_ROOT="/opt", PARTITA_VERSION="1")
def test_settings_what_modules_set_is_left_alone(case, job):
    assert job.code == 0 and "PARTITA_" not in job.output, job.tail()


@plain("ring", "at_no_stage", "slow", "1", PARTITA_VERBOSE="1", PARTITA_LINK="mpi")
def test_settings_verbose_tells_how_the_job_runs_once(case, job):
    assert job.code == 0, job.tail()
    assert job.count(" ranks, ") == 1, f"versions and ranks are not told by one rank; {job.tail()}"
    for end in ["to rank 0", "to rank 1", "from rank 0", "from rank 1"]:
        assert job.count(f"requests {end} take link mpi: ") == 1, f"the link {end} is not told once; {job.tail()}"


@plain("normal", PARTITEST_ANYTHING="1")
def test_settings_variables_of_other_names_are_not_ours(case, job):
    assert job.code == 0, job.tail()


# ---- MPI_Finalize -----------------------------------------------------------------------------------------------------


@plain("live_finalize")
def test_finalize_tells_of_inactive_requests(case, job):
    assert job.code == 0, job.tail()
    assert job.count("returned MPI_SUCCESS") == 2, job.tail()
    assert job.count("1 partitioned request was never freed") == 2, f"passed silently; {job.tail()}"


@plain("incomplete_finalize")
def test_finalize_fails_with_incomplete_requests(case, job):
    assert "MPI_SUCCESS" not in job.output, f"passed silently; {job.tail()}"
    for rank in range(2):
        told = [line for line in job.lines if f"rank {rank} MPI_Finalize returned" in line]
        assert len(told) == 1 and "not complete" in told[0] and "send" in told[0], \
            f"rank {rank} got no sentence that says which; {job.tail()}"


@plain("unmatched_finalize")
def test_finalize_drains_unmatched_requests(case, job):
    assert job.code == 0, job.tail()
    assert job.count("returned MPI_SUCCESS") == 2, job.tail()


@pytest.mark.parametrize("case", [Plain("late_finalize", PARTITA_TIMEOUT="1", PARTITA_PROGRESS=progress)
                                  for progress in ["thread", "caller"]], ids=["thread", "caller"])
def test_finalize_tells_who_waits_for_a_late_rank(case, job):
    assert job.code == 0, job.tail()
    assert "rank 0 MPI_Finalize returned" in job.output and "PARTITA_TIMEOUT" in job.output, \
        f"the one that waited was not told; {job.tail()}"


# ---- MPI_ERRORS_ARE_FATAL ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case, words", [(Plain("fatal"), ["MPI_Pready: ", "4711"]), (Plain("fatal_abort"), ["MPI_Pready: ", "4711"]),
                                         (Plain("fatal_waitall"), ["MPI_Waitall: ", "sizes", "32 bytes"])],
                         ids=["fatal", "fatal_abort", "fatal_waitall"])
def test_fatal_errors_end_the_job_with_their_sentence(case, words, job):
    assert job.code not in (0, None), job.tail()
    assert "came back" not in job.output, f"MPI_ERRORS_ARE_FATAL returned; {job.tail()}"
    assert all(word in job.output for word in words), f"the sentence was not printed before the end; {job.tail()}"
    told = re.findall(rf"\[partita rank (\d)\] {words[0]}", job.output)
    assert len(told) == len(set(told)), f"a rank printed its sentence twice; {job.tail()}"
    for inner in ["call_errhandler", "Partita_", "[partita rank 0] Pready", "Wait_until"]:
        assert inner not in job.output, f"{inner} is no call of the program's; {job.tail()}"
