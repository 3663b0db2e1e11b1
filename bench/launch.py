"""How the programs that measure start jobs: words that pin the ranks, and the launcher as readers are shown it."""

import os
import pathlib
import re
import shlex
import subprocess

BINDING_WORDS = r"--?(bind-to|map-by|cpu-bind|cpu-set|cpu-list|rankfile|binding)\b"


def vendor(launcher):
    """hydra, openmpi, slurm, or "" for a launcher of another kind."""
    ended = subprocess.run([launcher[0], "--version"], capture_output=True, text=True, check=False)
    told = (ended.stdout + ended.stderr).lower()
    return next((name for sign, name in (("hydra", "hydra"), ("open mpi", "openmpi"), ("open-mpi", "openmpi"),
                                         ("openrte", "openmpi"), ("slurm", "slurm")) if sign in told), "")


def pinning_words(launcher, cores_a_rank):
    """What to say to `launcher` (its words) so that each rank has `cores_a_rank` cores of its own. Nothing where the words already
    tell where ranks run, or the launcher is not known."""
    if any(re.match(BINDING_WORDS, word) for word in launcher):
        return []
    return {"hydra": ["-bind-to", f"core:{cores_a_rank}"],
            "openmpi": ["--map-by", f"slot:PE={cores_a_rank}", "--bind-to", "core"],
            "slurm": [f"--cpus-per-task={cores_a_rank}", "--cpu-bind=cores"]}.get(vendor(launcher), [])


def ranks_of(launcher):
    """How many ranks the words of `launcher` say that it starts; 2 where they do not say it in a way known here."""
    for word, number in zip(launcher, launcher[1:]):
        if word in ("-n", "-np", "--np", "--ntasks") and number.isdigit():
            return int(number)
    return 2


def cores_of_nodes():
    """For each NUMA node the cores that this process may use."""
    allowed = os.sched_getaffinity(0)
    nodes = []
    for file in sorted(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*/cpulist")):
        ranges = [part.split("-") for part in file.read_text().strip().split(",") if part]
        nodes.append([core for ends in ranges for core in range(int(ends[0]), int(ends[-1]) + 1) if core in allowed])
    return nodes or [sorted(allowed)]


def lanes(launcher, count, ranks, cores_a_rank):
    """`count` launchers whose ranks have `cores_a_rank` cores each that no other launcher's have, all of one NUMA node. Raises ValueError
    where the cores do not suffice, or `launcher` has no words for it or tells by itself where ranks run."""
    if vendor(launcher) != "hydra" or any(re.match(BINDING_WORDS, word) for word in launcher):
        raise ValueError("several jobs at once need Hydra's mpirun, without words of its own that bind ranks: their cores are given to it "
                         f"by '-bind-to user:'; --mpirun is {shlex.join(launcher)!r}")
    wanted = ranks * cores_a_rank
    places = [cores[first:first + wanted] for cores in cores_of_nodes() for first in range(0, len(cores) - wanted + 1, wanted)]
    if len(places) < count:
        raise ValueError(f"{count} jobs at once need {wanted} cores each, all of one NUMA node; there is room for {len(places)}")
    return [[*launcher, "-bind-to", "user:" + ",".join("+".join(map(str, place[first:first + cores_a_rank]))
                                                     for first in range(0, wanted, cores_a_rank))] for place in places[:count]]


def shown_launcher(launcher):
    """The launcher's words for readers: without this machine's paths."""
    return [pathlib.Path(launcher[0]).name, *launcher[1:]]


def split_launcher(text):
    """Raises ValueError where `text` names no launcher."""
    words = shlex.split(text)
    if not words:
        raise ValueError("--mpirun is empty; expected is the command that starts two ranks, such as 'mpirun -n 2'")
    return words
