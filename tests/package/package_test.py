"""A build folder is installed, the installed tree moved out of the checkout, and programs of C and C++ are built and run against
it: by find_package, by pkg-config, by the examples' makefiles. Where it may, the checkout and the system's UCX are hidden while
they run. ./dev test --all starts this file: `pytest package_test.py --given build=build/dev`."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = {"c_api_c": ("cc", "c_api.c", "partita"), "c_api_cpp": ("c++", "c_api.cpp", "partita"),
            "cpp_api": ("c++", "cpp_api.cpp", "partita"), "drop_in_c": ("cc", "drop_in.c", "partita-mpi"),
            "drop_in_cpp": ("c++", "drop_in.cpp", "partita-mpi")}
CPP_PROGRAMS = ["c_api_cpp", "cpp_api", "drop_in_cpp"]
EXAMPLES = {"drop_in": "40002400000, which is right\n", "c_api": "7999, which is right\n",
            "allreduce": "30, which is right\n", "queue": "12 cells live, which is right\n",
            "queue_cpp": "12 cells live, which is right\n", "halo": "11524, which is right\n"}
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
        self.hide = HIDING if self.has_own_mpi and may_hide() else []

    def environment(self, **more):
        return {**os.environ, **QUIET_OPEN_MPI, **dict(pair.split("=", 1) for pair in self.launch["environment"]),
                "PKG_CONFIG_PATH": str(self.libraries / "pkgconfig"), **more}

    def run(self, program, *arguments, **variables):
        """Two ranks; what they print. Anything on stderr is a failure: a library of another version says so there."""
        done = run([*self.hide, self.mpiexec, "-n", "2", *self.launch["flags"], program, *arguments], text=True, cwd="/",
                   env=self.environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.stderr == "", f"{program} wrote to stderr"
        return done.stdout


def of_the_system(folder):
    """Whether the loader looks there by itself."""
    return folder.parts[1] in ("lib", "lib64") or folder.parts[1:3] in (("usr", "lib"), ("usr", "lib64"))


def may_hide():
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], stderr=subprocess.DEVNULL).returncode == 0


# The words before a command that hide the checkout and the system's UCX from it.
HIDING = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {shlex.quote(str(ROOT))} && "
          "for library in $(ls /usr/lib/*/libuc[pstm].so* /usr/lib64/libuc[pstm].so* 2>/dev/null); do "
          "mount --bind /dev/null $library || exit 99; done; "
          'exec "$@"', "hidden"]


def find_nvcc():
    """nvcc of a CUDA whose headers the device API takes, or None: where ./dev looks for it."""
    return shutil.which(os.environ.get("CUDACXX") or "nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


NVCC = find_nvcc()
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="needs nvcc")


@pytest.fixture(scope="module")
def installed(given, tmp_path_factory):
    tree = Installed(pathlib.Path(given["build"]).resolve(), tmp_path_factory.mktemp("package").resolve())
    yield tree
    shutil.rmtree(tree.prefix)  # pytest keeps folders of the last runs, and an MPI is large


@pytest.fixture
def folder(tmp_path):
    """For a build; it is made by who builds there."""
    return tmp_path / "build"


def build_with_cmake(installed, cmake, folder, *options):
    run([cmake, "-S", HERE, "-B", folder, f"-DCMAKE_PREFIX_PATH={installed.prefix}", *options], stdout=subprocess.DEVNULL)
    run([cmake, "--build", folder], stdout=subprocess.DEVNULL)
    used = re.findall(r"(?m)^MPI_C(?:XX)?_COMPILER:FILEPATH=(.*)$", (folder / "CMakeCache.txt").read_text())
    assert installed.mpicc in used, "the package brings its own MPI"


def build_with_pkg_config(installed, compilers, folder):
    folder.mkdir()
    for name, (language, source, package) in PROGRAMS.items():
        flags = run(["pkg-config", "--cflags", "--libs", package], env=installed.environment(), stdout=subprocess.PIPE,
                    text=True).stdout
        run([compilers.get(language, language), "-Wall", "-Wextra", "-Werror", HERE / source, "-o", folder / name,
             *shlex.split(flags)])


def build_with_nvcc(installed, folder):
    """As docs/guide/gpu.md tells: nvcc compiles and the C++ compiler links, since nvcc does not take the linker's flags."""
    folder.mkdir()
    cflags, libs = (shlex.split(run(["pkg-config", option, "partita"], env=installed.environment(), stdout=subprocess.PIPE,
                                    text=True).stdout) for option in ("--cflags", "--libs"))
    cuda = pathlib.Path(NVCC).resolve().parents[1] / "lib64"
    run([NVCC, "-std=c++17", "-c", HERE / "c_api_cuda.cu", *cflags, "-o", folder / "c_api_cuda.o"])
    run(["c++", folder / "c_api_cuda.o", *libs, f"-L{cuda}", "-lcudart", f"-Wl,-rpath,{cuda}", "-o", folder / "c_api_cuda"])


def run_programs(installed, folder, names=tuple(PROGRAMS)):
    for name in names:
        installed.run(folder / name)
        libraries = subprocess.run(["ldd", folder / name], stdout=subprocess.PIPE, text=True, check=True).stdout
        wanted = "libpartita_mpi.so.0" if name.startswith("drop_in") else "libpartita.so.0"
        assert wanted in libraries, f"{name} does not use {wanted}"


def test_the_checkout_can_be_hidden(installed):
    """Where it cannot, the other cases look at the libraries' run paths alone."""
    if not installed.has_own_mpi:
        pytest.skip("this build's MPI is not installed with it, so nothing of the checkout is left out")
    if not installed.hide:
        pytest.skip("no mount namespaces here: only the libraries' run paths are looked at, with the checkout in its place")
    hidden = subprocess.run([*installed.hide, "ls", "-A", ROOT], stdout=subprocess.PIPE, text=True, cwd="/", check=True)
    assert hidden.stdout == ""


def test_no_run_path_leads_into_the_checkout_and_the_loader_finds_no_library_there(installed):
    for path in [installed.prefix / "bin/partita", *installed.libraries.glob("libpartita*.so")]:
        if not path.exists():
            continue
        said = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        said += subprocess.run(["ldd", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert "not found" not in said, path
        assert not (installed.has_own_mpi and str(ROOT) in said), f"{path} needs something outside the installed tree:\n{said}"


def test_what_is_needed_beside_the_installed_tree_and_the_system_is_listed(installed):
    used = subprocess.run(["ldd", *installed.libraries.glob("libpartita*.so")], stdout=subprocess.PIPE, text=True, check=True).stdout
    folders = {pathlib.Path(path).parent for path in re.findall(r"=> (/\S+)", used)}
    outside = {str(folder) for folder in folders if installed.prefix not in folder.parents and not of_the_system(folder)}
    assert set((installed.prefix / "share/partita/needs.txt").read_text().split()) == outside


def test_the_installed_program_runs_over_the_links_that_are_installed_with_it(installed):
    for link in ["auto", "ucx"] if installed.has_own_mpi else ["auto"]:
        installed.run(installed.prefix / "bin/partita", "info", PARTITA_LINK=link)


def test_the_licence_of_fftw_is_installed_where_the_program_has_it(installed):
    program = installed.prefix / "bin/partita"
    if not program.exists():
        pytest.skip("this build has no program")
    notice = installed.prefix / "share/doc/partita/licenses/fftw/NOTICE.txt"
    assert notice.exists() == (b"fftw_execute" in program.read_bytes())
    assert not notice.exists() or "bin/partita" in notice.read_text().splitlines()[0]


def test_no_library_has_fftw(installed):
    for path in installed.libraries.glob("libpartita*.so"):
        assert b"fftw" not in path.read_bytes(), path


def test_the_installed_program_finds_its_report(installed):
    assert "--compare" in installed.run(installed.prefix / "bin/partita", "report", "--help")


def test_programs_are_built_by_cmake(installed, folder):
    build_with_cmake(installed, "cmake", folder)
    run_programs(installed, folder)


def test_programs_are_built_by_the_oldest_cmake_from_a_project_of_cpp_alone(installed, folder):
    system_cmake = shutil.which("cmake", path=os.defpath) or "cmake"  # Debian 12's is the oldest that will do
    build_with_cmake(installed, system_cmake, folder, "-DONLY_CPP=ON")
    run_programs(installed, folder, CPP_PROGRAMS)


def test_programs_are_built_by_pkg_config(installed, folder):
    build_with_pkg_config(installed, {}, folder)
    run_programs(installed, folder)


def test_programs_are_built_by_pkg_config_and_the_wrapper_of_the_mpi(installed, folder):
    build_with_pkg_config(installed, {"cc": installed.mpicc}, folder)
    run_programs(installed, folder)


@needs_nvcc
def test_programs_in_cuda_are_built_by_cmake(installed, folder):
    build_with_cmake(installed, "cmake", folder, "-DONLY_CPP=ON", "-DWITH_CUDA=ON", f"-DCMAKE_CUDA_COMPILER={NVCC}")
    run_programs(installed, folder, ["c_api_cuda"])


@needs_nvcc
def test_programs_in_cuda_are_built_by_nvcc(installed, folder):
    build_with_nvcc(installed, folder)
    run_programs(installed, folder, ["c_api_cuda"])


@pytest.mark.parametrize("source, page", SHOWN.items())
def test_the_pages_show_the_text_of_the_examples(source, page):
    assert f"```c\n{(ROOT / 'examples' / source).read_text()}```" in (ROOT / page).read_text()


@pytest.mark.parametrize("name", [*EXAMPLES, *(pytest.param(name, marks=needs_nvcc) for name in ["gpu", "queue_gpu"])])
def test_the_installed_examples_are_built_by_make_and_by_cmake(installed, name, tmp_path):
    shutil.copytree(installed.prefix / "share/partita/examples", tmp_path / "examples")
    folder = tmp_path / "examples" / name
    with_make, with_cmake = ([f"NVCC={NVCC}"], [f"-DCMAKE_CUDA_COMPILER={NVCC}"]) if name not in EXAMPLES else ([], [])
    run(["make", "-C", folder, *with_make], env=installed.environment(), stdout=subprocess.DEVNULL)
    run(["cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={installed.prefix}", *with_cmake],
        stdout=subprocess.DEVNULL)
    run(["cmake", "--build", folder / "build"], stdout=subprocess.DEVNULL)
    for program in [folder / name, folder / "build" / name] if name in EXAMPLES else []:
        assert installed.run(program) == EXAMPLES[name]


def test_every_link_from_an_installed_page_to_a_file_finds_it(installed):
    documentation = installed.prefix / "share/doc/partita"
    broken = []
    for page in documentation.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.relative_to(documentation)}: {link}")
    assert broken == []


def test_a_project_with_another_mpi_is_refused(installed, folder):
    """It must be told so, not linked with two MPIs."""
    other = shutil.which("mpicc.openmpi" if installed.launch["mpi"].startswith("MPICH") else ROOT / ".venv/bin/mpicc")
    if not other:
        pytest.skip("no second MPI here")
    command = ["cmake", "-S", HERE, "-B", folder, f"-DCMAKE_PREFIX_PATH={installed.prefix}", f"-DMPI_C_COMPILER={other}"]
    answer = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert answer.returncode != 0
    assert "this Partita was built with" in answer.stdout


def test_uninstall_leaves_nothing(given, tmp_path):
    """In a tree of its own, so that the other cases keep theirs."""
    tree = Installed(pathlib.Path(given["build"]).resolve(), tmp_path.resolve())
    run([ROOT / "dev", "uninstall", tree.prefix])
    assert not tree.prefix.exists() or list(tree.prefix.rglob("*")) == []
