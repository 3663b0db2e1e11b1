"""Checks when ./dev gpu-test starts NVIDIA's multi-process service, and that it stops it however the run ends. Stand-ins play
CTest, CMake and the service's control program; a folder plays the list of GPUs.

    gpu_sharing_check.py SOURCES
"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SOURCES = pathlib.Path(sys.argv[1])
LIMIT_S = 60  # a busy machine starts a Python in seconds
failures = []

# Both write what they were called with to the file STAND_IN_LOG, a line each.
RECORD = """#!{python}
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
    print("Total Tests:", 3)
    sys.exit(0)
record(ctest=sys.argv[1:])
if "STAND_IN_SLEEPS" in os.environ and "PARTITEST_SHARE_GPU" in os.environ:
    time.sleep(60)
status = "fail" if "STAND_IN_FAILS" in os.environ else "run"
report = sys.argv[sys.argv.index("--output-junit") + 1]
pathlib.Path(report).write_text(f'<testsuite><testcase name="a" status="{{status}}"/></testsuite>')
sys.exit(status == "fail")
"""


def expect(condition, what):
    if not condition:
        failures.append(what)


class Place:
    """A folder with stand-ins, GPUs and a build folder; runs ./dev gpu-test there."""

    def __init__(self, folder, gpus, control=True):
        self.folder = folder
        self.log = folder / "log"
        for name in ["tools", "build", "gpus", *(f"gpus/{number}" for number in range(gpus))]:
            (folder / name).mkdir()
        (folder / "build/CMakeCache.txt").touch()
        for name, text in {"ctest": CTEST, "cmake": RECORD, **({"nvidia-cuda-mps-control": CONTROL} if control else {})}.items():
            (folder / "tools" / name).write_text(text.format(python=sys.executable))
            (folder / "tools" / name).chmod(0o755)

    def start(self, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("CUDA_MPS", "PARTITEST", "STAND_IN"))}
        environment.update(variables, STAND_IN_LOG=str(self.log), PATH=f"{self.folder / 'tools'}{os.pathsep}{os.defpath}")
        return subprocess.Popen([sys.executable, __file__, SOURCES, str(self.folder)], env=environment, text=True,
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


def run_gpu_test(folder):
    """This process is ./dev gpu-test among the stand-ins of `folder`."""
    loader = importlib.machinery.SourceFileLoader("dev", str(SOURCES / "dev"))
    dev = importlib.util.module_from_spec(importlib.util.spec_from_loader("dev", loader))
    loader.exec_module(dev)
    dev.VENV, dev.GPUS, dev.BUILD, dev.LOGS = folder / "none", folder / "gpus", folder, folder / "logs"
    dev.ROOT = folder
    return dev.main(["gpu-test", "--build", "build"])


def check_one_gpu(place):
    code, output = place.run()
    expect(code == 0, f"it passes on one GPU:\n{output}")
    expect(place.order() == ["own", "-d", "shared", "quit"], f"the service runs for the shared part only: {place.order()}")
    own, shared = place.calls("ctest")
    more = "^ranks(2|3|4|5|6|7|8)$"
    expect(own["ctest"][-2:] == ["-LE", more] and shared["ctest"][-2:] == ["-L", more], f"the parts are one whole: {own}, {shared}")
    started, ended = place.calls("control")
    expect(started["pipes"] and started["logs"], "the service finds its folders")
    pipes = started["variables"]["CUDA_MPS_PIPE_DIRECTORY"]
    expect(all(call["variables"]["CUDA_MPS_PIPE_DIRECTORY"] == pipes for call in (shared, ended)), "all speak by the same folder")
    expect(not pathlib.Path(pipes).exists(), "the folder of the pipes goes with the run")
    expect(own["variables"] == {}, f"the other part knows nothing of the service: {own['variables']}")


def check_failing_test(place):
    code, _ = place.run(STAND_IN_FAILS="1")
    expect(code == 1, "a failed test is a failure")
    expect(place.order() == ["own", "-d", "shared", "quit"], f"the service is stopped after a failure: {place.order()}")


def check_refused(place):
    code, output = place.run(STAND_IN_REFUSES="1")
    expect(code == 0 and "already running" in output, f"a refusal is told as a reason to skip:\n{output}")
    expect(place.order() == ["own", "-d", "quit", "own"], f"the tests run without the service: {place.order()}")


def check_missing(place):
    code, output = place.run()
    expect(code == 0 and "nvidia-cuda-mps-control is not on this machine" in output, f"a missing service is told:\n{output}")
    expect(place.order() == ["own", "own"], f"the tests run without it: {place.order()}")


def check_enough_gpus(place):
    code, output = place.run()
    expect(code == 0 and place.order() == ["own"], f"no service where each rank has a GPU: {place.order()}:\n{output}")


def check_users_own(place):
    code, output = place.run(PARTITEST_SHARE_GPU="1")
    expect(code == 0 and place.order() == ["shared"], f"the user's own service is left alone: {place.order()}:\n{output}")


def check_interrupted(place, number):
    process = place.start(STAND_IN_SLEEPS="1")
    deadline = time.monotonic() + LIMIT_S
    while len(place.calls("ctest")) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    output, _ = process.communicate(timeout=LIMIT_S)
    expect(process.returncode != 0, f"an interrupted run has not passed:\n{output}")
    expect(place.order() == ["own", "-d", "shared", "quit"], f"{number.name} stops the service: {place.order()}")


def in_place(check, gpus, *arguments, **more):
    with tempfile.TemporaryDirectory(prefix="partita-gpu-sharing-") as folder:
        check(Place(pathlib.Path(folder), gpus, **more), *arguments)


if len(sys.argv) == 3:
    sys.exit(run_gpu_test(pathlib.Path(sys.argv[2])))
in_place(check_one_gpu, 1)
in_place(check_failing_test, 1)
in_place(check_refused, 1)
if not any(pathlib.Path(folder, "nvidia-cuda-mps-control").exists() for folder in ("/usr/bin", "/usr/local/nvidia/bin")):
    in_place(check_missing, 1, control=False)
in_place(check_enough_gpus, 8)
in_place(check_users_own, 1)
for number in (signal.SIGINT, signal.SIGTERM):
    in_place(check_interrupted, 1, number)
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
