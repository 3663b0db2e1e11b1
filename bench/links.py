"""The names of the links, from the one list of them."""
import pathlib
import re

FILE = pathlib.Path(__file__).resolve().parents[1] / "src/link/links.inc"


def names():
    """In the order in which `auto` prefers them: the first is `auto` on a node, the last goes over any MPI."""
    return re.findall(r"^PARTITA_LINK\((\w+)\)$", FILE.read_text(encoding="utf-8"), re.MULTILINE)
