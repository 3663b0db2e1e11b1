"""Kernels that wait for a rank that is killed, on GPUs (gpu_probe.cu) and as threads on CPUs (thread_probe.cpp), and kernels on
the wrong GPU (wrong_gpu_probe.cu)."""

import dataclasses
import re

import pytest

from given import Given
from gpus import gpu_count, ranks_share_a_gpu
from jobs import MARGIN_S, SLACK_S, TIMEOUT_S, Job

VICTIM = 1
# Kernels wait this long: enough to tell a release by the host from the kernel's own time limit.
KERNEL_TIMEOUT_S = 30
ERR_ABORTED = 10  # PARTITA_DEVICE_ERR_ABORTED
PACKETS, FLAGS = 64, 65536  # bytes: how they travel
HOST_MODES = ["host_wait", "host_partition", "host_ask", "host_ask_in_wait", "host_bcast", "host_all", "host_mark"]


@dataclasses.dataclass(frozen=True)
class KernelFault:
    """Rank 1 of two is killed; a kernel of rank 0 waits for it, asks for what it does not send any more, or marks."""
    mode: str
    size_bytes: int
    environment: tuple = ()

    def __str__(self):
        return "-".join([self.mode, str(self.size_bytes), *(f"{name}={value}" for name, value in self.environment)])

    def run(self, given):
        job = Job(given, [self.mode, str(self.size_bytes)], 2, survive=True, PARTITA_TIMEOUT=str(KERNEL_TIMEOUT_S),
                  **dict(self.environment))
        job.wait_until(lambda: 0 in job.end_codes(), KERNEL_TIMEOUT_S + 2 * MARGIN_S)
        return job.end_now()


@dataclasses.dataclass(frozen=True)
class WrongGpu:
    copy: str

    def __str__(self):
        return self.copy

    def run(self, given):
        job = Job(given, [], 2, survive=True, PARTITA_TIMEOUT=str(TIMEOUT_S), PARTITA_GPU_COPY=self.copy)
        job.wait_until(lambda: len(job.end_codes()) == 2, 2 * TIMEOUT_S + 2 * MARGIN_S)
        return job.end_now()


def kernel_cases(links):
    for mode in ["wait", "ask", "exchange"]:
        for size_bytes in [PACKETS, FLAGS]:
            yield KernelFault(mode, size_bytes)
    yield KernelFault("partition", PACKETS)
    yield KernelFault("prepare", FLAGS)
    for mode in HOST_MODES:
        yield KernelFault(mode, FLAGS)
    for mode in ["host_wait", "host_ask", "host_all"]:
        for link in links[1:]:
            yield KernelFault(mode, FLAGS, (("PARTITA_LINK", link),))  # the host tells its kernels
    yield KernelFault("host_mark", FLAGS, (("PARTITA_GPU_COPY", "engine"),))


def why_not_on_gpus(case):
    needed = 1 if ranks_share_a_gpu() else 2
    if gpu_count() < needed:
        return f"needs {needed} GPUs, this machine has {gpu_count()}"
    return None


def why_not_shared(case):
    if case.mode == "exchange" and ranks_share_a_gpu():
        return ("kernels that store into the dead rank's memory: of ranks that share a GPU under the multi-process service it goes "
                "with its process, and the stores fail")
    return None


def pytest_generate_tests(metafunc):
    """Those that a kernel waits for may be reached by each link that was built. What is skipped here starts no job."""
    links = Given(metafunc.config).get("links", "auto,mpi").split(",")
    hindrances = {test_threads_are_released_from_a_dead_rank: [why_not_shared],
                  test_kernels_on_gpus_are_released_from_a_dead_rank: [why_not_on_gpus, why_not_shared]}
    if metafunc.function in hindrances:
        cases = []
        for case in kernel_cases(links):
            reason = next(filter(None, (why_not(case) for why_not in hindrances[metafunc.function])), None)
            cases.append(pytest.param(case, marks=pytest.mark.skip(reason=reason) if reason else ()))
        metafunc.parametrize("case", cases)


def expect_release(case, job, limit_s):
    """Those that wait for the dead are released, whoever opens the epochs and however they wait; and nobody else."""
    job.expect_good_end([0])
    strikes = f"rank {VICTIM} pid"
    assert strikes in job.output, f"the fault did not strike; {job.tail()}"
    ended = re.search(r"rank 0 kernel ended: code (-?\d+)", job.output)
    assert ended is not None, f"the kernel of rank 0 did not end; {job.tail()}"
    expected = 0 if case.mode in ("host_mark", "host_all") else ERR_ABORTED
    assert int(ended[1]) == expected, f"the kernel ended with code {ended[1]}, not {expected}; {job.tail()}"
    expect_times(case, job, strikes, limit_s)
    _, sentence = job.told.get(0, (None, ""))
    if case.mode == "host_all":
        assert "survives: class 0 " in job.output, f"all had come, but rank 0 was told: {sentence}; {job.tail()}"
    else:
        # UCX may notice a lost connection before the library looks whether the process lives.
        ways = [f"rank {VICTIM} has ended"] + [f"lost rank {VICTIM}"] * (("PARTITA_LINK", "ucx") in case.environment)
        assert any(way in sentence for way in ways), f"rank 0 was told: {sentence}; {job.tail()}"
    assert "rank 0 computes 144" in job.output, f"rank 0 has lost its GPU; {job.tail()}"
    assert "rank 0 frees: MPI_SUCCESS" in job.output, f"rank 0 could not free its requests; {job.tail()}"


def expect_times(case, job, strikes, limit_s):
    # Where all had come, the kernel is launched long after the death. Where it only marks, its host looks for its end after its
    # own wait.
    awaits = case.mode != "host_all"
    for what, line in [("the kernel ended", "rank 0 kernel ended"), ("rank 0 was told", "rank 0 survives")]:
        seconds = job.time_between(strikes, line)
        assert seconds is not None and (seconds < limit_s or not awaits), \
            f"{what} {seconds} s after the death of rank {VICTIM}; {job.tail()}"
        print(f"{what} {seconds:.2f} s after the death" if awaits else "nobody had to wait")


def test_threads_are_released_from_a_dead_rank(case, job):
    """The guide promises about a second; kernels on CPU threads run in crowded machines too."""
    expect_release(case, job, limit_s=15)


def test_kernels_on_gpus_are_released_from_a_dead_rank(case, job):
    expect_release(case, job, limit_s=3)


@pytest.mark.skipif(gpu_count() < 2, reason=f"needs 2 GPUs, this machine has {gpu_count()}")
@pytest.mark.parametrize("case", [WrongGpu("kernel"), WrongGpu("engine")])
def test_a_kernel_on_the_wrong_gpu_ends_and_harms_nobody(case, job):
    """Where the two GPUs share their memory the marks may even count; else CUDA ends the kernel. Either way the hosts come to an
    end by themselves, and the other rank keeps its GPU."""
    job.expect_good_end([0, 1])
    assert "rank 0 Prequest_create returned MPI_SUCCESS" in job.output, f"no device request; {job.tail()}"
    kernel = re.search(r"rank 0 kernel: (.*)", job.output)
    assert kernel is not None, f"the kernel of rank 0 did not end; {job.tail()}"
    for rank in range(2):
        seconds, _ = job.told.get(rank, (None, ""))
        assert seconds is not None and seconds < TIMEOUT_S + SLACK_S, f"rank {rank} was told after {seconds} s; {job.tail()}"
        assert f"rank {rank} Finalize returned MPI_SUCCESS" in job.output, f"rank {rank} did not finalise; {job.tail()}"
    if kernel[1] != "no error":
        assert "rank 0 survives: class 0 " not in job.output, f"rank 0 was told of no error; {job.tail()}"
    assert "rank 1 computes 144" in job.output, f"rank 1 has lost its GPU; {job.tail()}"
    print(f"{kernel[1]}; rank 0 was told: {job.told.get(0)}; rank 1: {job.told.get(1)}")
