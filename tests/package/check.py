#!/usr/bin/env python3
"""check.py BUILD: installs the build folder BUILD, moves the installed tree out of the checkout, and builds and runs programs of C
and C++ against it: by find_package, by pkg-config, by the examples' makefiles. Where it may, it hides the checkout and the
system's UCX while it runs them. Prints what failed and ends with 1, or with 0."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = {"c_api_c": ("cc", "c_api.c", "partita"), "c_api_cpp": ("c++", "c_api.cpp", "partita"),
            "drop_in_c": ("cc", "drop_in.c", "partita-mpi"), "drop_in_cpp": ("c++", "drop_in.cpp", "partita-mpi")}
CPP_PROGRAMS = ["c_api_cpp", "drop_in_cpp"]
EXAMPLES = {"drop_in": "40002400000, which is right\n", "c_api": "7999, which is right\n"}
SHOWN = {"drop_in/drop_in.c": "README.md", "c_api/c_api.c": "docs/guide/getting-started.md"}
LIMIT_S = 300  # nvcc takes minutes on a busy machine
# What Open MPI says of a container, of more ranks than cores, and of a machine without its networks.
QUIET_OPEN_MPI = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_btl_base_warn_component_unused": "0",
                  "OMPI_MCA_mpi_yield_when_idle": "1"}


def run(command, **more):
    command = [str(word) for word in command]
    print("+", shlex.join(command), flush=True)
    return subprocess.run(command, check=True, timeout=LIMIT_S, **more)


class Installed:
    """The installed tree in its second place, and how programs are started on it."""

    def __init__(self, build, work):
        self.launch = json.loads((build / "partita-launch.json").read_text())
        run(["cmake", "--install", build, "--prefix", work / "first place"], stdout=subprocess.DEVNULL)
        self.prefix = work / "moved"
        (work / "first place").rename(self.prefix)
        self.libraries = next(path.parent for path in self.prefix.rglob("libpartita.so"))
        own_mpi = self.libraries / "partita/mpi/bin"
        self.has_own_mpi = own_mpi.exists()
        self.mpicc = str(own_mpi / "mpicc") if self.has_own_mpi else self.launch["mpicc"]
        self.mpiexec = str(own_mpi / "mpiexec") if self.has_own_mpi else self.launch["mpiexec"]
        self.hide = hiding() if self.has_own_mpi else []

    def environment(self, **more):
        return {**os.environ, **QUIET_OPEN_MPI, **dict(pair.split("=", 1) for pair in self.launch["environment"]),
                "PKG_CONFIG_PATH": str(self.libraries / "pkgconfig"), **more}

    def run(self, program, *arguments, **variables):
        """Two ranks; what they print. Anything on stderr is a failure: a library of another version says so there."""
        done = run([*self.hide, self.mpiexec, "-n", "2", *self.launch["flags"], program, *arguments], text=True, cwd="/",
                   env=self.environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.stderr:
            raise AssertionError(f"{program} wrote to stderr:\n{done.stderr}")
        return done.stdout


def hiding():
    """The words before a command that hide the checkout and the system's UCX from it; none where that is not allowed."""
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], stderr=subprocess.DEVNULL).returncode:
        print("no mount namespaces here: only the libraries' run paths were looked at, with the checkout in its place")
        return []
    script = (f"mount -t tmpfs none {shlex.quote(str(ROOT))} && "
              "for library in $(ls /usr/lib/*/libuc[pstm].so* /usr/lib64/libuc[pstm].so* 2>/dev/null); do "
              "mount --bind /dev/null $library || exit 99; done; "
              'exec "$@"')
    return ["unshare", "-m", "sh", "-c", script, "hidden"]


def needs_nothing_of_the_checkout(installed):
    """No run path leads into the checkout, and the loader finds no library there."""
    for path in [installed.prefix / "bin/partita", *installed.libraries.glob("libpartita*.so")]:
        if not path.exists():
            continue
        said = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        said += subprocess.run(["ldd", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        if "not found" in said or (installed.has_own_mpi and str(ROOT) in said):
            raise AssertionError(f"{path} needs something outside the installed tree:\n{said}")


def build_with_cmake(installed, cmake, folder, *options):
    run([cmake, "-S", HERE, "-B", folder, f"-DCMAKE_PREFIX_PATH={installed.prefix}", *options], stdout=subprocess.DEVNULL)
    run([cmake, "--build", folder], stdout=subprocess.DEVNULL)
    used = (folder / "CMakeCache.txt").read_text()
    if not re.search(rf"MPI_C(XX)?_COMPILER:FILEPATH={re.escape(installed.mpicc)}$", used, re.MULTILINE):
        raise AssertionError(f"the package did not bring its own MPI, {installed.mpicc}, into {folder}/CMakeCache.txt")


def build_with_pkg_config(installed, compilers, folder):
    folder.mkdir()
    for name, (language, source, package) in PROGRAMS.items():
        flags = run(["pkg-config", "--cflags", "--libs", package], env=installed.environment(), stdout=subprocess.PIPE,
                    text=True).stdout
        run([compilers.get(language, language), "-Wall", "-Wextra", "-Werror", HERE / source, "-o", folder / name,
             *shlex.split(flags)])


def find_nvcc():
    """nvcc of a CUDA whose headers the device API takes, or None: where ./dev looks for it."""
    return shutil.which(os.environ.get("CUDACXX") or "nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


def build_with_nvcc(installed, nvcc, folder):
    """As docs/guide/gpu.md tells: nvcc compiles and the C++ compiler links, since nvcc does not take the linker's flags."""
    folder.mkdir()
    cflags, libs = (shlex.split(run(["pkg-config", option, "partita"], env=installed.environment(), stdout=subprocess.PIPE,
                                    text=True).stdout) for option in ("--cflags", "--libs"))
    cuda = pathlib.Path(nvcc).resolve().parents[1] / "lib64"
    run([nvcc, "-std=c++17", "-c", HERE / "c_api_cuda.cu", *cflags, "-o", folder / "c_api_cuda.o"])
    run(["c++", folder / "c_api_cuda.o", *libs, f"-L{cuda}", "-lcudart", f"-Wl,-rpath,{cuda}", "-o", folder / "c_api_cuda"])


def run_programs(installed, folder, names=tuple(PROGRAMS)):
    for name in names:
        installed.run(folder / name)
        libraries = subprocess.run(["ldd", folder / name], stdout=subprocess.PIPE, text=True, check=True).stdout
        wanted = "libpartita_mpi.so.0" if name.startswith("drop_in") else "libpartita.so.0"
        if wanted not in libraries:
            raise AssertionError(f"{name} does not use {wanted}:\n{libraries}")


def check_examples(installed, work):
    """The installed examples, by make and by CMake; the pages show the text of these."""
    for source, page in SHOWN.items():
        if f"```c\n{(ROOT / 'examples' / source).read_text()}```" not in (ROOT / page).read_text():
            raise AssertionError(f"{page} does not show the text of examples/{source}")
    shutil.copytree(installed.prefix / "share/partita/examples", work / "examples")
    nvcc = find_nvcc()
    cuda = {"gpu": [f"-DCMAKE_CUDA_COMPILER={nvcc}"]} if nvcc else {}
    for name in [*EXAMPLES, *cuda]:
        folder = work / "examples" / name
        run(["make", "-C", folder, *([f"NVCC={nvcc}"] if name in cuda else [])], env=installed.environment(),
            stdout=subprocess.DEVNULL)
        run(["cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={installed.prefix}", *cuda.get(name, [])],
            stdout=subprocess.DEVNULL)
        run(["cmake", "--build", folder / "build"], stdout=subprocess.DEVNULL)
        for program in [folder / name, folder / "build" / name] if name in EXAMPLES else []:
            said = installed.run(program)
            if said != EXAMPLES[name]:
                raise AssertionError(f"{program} printed '{said}', expected is '{EXAMPLES[name]}'")


def refuses_another_mpi(installed, folder):
    """A project with the other MPI must be told so, not linked with two MPIs."""
    other = shutil.which("mpicc.openmpi" if installed.launch["mpi"].startswith("MPICH") else ROOT / ".venv/bin/mpicc")
    if not other:
        return print("no second MPI here: that a project with another MPI is refused was not tried")
    command = ["cmake", "-S", HERE, "-B", folder, f"-DCMAKE_PREFIX_PATH={installed.prefix}", f"-DMPI_C_COMPILER={other}"]
    answer = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode == 0 or "this Partita was built with" not in answer.stdout:
        raise AssertionError(f"a project with {other} was not refused:\n{answer.stdout}")


def check_links(documentation):
    """Every link from an installed page to a file finds it in the installed tree."""
    broken = []
    for page in documentation.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.relative_to(documentation)}: {link}")
    if broken:
        raise AssertionError("links of installed pages lead nowhere:\n" + "\n".join(broken))


def uninstalls(installed):
    run([ROOT / "dev", "uninstall", installed.prefix])
    if installed.prefix.exists() and any(installed.prefix.iterdir()):
        raise AssertionError(f"./dev uninstall left {[str(path) for path in installed.prefix.rglob('*')]}")


def main(build, work):
    installed = Installed(build, work)
    needs_nothing_of_the_checkout(installed)
    for link in ["auto", "ucx"] if installed.has_own_mpi else ["auto"]:
        installed.run(installed.prefix / "bin/partita", "info", PARTITA_LINK=link)
    if "--compare" not in installed.run(installed.prefix / "bin/partita", "report", "--help"):
        raise AssertionError("partita report --help does not name --compare")
    build_with_cmake(installed, "cmake", work / "by-cmake")
    run_programs(installed, work / "by-cmake")
    system_cmake = shutil.which("cmake", path=os.defpath) or "cmake"  # Debian 12's is the oldest that will do
    build_with_cmake(installed, system_cmake, work / "by-cmake-from-cpp", "-DONLY_CPP=ON")
    run_programs(installed, work / "by-cmake-from-cpp", CPP_PROGRAMS)
    build_with_pkg_config(installed, {}, work / "by-pkg-config")
    run_programs(installed, work / "by-pkg-config")
    build_with_pkg_config(installed, {"cc": installed.mpicc}, work / "by-mpicc")
    run_programs(installed, work / "by-mpicc")
    nvcc = find_nvcc()
    if nvcc:
        build_with_cmake(installed, "cmake", work / "by-cmake-from-cuda", "-DONLY_CPP=ON", "-DWITH_CUDA=ON",
                         f"-DCMAKE_CUDA_COMPILER={nvcc}")
        run_programs(installed, work / "by-cmake-from-cuda", ["c_api_cuda"])
        build_with_nvcc(installed, nvcc, work / "by-nvcc")
        run_programs(installed, work / "by-nvcc", ["c_api_cuda"])
    else:
        print("no nvcc here: the programs in CUDA were not compiled")
    check_examples(installed, work)
    check_links(installed.prefix / "share/doc/partita")
    refuses_another_mpi(installed, work / "other-mpi")
    uninstalls(installed)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        with tempfile.TemporaryDirectory(prefix="partita-package-") as work:
            main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(work).resolve())
    except (subprocess.SubprocessError, AssertionError, OSError) as failure:
        sys.exit(f"check.py: {failure}{getattr(failure, 'stderr', None) or ''}")
