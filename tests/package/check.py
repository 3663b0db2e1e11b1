#!/usr/bin/env python3
"""check.py BUILD: installs the build folder BUILD, moves the installed tree, and builds and runs small programs of C and
C++ against it, once through find_package and once through pkg-config. Prints what failed and ends with 1, or with 0."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {"c_api_c": ("cc", "c_api.c", "partita"), "c_api_cpp": ("c++", "c_api.cpp", "partita"),
            "drop_in_c": ("cc", "drop_in.c", "partita-mpi"), "drop_in_cpp": ("c++", "drop_in.cpp", "partita-mpi")}
LIMIT_S = 120


def run(command, **more):
    command = [str(word) for word in command]
    print("+", shlex.join(command), flush=True)
    return subprocess.run(command, check=True, timeout=LIMIT_S, **more)


def install_and_move(build, work):
    shutil.rmtree(work, ignore_errors=True)
    run(["cmake", "--install", build, "--prefix", work / "first place"])
    prefix = work / "moved"
    (work / "first place").rename(prefix)
    return prefix


def libdir(prefix):
    return next(path.parent for path in prefix.rglob("libpartita.so"))


def build_with_cmake(prefix, mpicc, folder):
    run(["cmake", "-S", HERE, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"])
    run(["cmake", "--build", folder])
    used = (folder / "CMakeCache.txt").read_text()
    if f"MPI_C_COMPILER:FILEPATH={mpicc}" not in used:
        raise AssertionError(f"the package did not bring its own MPI, {mpicc}, into {folder}/CMakeCache.txt")


def build_with_pkg_config(prefix, compilers, folder):
    folder.mkdir()
    env = {**os.environ, "PKG_CONFIG_PATH": str(libdir(prefix) / "pkgconfig")}
    for name, (language, source, package) in PROGRAMS.items():
        flags = run(["pkg-config", "--cflags", "--libs", package], env=env, stdout=subprocess.PIPE, text=True).stdout
        run([compilers.get(language, language), "-Wall", "-Wextra", "-Werror", HERE / source, "-o", folder / name,
             *shlex.split(flags)])


def run_programs(folder, launch):
    env = {**os.environ, **dict(pair.split("=", 1) for pair in launch["environment"])}
    for name in PROGRAMS:
        run([launch["mpiexec"], "-n", "2", *launch["flags"], folder / name], env=env)
        libraries = subprocess.run(["ldd", folder / name], stdout=subprocess.PIPE, text=True, check=True).stdout
        wanted = "libpartita_mpi.so" if name.startswith("drop_in") else "libpartita.so"
        if wanted not in libraries:
            raise AssertionError(f"{name} does not use {wanted}:\n{libraries}")


def refuses_another_mpi(prefix, folder, vendor):
    """A project with the other MPI must be told so, not linked with two MPIs."""
    other = shutil.which("mpicc.openmpi" if vendor == "MPICH" else HERE.parents[1] / ".venv/bin/mpicc")
    if not other:
        return print("no second MPI here: that a project with another MPI is refused was not tried")
    command = ["cmake", "-S", HERE, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DMPI_C_COMPILER={other}"]
    answer = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode == 0 or "this Partita was built with" not in answer.stdout:
        raise AssertionError(f"a project with {other} was not refused:\n{answer.stdout}")


def main(build):
    launch = json.loads((build / "partita-launch.json").read_text())
    work = build / "package"
    prefix = install_and_move(build, work)
    build_with_cmake(prefix, launch["mpicc"], work / "by-cmake")
    run_programs(work / "by-cmake", launch)
    build_with_pkg_config(prefix, {}, work / "by-pkg-config")
    run_programs(work / "by-pkg-config", launch)
    wrappers = {"cc": launch["mpicc"]}
    build_with_pkg_config(prefix, wrappers, work / "by-mpicc")
    run_programs(work / "by-mpicc", launch)
    refuses_another_mpi(prefix, work / "other-mpi", launch["mpi"].split()[0])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(pathlib.Path(sys.argv[1]).resolve())
    except (subprocess.SubprocessError, AssertionError, OSError) as failure:
        sys.exit(f"check.py: {failure}")
