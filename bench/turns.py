"""Two builds that make each job of a comparison in turns: the measured program (`now`), and one from before it, or the same program
on libraries from before."""

import collections
import functools
import os
import pathlib
import random
import re
import shutil
import subprocess

from partita_report.turns import BEFORE, NOW

VERSION_LIMIT_S = 60
READ_BYTES = 1 << 24


class Build(collections.namedtuple("Build", "name program revision folder library_path", defaults=("", "", ""))):
    """Its results lie in `folder` below those of the comparison. With `library_path`, an LD_LIBRARY_PATH, it is the measured program on
    other libraries."""

    @property
    def setting(self):
        """The words before the program."""
        return ["env", f"LD_LIBRARY_PATH={self.library_path}"] if self.library_path else []


def add_options(parser, library=False):
    """--before, --before-revision and --any-revision; with `library` --before-library, for benchmarks that have nothing of the library
    compiled into them but its C API."""
    parser.add_argument("--before", metavar="PROGRAM", help="an older build's program: it makes each job, too, in turns with --program")
    if library:
        parser.add_argument("--before-library", type=pathlib.Path, metavar="FOLDER",
                            help="of an older build's libpartita.so, on which --program makes each job, too: only the library differs")
    parser.add_argument("--before-revision", metavar="NAME", help="the revision of the older build, where it does not tell")
    parser.add_argument("--any-revision", action="store_true", help="builds may be of changed sources, or not tell of which they are")


def builds_of(parser, options):
    """The measured build, and before it the older one, if there is one. What is wrong about them ends the program."""
    library = getattr(options, "before_library", None)
    if options.before and library:
        parser.error("--before is another program, --before-library a library under the same one; leave one of them out")
    if not (options.before or library):
        if options.before_revision or options.any_revision:
            parser.error("--before-revision and --any-revision are about an older build; --before names its program")
        return [Build(NOW, options.program)]
    try:
        return [older_library(options, library) if library else older_program(options),
                Build(NOW, options.program, known_revision(f"--program {options.program}", revision_of(options.program), options))]
    except (OSError, ValueError) as wrong:
        parser.error(str(wrong))


def older_program(options):
    told = options.before_revision or revision_of(options.before)
    return Build(BEFORE, options.before, known_revision(f"--before {options.before}", told, options), BEFORE)


def older_library(options, folder):
    """A library does not tell its revision."""
    path = ":".join(filter(None, [str(folder.resolve()), os.environ.get("LD_LIBRARY_PATH", "")]))
    check_libraries(options.program, folder.resolve(), path)
    told = known_revision(f"--before-library {folder}", options.before_revision, options)
    return Build(BEFORE, options.program, told, BEFORE, path)


def revision_of(program):
    """Nothing where the program does not tell."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=VERSION_LIMIT_S, check=False).stdout
    found = re.search(r"\(revision (\S+)\)", told)
    return found[1] if found else ""


@functools.lru_cache(maxsize=None)
def help_of(program, *words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, timeout=VERSION_LIMIT_S, check=False).stdout


def knows_option(program, run, option):
    """Whether an older program takes it for `run` (comparison.Run), as its help tells."""
    return option in help_of(program, *(("run", run.app) if run.app else ("bench", run.arguments[0]))).split()


def known_revision(what, told, options):
    """Raises ValueError where nobody could build that again, unless that is allowed."""
    if told and told != "unknown" and (told == options.before_revision or not told.endswith("-dirty")) or options.any_revision:
        return told or "unknown"
    wrong = f"was built from changed sources ({told})" if told and told != "unknown" else "does not tell of which revision it is"
    raise ValueError(f"{what} {wrong}, so nobody could measure it again; build a commit, name the older one's by --before-revision, or allow "
                     "it by --any-revision")


def check_libraries(program, folder, path):
    """Raises ValueError unless `program` with the LD_LIBRARY_PATH `path` takes all libraries of Partita from `folder`, and finds there
    what it needs. A program with an RPATH, not a RUNPATH, looks there first, whatever the path says."""
    now, before = loaded_by(program, os.environ.get("LD_LIBRARY_PATH", "")), loaded_by(program, path)
    libraries = libraries_in(before)
    if not libraries:
        raise ValueError(f"{program} loads no libpartita.so that another one could stand for; build it with shared libraries")
    others = [name for name, file in libraries.items() if pathlib.Path(file).parent.resolve() != folder]
    if others:
        raise ValueError(f"{program} does not take {' and '.join(others)} from {folder}, but {' and '.join(map(libraries.get, others))}: the "
                         "folder must have all libraries of Partita that the program loads, by the same names, and the program no RPATH")
    missing = dict.fromkeys(name for name in undefined(before) if name not in undefined(now))
    if missing:
        raise ValueError(f"the libraries in {folder} lack what {program} needs: {', '.join(missing)}; measure with the older build's own "
                         "program, by --before")


def loaded_by(program, path):
    ended = subprocess.run(["ldd", "-r", program], capture_output=True, text=True, timeout=VERSION_LIMIT_S, check=False,
                           env={**os.environ, "LD_LIBRARY_PATH": path})
    return ended.stdout + ended.stderr


def libraries_in(told):
    """Those of Partita: {name: file}."""
    return dict(re.findall(r"^\s*(libpartita\S*) => (.+?)(?: \(0x.*)?$", told, re.MULTILINE))


def undefined(told):
    return re.findall(r"(?:undefined symbol: |symbol lookup error: .*: undefined symbol: )([^\s,]+)", told)


def read_anew(build):
    """Has the system read the build's program and libraries into its cache of files anew, so that where their pages lie is drawn for each
    job. Two copies of one library, of which one lay as its linker had left it, differed by half of an epoch's time in every job, until
    both were read anew. Files that some process has mapped stay as they are."""
    program = shutil.which(build.program)
    if not program:
        return
    libraries = libraries_in(loaded_by(program, build.library_path or os.environ.get("LD_LIBRARY_PATH", ""))) if shutil.which("ldd") else {}
    for file in filter(os.path.isfile, [program, *libraries.values()]):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # what is not yet written cannot be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            while os.read(descriptor, READ_BYTES):
                pass
        finally:
            os.close(descriptor)


def drawn_order(builds, run, job):
    """In which order `builds` make a job of a run: the same whenever it is asked for."""
    return random.Random(f"{run.name} {run.size} {job}").sample(builds, len(builds))
