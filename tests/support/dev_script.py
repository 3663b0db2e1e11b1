"""./dev as a module. `python3 dev_script.py gpu-test FOLDER` runs ./dev gpu-test with the build folder FOLDER/build and the
GPUs that FOLDER/gpus lists."""

import importlib.machinery
import importlib.util
import pathlib
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[2]


def load_dev():
    loader = importlib.machinery.SourceFileLoader("dev", str(SOURCES / "dev"))
    dev = importlib.util.module_from_spec(importlib.util.spec_from_loader("dev", loader))
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # ./dev has no suffix, and its like none either
    try:
        loader.exec_module(dev)
    finally:
        sys.dont_write_bytecode = written
    return dev


def gpu_test(folder):
    dev = load_dev()
    dev.VENV, dev.GPUS, dev.BUILD, dev.LOGS = folder / "none", folder / "gpus", folder, folder / "logs"
    dev.ROOT = folder
    return dev.main(["gpu-test", "--build", "build"])


if __name__ == "__main__":
    sys.exit(gpu_test(pathlib.Path(sys.argv[2])))
