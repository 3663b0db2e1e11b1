"""When ./dev gpu-test starts NVIDIA's multi-process service, and that it stops it however the run ends. Stand-ins play CTest,
CMake and the service's control program; a folder plays the list of GPUs."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import dev_script

LIMIT_S = 60  # a busy machine starts a Python in seconds
CONTROL_NAME = "nvidia-cuda-mps-control"

# Both write what they were called with to the file STAND_IN_LOG, a line each.
RECORD = """#!{python} -S
import json, os, pathlib, sys, time

def record(**what):
    variables = {{name: value for name, value in os.environ.items() if name.startswith(("CUDA_MPS", "PARTITEST_SHARE"))}}
    with open(os.environ["STAND_IN_LOG"], "a") as log:
        log.write(json.dumps({{**what, "variables": variables}}) + "\\n")
"""
CONTROL = RECORD + """
words = sys.argv[1:] or sys.stdin.read().split()
pipes = pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
record(control=words, pipes=pipes.is_dir(), logs=pathlib.Path(os.environ["CUDA_MPS_LOG_DIRECTORY"]).is_dir())
if words == ["-d"] and "STAND_IN_REFUSES" in os.environ:
    print("An instance of this daemon is already running")
    sys.exit(1)
"""
CTEST = RECORD + """
if "--show-only" in sys.argv:
    print("  Test  #1: a\\n  Test #10: b\\n\\nTotal Tests: 2")
    sys.exit(0)
record(ctest=sys.argv[1:])
if "STAND_IN_SLEEPS" in os.environ and "PARTITEST_SHARE_GPU" in os.environ:
    time.sleep(60)
status = "fail" if "STAND_IN_FAILS" in os.environ else "run"
report = sys.argv[sys.argv.index("--output-junit") + 1]
pathlib.Path(report).write_text(f'<testsuite><testcase name="a" status="{{status}}"/></testsuite>')
sys.exit(status == "fail")
"""


class Place:
    """A folder with stand-ins, GPUs and a build folder; runs ./dev gpu-test there."""

    def __init__(self, folder, gpus, control=True):
        self.folder = folder
        self.log = folder / "log"
        for name in ["tools", "build", "gpus", *(f"gpus/{number}" for number in range(gpus))]:
            (folder / name).mkdir()
        (folder / "build/CMakeCache.txt").touch()
        for name, text in {"ctest": CTEST, "cmake": RECORD, **({CONTROL_NAME: CONTROL} if control else {})}.items():
            (folder / "tools" / name).write_text(text.format(python=sys.executable))
            (folder / "tools" / name).chmod(0o755)

    def start(self, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("CUDA_MPS", "PARTITEST", "STAND_IN"))}
        environment.update(variables, STAND_IN_LOG=str(self.log), PATH=f"{self.folder / 'tools'}{os.pathsep}{os.defpath}")
        return subprocess.Popen([sys.executable, "-S", dev_script.__file__, "gpu-test", str(self.folder)], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, **variables):
        process = self.start(**variables)
        output, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, output

    def calls(self, kind):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [call for call in map(json.loads, lines) if kind in call]

    def order(self):
        """What was called: ctest, ctest on shared GPUs, and the service's starts and ends."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [" ".join(call["control"]) if "control" in call else
                "shared" if "PARTITEST_SHARE_GPU" in call["variables"] else "own" for call in lines]


@pytest.fixture
def place(tmp_path, request):
    """A place with one GPU and all stand-ins, or as the parameter says."""
    return Place(tmp_path, **{"gpus": 1, **getattr(request, "param", {})})


def test_on_one_gpu_the_service_runs_for_the_shared_part_only(place):
    code, output = place.run()
    assert code == 0, output
    assert place.order() == ["own", "-d", "shared", "quit"]
    own, shared = place.calls("ctest")
    more = "^ranks(2|3|4|5|6|7|8)$"
    assert own["ctest"][-2:] == ["-LE", more] and shared["ctest"][-2:] == ["-L", more], "the parts are one whole"
    started, ended = place.calls("control")
    assert started["pipes"] and started["logs"], "the service finds its folders"
    pipes = started["variables"]["CUDA_MPS_PIPE_DIRECTORY"]
    assert all(call["variables"]["CUDA_MPS_PIPE_DIRECTORY"] == pipes for call in (shared, ended)), "all speak by the same folder"
    assert not pathlib.Path(pipes).exists(), "the folder of the pipes goes with the run"
    assert own["variables"] == {}, "the other part knows nothing of the service"


def test_a_failed_test_is_a_failure_and_the_service_is_stopped(place):
    code, output = place.run(STAND_IN_FAILS="1")
    assert code == 1, output
    assert place.order() == ["own", "-d", "shared", "quit"]


def test_a_refusal_is_a_reason_to_skip_and_the_tests_run_without_the_service(place):
    code, output = place.run(STAND_IN_REFUSES="1")
    assert code == 0 and "already running" in output
    assert place.order() == ["own", "-d", "quit", "own"]


@pytest.mark.skipif(any(pathlib.Path(folder, CONTROL_NAME).exists() for folder in ("/usr/bin", "/usr/local/nvidia/bin")),
                    reason=f"{CONTROL_NAME} is installed where it is always looked for")
@pytest.mark.parametrize("place", [{"control": False}], indirect=True, ids=["no_control"])
def test_a_missing_service_is_told_and_the_tests_run_without_it(place):
    code, output = place.run()
    assert code == 0 and f"{CONTROL_NAME} is not on this machine" in output
    assert place.order() == ["own", "own"]


@pytest.mark.parametrize("place", [{"gpus": 8}], indirect=True, ids=["8_gpus"])
def test_no_service_runs_where_each_rank_has_a_gpu(place):
    code, output = place.run()
    assert code == 0, output
    assert place.order() == ["own"]


def test_the_service_of_the_user_is_left_alone(place):
    code, output = place.run(PARTITEST_SHARE_GPU="1")
    assert code == 0, output
    assert place.order() == ["shared"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_run_stops_the_service(place, number):
    process = place.start(STAND_IN_SLEEPS="1")
    deadline = time.monotonic() + LIMIT_S
    while len(place.calls("ctest")) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode != 0, f"an interrupted run has not passed:\n{output}"
    assert place.order() == ["own", "-d", "shared", "quit"]
