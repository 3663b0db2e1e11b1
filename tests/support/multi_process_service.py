"""NVIDIA's multi-process service for one run of tests: kernels of several processes then run on one GPU at once.

`python3 multi_process_service.py COMMAND...` runs COMMAND under the service and ends with its exit status; ./dev imports
MultiProcessService. The service changes no setting of a GPU.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTROL = "nvidia-cuda-mps-control"
MORE_PLACES = ["/usr/bin", "/usr/local/nvidia/bin"]  # of the driver's programs, beside PATH
START_S = 30
STOP_S = 20


class NotStarted(Exception):
    """Why the service does not run, as a sentence."""


class MultiProcessService:
    """A context in which the service runs. `environment` is what its clients need beside their own. The folder of its pipes
    is made for this run and removed with it; its logs stay in `logs`. Leaving the context stops the service, also after an
    exception; while it is open, SIGTERM raises SystemExit. Entering raises NotStarted."""

    def __init__(self, logs):
        self.logs = pathlib.Path(logs).absolute()
        self.environment = {}

    def __enter__(self):
        self.control = shutil.which(CONTROL, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *MORE_PLACES]))
        if not self.control:
            raise NotStarted(f"{CONTROL} is not on this machine")
        self.logs.mkdir(parents=True, exist_ok=True)
        # Below /tmp, since the path of a socket is short.
        self.pipes = pathlib.Path(tempfile.mkdtemp(prefix="partita-mps-", dir="/tmp"))
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": str(self.pipes), "CUDA_MPS_LOG_DIRECTORY": str(self.logs)}
        self.terminated_before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        try:
            # The daemon keeps what it was started with, so it must not hold our pipes open.
            with open(self.logs / "start.log", "w+", encoding="utf-8", errors="replace") as said:
                code = subprocess.run([self.control, "-d"], env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
                                      stdout=said, stderr=subprocess.STDOUT, timeout=START_S).returncode
                said.seek(0)
                words = " ".join(said.read().split())
        except subprocess.TimeoutExpired:
            raise NotStarted(f"{self.control} -d did not return within {START_S} s") from None
        if code != 0:
            raise NotStarted(f"{self.control} -d ended with {code}: {words or 'no word'}")

    def __exit__(self, *_):
        try:
            subprocess.run([self.control], input="quit\n", text=True, env={**os.environ, **self.environment},
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        shutil.rmtree(self.pipes, ignore_errors=True)
        signal.signal(signal.SIGTERM, self.terminated_before)

    def kill(self):
        """The daemon writes its number beside its pipes."""
        try:
            os.kill(int((self.pipes / f"{CONTROL}.pid").read_text()), signal.SIGKILL)
        except (OSError, ValueError):
            print(f"{CONTROL} in {self.pipes} did not stop within {STOP_S} s", file=sys.stderr)


def main(command):
    if not command:
        sys.exit(__doc__)
    try:
        with MultiProcessService(ROOT / "build/log/mps") as service:
            # What lets a test's ranks share a GPU.
            return subprocess.run(command, env={**os.environ, **service.environment, "PARTITEST_SHARE_GPU": "1"}).returncode
    except NotStarted as failure:
        sys.exit(f"multi_process_service.py: {failure}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
