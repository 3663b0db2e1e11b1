#!/usr/bin/env python3
"""other_mpi_check.py library VENDOR LIBRARY: preloads LIBRARY, built for VENDOR (mpich, openmpi), into a program of the other MPI, of
which a compiler wrapper must be installed: one sentence, and no signal. Skips where there is none.

other_mpi_check.py launcher VENDOR PROGRAM COMMAND...: PROGRAM runs as a job of one process (COMMAND starts it) where the environment
announces more: the announced rank 0 says so once, the others do not.

Exit codes: 0 passed, 77 skipped, else failed."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
OTHER = {"mpich": ["mpicc.openmpi"], "openmpi": ["mpicc.mpich", "mpicc"]}
SAYS = {"mpich": "Open MPI v", "openmpi": "MPICH"}
# Where the MPI's own launcher starts the program, its announcement is taken out.
ANNOUNCED = {"mpich": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), "openmpi": ("PMI_SIZE", "PMI_RANK")}
LIMIT_S = 40


def fail(what, done):
    sys.exit(f"FAILED: {what}; exit code {done.returncode}\n{done.stdout}{done.stderr}")


def run(command, **variables):
    # A process of Open MPI's that no launcher has started looks for a remote shell, to start others by.
    environment = {**os.environ, "OMPI_MCA_plm_rsh_agent": "/bin/true", **variables}
    return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=LIMIT_S)


def other_program(vendor, folder):
    """A program of the other MPI, or None."""
    for wrapper in filter(None, map(shutil.which, OTHER[vendor])):
        program = pathlib.Path(folder) / "plain"
        built = run([wrapper, "-o", program, HERE / "other_mpi_plain.c"])
        if built.returncode == 0 and vendor_of(program) not in (vendor, None):
            return program
    return None


def vendor_of(program):
    linked = run(["ldd", program]).stdout
    return "openmpi" if "libopen-pal" in linked or "libmpi.so.40" in linked else "mpich" if "libmpi" in linked else None


def check_library(vendor, library):
    with tempfile.TemporaryDirectory() as folder:
        program = other_program(vendor, folder)
        if program is None:
            print(f"skipped: no compiler wrapper of another MPI ({', '.join(OTHER[vendor])}) is installed")
            sys.exit(77)
        done = run([program], LD_PRELOAD=library)
    lines = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode != 1 or len(lines) != 1:
        fail("expected are one line and exit code 1", done)
    for word in ["libpartita_mpi was built for", SAYS[vendor], "compiler wrapper"]:
        if word not in lines[0]:
            fail(f"the sentence does not name {word!r}", done)


def check_launcher(vendor, program, command):
    size, rank = ANNOUNCED[vendor]
    own = [f"-u{name}" for pair in ANNOUNCED.values() for name in pair if name not in (size, rank)]
    for announced, own_rank, expected in [(4, 0, 1), (4, 3, 0), (1, 0, 0)]:
        done = run([*command, "env", *own, f"{size}={announced}", f"{rank}={own_rank}", program])
        said = done.stderr.count(f"announces {announced} ({size}={announced})")
        if done.returncode != 0 or said != expected:
            fail(f"of {announced} processes announced, rank {own_rank} said so {said} times, expected is {expected}", done)


if __name__ == "__main__":
    what, vendor, file, *rest = sys.argv[1:]
    check_library(vendor, file) if what == "library" else check_launcher(vendor, file, rest)
