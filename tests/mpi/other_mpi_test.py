"""Another MPI beneath the drop-in, and another MPI's launcher above a program.

The library, built for the MPI `vendor` (mpich, openmpi), is preloaded into a program of the other MPI, of which a compiler
wrapper must be installed: one sentence, and no signal. And a program runs as a job of one process where the environment
announces more: the announced rank 0 says so once, the others do not."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
OTHER = {"mpich": ["mpicc.openmpi"], "openmpi": ["mpicc.mpich", "mpicc"]}
SAYS = {"mpich": "Open MPI v", "openmpi": "MPICH"}
# Where the MPI's own launcher starts the program, its announcement is taken out.
ANNOUNCED = {"mpich": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), "openmpi": ("PMI_SIZE", "PMI_RANK")}
LIMIT_S = 40


def run(command, **variables):
    # A process of Open MPI's that no launcher has started looks for a remote shell, to start others by.
    environment = {**os.environ, "OMPI_MCA_plm_rsh_agent": "/bin/true", **variables}
    return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=LIMIT_S)


def vendor_of(program):
    linked = run(["ldd", program]).stdout
    return "openmpi" if "libopen-pal" in linked or "libmpi.so.40" in linked else "mpich" if "libmpi" in linked else None


@pytest.fixture
def other_program(given, tmp_path):
    """A program of the other MPI."""
    wrappers = OTHER[given["vendor"]]
    for wrapper in filter(None, map(shutil.which, wrappers)):
        program = tmp_path / "plain"
        built = run([wrapper, "-o", program, HERE / "other_mpi_plain.c"])
        if built.returncode == 0 and vendor_of(program) not in (given["vendor"], None):
            return program
    pytest.skip(f"no compiler wrapper of another MPI ({', '.join(wrappers)}) is installed")


def test_library_of_another_mpi_ends_the_program_in_one_sentence(given, other_program):
    done = run([other_program], LD_PRELOAD=given["library"])
    lines = (done.stdout + done.stderr).strip().splitlines()
    assert (done.returncode, len(lines)) == (1, 1), done
    for word in ["libpartita_mpi was built for", SAYS[given["vendor"]], "compiler wrapper"]:
        assert word in lines[0]


@pytest.mark.parametrize("announced, own_rank, expected", [(4, 0, 1), (4, 3, 0), (1, 0, 0)])
def test_launcher_of_another_mpi_is_told_once(given, announced, own_rank, expected):
    size, rank = ANNOUNCED[given["vendor"]]
    own = [f"-u{name}" for pair in ANNOUNCED.values() for name in pair if name not in (size, rank)]
    # MPICH's programs start without a launcher everywhere.
    launcher = given.launcher(1) if given["vendor"] == "openmpi" else []
    done = run([*launcher, "env", *own, f"{size}={announced}", f"{rank}={own_rank}", given["program"]])
    assert done.returncode == 0, done
    assert done.stderr.count(f"announces {announced} ({size}={announced})") == expected, done.stderr
