"""What ./dev reads in CTest's report, and what it says at its end of the tests and cases that were skipped."""

import shutil
import subprocess
import sys

import pytest

from dev_script import load_dev

REPORT = """<testsuite>
<testcase name="early.ranks2.ucx" status="run" time="1.5"><system-out>[       OK ] Early.arrives (3 ms)
skipped: Early.wakes_a_kernel on rank 0: needs a GPU: there is none 
skipped: Early.wakes_a_kernel on rank 1: needs 2 GPUs
[  PASSED  ] 1 test.</system-out></testcase>
<testcase name="fault.kill" status="run" time="2"><system-out>
fault_test.py::test_killed[in_wait-ucx] SKIPPED (UCX itself may end a rank...) [ 50%]
skipped: test_killed[in_wait-ucx]: UCX may end a rank
skipped: test_killed[mid_epoch-ucx]: UCX may end a rank
=== 12 passed, 2 skipped in 0.1 s</system-out></testcase>
<testcase name="torch.async" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>
torch_test.py::test_torch SKIPPED (PyTorch...) [100%]
skipped: test_torch: PyTorch with CUDA is not there (python3: No module named 'torch')
=== 1 skipped in 0.1 s</system-out></testcase>
<testcase name="ordering.ranks2.direct" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>skipped: needs 2 GPUs, this machine has 0</system-out></testcase>
<testcase name="device_stream_cuda" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>stream_test.cpp:7: Skipped
no CUDA device

[  SKIPPED ] Stream.keeps_order (0 ms)</system-out></testcase>
<testcase name="silent" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
<testcase name="off" status="disabled"/>
<testcase name="layout" status="fail" time="0.5"><system-out>skipped: test_a: no matter
[ RUN      ] Layout.is_kept
layout_test.cpp:7: Failure
Expected equality of these values:
[rank 1] Value of: is_kept(it)
  Actual: false (it is gone)
[rank 1] Value of: is_kept(it)
it broke</system-out></testcase>
</testsuite>"""


@pytest.fixture(scope="module")
def dev():
    return load_dev()


@pytest.fixture
def leg(dev, tmp_path):
    (tmp_path / "ctest.xml").write_text(REPORT)
    leg = dev.Leg("tests, MPICH")
    dev.read_report(leg, tmp_path / "ctest.xml")
    return leg


def test_tests_are_counted_by_how_they_ended(leg):
    assert (leg.passed, leg.failed, leg.skipped_count()) == (2, 1, 5)
    assert leg.failed_names == ["layout"]
    assert "it broke" in leg.failures
    assert leg.times["early.ranks2.ucx"] == 1.5


def test_the_end_of_the_report_says_why_a_test_failed(dev, leg, capsys):
    assert leg.complaints == {"layout": ["[rank 1] Value of: is_kept(it)", "Actual: false (it is gone)"]}
    assert dev.finish([leg]) == 1
    assert ("failed in tests, MPICH: layout\n  layout:\n    [rank 1] Value of: is_kept(it)\n    Actual: false (it is gone)\n"
            "2 passed, 1 failed, 5 skipped\n") in capsys.readouterr().out


def test_of_an_output_without_a_complaint_the_last_lines_are_shown(dev):
    assert dev.complaints("1\n2\n3\n\nEXIT CODE: 139\n  Segmentation fault\n\n") == ["2", "3", "EXIT CODE: 139", "Segmentation fault"]
    assert dev.complaints("") == []


def test_a_skipped_test_has_its_own_reason_or_that_of_ctest(leg):
    assert leg.skipped == {"PyTorch with CUDA is not there (python3: No module named 'torch')": ["torch.async"],
                           "needs 2 GPUs, this machine has 0": ["ordering.ranks2.direct"],
                           "no CUDA device": ["device_stream_cuda"],
                           "SKIP_RETURN_CODE=77": ["silent"],
                           "disabled": ["off"]}


def test_skipped_cases_of_tests_that_passed_are_kept_by_their_reason(leg):
    assert leg.skipped_cases == {
        "needs a GPU: there is none": ["early.ranks2.ucx: Early.wakes_a_kernel on rank 0"],
        "needs 2 GPUs": ["early.ranks2.ucx: Early.wakes_a_kernel on rank 1"],
        "UCX may end a rank": ["fault.kill: test_killed[in_wait-ucx]", "fault.kill: test_killed[mid_epoch-ucx]"]}


def test_a_reason_with_a_colon_is_no_case(dev):
    assert dev.skipped_cases("skipped: unshare: not permitted\n") == [("", "unshare: not permitted")]


def test_the_report_has_one_line_for_each_leg_and_reason(dev, capsys):
    first, second = dev.Leg("tests, MPICH"), dev.Leg("tests, Open MPI")
    for number in range(6):
        first.skip("needs 2 GPUs", f"gpu{number}")
        first.skip_case("link ucx does not do it", f"early.ranks{number}: Early.case on rank 0")
    for number in range(4):
        second.skip_case("link ucx does not do it", f"late{number}: Late.case on rank 0")
    second.skip("nvcc is not on this machine", "the GPU parts")
    dev.print_skipped([first, second])
    assert capsys.readouterr().out.splitlines() == [
        "skipped in tests, MPICH: gpu0, gpu1, gpu2, gpu3 and 2 more: needs 2 GPUs",
        "cases skipped in tests, MPICH: early.ranks0: Early.case on rank 0, early.ranks1: Early.case on rank 0, "
        "early.ranks2: Early.case on rank 0, early.ranks3: Early.case on rank 0 and 2 more: link ucx does not do it",
        "skipped in tests, Open MPI: the GPU parts: nvcc is not on this machine",
        "cases skipped in tests, Open MPI: late0: Late.case on rank 0, late1: Late.case on rank 0, late2: Late.case on rank 0, "
        "late3: Late.case on rank 0: link ucx does not do it"]


def test_what_several_runs_of_ctest_skipped_is_one_leg(dev, leg):
    whole = dev.Leg("all")
    whole.add(leg)
    whole.add(leg)
    assert whole.skipped_cases["UCX may end a rank"] == 2 * ["fault.kill: test_killed[in_wait-ucx]", "fault.kill: test_killed[mid_epoch-ucx]"]
    assert whole.skipped["no CUDA device"] == ["device_stream_cuda", "device_stream_cuda"]


SKIPS = "import pytest\ndef test_a(): pytest.skip('needs 2 GPUs: there are none')\n"
PASSES = "def test_b(): print('moved 7 bytes')\n"
FAILS = "def test_c(): assert 1 == 2\n"


@pytest.mark.parametrize("text, code, skipped, shown", [
    (SKIPS, 77, [("test_a", "needs 2 GPUs: there are none")], False),
    (SKIPS + PASSES, 0, [("test_a", "needs 2 GPUs: there are none")], True),
    (SKIPS + PASSES + FAILS, 1, [("test_a", "needs 2 GPUs: there are none")], False),
    ("", 5, [], False)], ids=["skips", "passes", "fails", "holds_no_case"])
def test_what_pytest_prints_is_read_and_its_exit_code_is_that_of_an_entry(dev, sources, tmp_path, text, code, skipped, shown):
    for name in ("conftest.py", "pytest.ini"):
        shutil.copy(sources / "tests" / name, tmp_path)
    shutil.copytree(sources / "tests/support", tmp_path / "support", ignore=lambda *_: ["__pycache__"])
    (tmp_path / "some_test.py").write_text(text)
    ended = subprocess.run([sys.executable, "-m", "pytest", tmp_path / "some_test.py"], stdout=subprocess.PIPE, text=True)
    assert ended.returncode == code, ended.stdout
    assert dev.skipped_cases(ended.stdout) == skipped
    assert ("moved 7 bytes" in ended.stdout) == shown, "what passes is silent where something fails"
