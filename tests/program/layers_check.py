"""Checks that the layers of the sources point down, and that no units need each other in a circle.

    layers_check.py SOURCES

A unit is a header and the source of the same name. It needs the units that either of the two includes, and those whose
classes they declare in advance: such a declaration is an arrow as good as an include.
"""
import pathlib
import re
import sys

LAYERS = ["core", "memory", "link", "transfer", "partitioned", "runtime", "capi", "dropin"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
DECLARED = re.compile(r"^\s*(?:class|struct)\s+(\w+);", re.MULTILINE)
DEFINED = re.compile(r"^\s*(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)[^;{()]*\{", re.MULTILINE)


def unit_of(path):
    return re.sub(r"\.(hpp|cpp|cuh|cu|inc)$", "", path)


def read(sources):
    """The text of each source by its path below src, without comments."""
    found = {}
    for file in sorted(sources.rglob("*")):
        if file.suffix in (".hpp", ".cpp", ".cuh", ".cu", ".inc"):
            found[str(file.relative_to(sources))] = re.sub(r"//[^\n]*", "", file.read_text(encoding="utf-8"))
    return found


def needs(texts):
    """Of each unit the units that it needs, with the file and the reason of each."""
    definers = {}
    for path, text in texts.items():
        if path.endswith(".hpp"):
            for name in DEFINED.findall(text):
                definers.setdefault(name, set()).add(unit_of(path))
    edges = {}
    for path, text in texts.items():
        mine = edges.setdefault(unit_of(path), {})
        for included in INCLUDE.findall(text):
            if included in texts:
                mine.setdefault(unit_of(included), f"{path} includes {included}")
        for name in DECLARED.findall(text):
            # A name that several folders define is the one of the own folder.
            found = definers.get(name, set())
            near = {unit for unit in found if pathlib.PurePath(unit).parent == pathlib.PurePath(path).parent} or found
            for unit in near - {unit_of(path)}:
                mine.setdefault(unit, f"{path} declares {name} of {unit}")
        mine.pop(unit_of(path), None)
    return edges


def upward(edges):
    """The arrows that point to a higher layer, and the folders that are no layer."""
    faults = []
    for unit, needed in edges.items():
        layer = unit.split("/")[0]
        if "/" in unit and layer not in LAYERS:
            faults.append(f"src/{layer} is no layer; known are {', '.join(LAYERS)}")
        for other, reason in needed.items():
            above = other.split("/")[0]
            if layer in LAYERS and above in LAYERS and LAYERS.index(above) > LAYERS.index(layer):
                faults.append(f"{reason}, which lies above")
    return sorted(set(faults))


def circles(edges):
    """The sets of units that need each other (strongly connected, after Tarjan)."""
    order, low, stack, found = {}, {}, [], []

    def visit(unit):
        order[unit] = low[unit] = len(order)
        stack.append(unit)
        for other in edges.get(unit, {}):
            if other not in order:
                visit(other)
                low[unit] = min(low[unit], low[other])
            elif other in stack:
                low[unit] = min(low[unit], order[other])
        if low[unit] == order[unit]:
            members = stack[stack.index(unit):]
            del stack[stack.index(unit):]
            if len(members) > 1:
                found.append(sorted(members))

    for unit in sorted(edges):
        if unit not in order:
            visit(unit)
    return found


def faults_of(texts):
    edges = needs(texts)
    faults = upward(edges)
    for members in circles(edges):
        faults.append("need each other in a circle: " + ", ".join(members))
        faults += [f"    {edges[a][b]}" for a in members for b in members if b in edges[a]]
    return faults


def check_itself():
    """Faults that are planted must be found."""
    below = {"core/a.hpp": "class A {};", "link/b.hpp": '#include "core/a.hpp"\nclass B {};'}
    planted = {
        "nothing": ({}, 0),
        "an include that points up": ({"core/a.cpp": '#include "link/b.hpp"'}, 1),
        "a declaration that points up": ({"core/c.hpp": "class B;"}, 1),
        "a circle": ({"core/d.hpp": "class E;\nclass D {};", "core/e.hpp": '#include "core/d.hpp"\nclass E {};'}, 1),
        "a folder that is no layer": ({"hall/f.hpp": "class F {};"}, 1),
        "a comment": ({"core/g.hpp": '// class B;\n// #include "link/b.hpp"'}, 0),
    }
    for what, (files, expected) in planted.items():
        found = bool(faults_of({**below, **files}))
        if found != bool(expected):
            sys.exit(f"layers_check finds {'a fault' if found else 'none'} in {what}")


check_itself()
found = faults_of(read(pathlib.Path(sys.argv[1]) / "src"))
for fault in found:
    print(fault)
sys.exit(1 if found else 0)
