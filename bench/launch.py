"""How the programs that measure start jobs: words that pin the ranks, and the launcher as readers are shown it."""

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


def shown_launcher(launcher):
    """The launcher's words for readers: without this machine's paths."""
    return [pathlib.Path(launcher[0]).name, *launcher[1:]]


def split_launcher(text):
    """Raises ValueError where `text` names no launcher."""
    words = shlex.split(text)
    if not words:
        raise ValueError("--mpirun is empty; expected is the command that starts two ranks, such as 'mpirun -n 2'")
    return words
