"""The layers of the sources point down, and no units need each other in a circle.

A unit is a header and the source of the same name. It needs the units that either of the two includes, and those whose
classes and enumerations they declare in advance: such a declaration is an arrow as good as an include. A friend must not
lie in a higher layer, but makes no circle.

A function outside classes is defined by the unit that declares it: another one would be needed without an include. By
design others define what the library exports (PARTITA_EXPORT), factories (make_…), and what one of several sources
defines, as the build has it; those, too, must not lie in a higher layer.

The names of the links are listed once, in src/link/links.inc: what goes over all of them reads that.
"""
import pathlib
import posixpath
import re

import pytest

LAYERS = ["core", "memory", "link", "transfer", "partitioned", "collective", "queue", "two_sided", "runtime", "capi", "dropin"]
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
KEY = r"(?:class|struct|enum(?:\s+(?:class|struct))?)\s+"
# The last two alternatives are a type in a declaration of something else. A template's parameter is none of these.
DECLARED = re.compile(rf"(?<!friend )(?<![<,] )(?<![<,])\b{KEY}(?:\w+::)*(\w+)\s*(?:;|:\s*[\w:]+\s*;|[&*])")
FRIEND = re.compile(rf"\bfriend\s+{KEY}(?:\w+::)*(\w+)\s*;")
DEFINED = re.compile(rf"^\s*{KEY}(?:alignas\([^)]*\)\s*)?(\w+)[^;{{()]*\{{", re.MULTILINE)
LITERAL = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
NAMESPACE = re.compile(r"namespace(?:\s+([\w:]+))?\s*$")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)", re.DOTALL)
NO_FUNCTION = re.compile(r"(?:using|typedef|class|struct|enum|union|static_assert|friend|concept|static)\b")
FUNCTION = re.compile(r"(?<![\w:~])((?:\w+::)*\w+)\s*\(")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def unit_of(path):
    return re.sub(r"\.(hpp|cpp|cuh|cu|inc)$", "", path)


def read(sources):
    """The text of each source by its path below src, without comments."""
    found = {}
    for file in sorted(sources.rglob("*")):
        if file.suffix in (".hpp", ".cpp", ".cuh", ".cu", ".inc"):
            found[str(file.relative_to(sources))] = COMMENT.sub("", file.read_text(encoding="utf-8"))
    return found


def definers_of(texts):
    """The units that define each name."""
    definers = {}
    for path, text in texts.items():
        if path.endswith((".hpp", ".cuh")):
            for name in DEFINED.findall(text):
                definers.setdefault(name, set()).add(unit_of(path))
    return definers


def units_of(name, path, definers):
    """The units whose `name` is meant in `path`: a name that several folders define is the one of the own folder."""
    found = definers.get(name, set())
    return {unit for unit in found if pathlib.PurePath(unit).parent == pathlib.PurePath(path).parent} or found


def included_path(included, path, texts):
    """The source that is included, by its path below src; beside the including one or from there."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), included))
    return included if included in texts else beside if beside in texts else None


def needs(texts, definers):
    """The units that each unit needs, with the file and the reason of each."""
    edges = {}
    for path, text in texts.items():
        mine = edges.setdefault(unit_of(path), {})
        for included in (included_path(name, path, texts) for name in INCLUDE.findall(text)):
            if included:
                mine.setdefault(unit_of(included), f"{path} includes {included}")
        for name in DECLARED.findall(text):
            for unit in units_of(name, path, definers) - {unit_of(path)}:
                mine.setdefault(unit, f"{path} declares {name} of {unit}")
        mine.pop(unit_of(path), None)
    return edges


def statements(path, text):
    """What stands in namespaces that have names, or in none: the namespace, the text of it, whether a body follows."""
    scopes, head, depth, found = [], "", 0, []
    for token in re.findall(r"[{};]|[^{};]+", DIRECTIVE.sub("", LITERAL.sub('""', text))):
        if depth > 0:
            depth += {"{": 1, "}": -1}.get(token, 0)
        elif token == "}":
            assert scopes, f"{path} has a brace too many behind: {found[-1][1] if found else ''}"
            scopes.pop()
        elif token not in "{;":
            head = token
            continue
        elif token == "{" and (namespace := NAMESPACE.search(head)):
            scopes.append(namespace[1])
        elif token == "{" and head.split() == ["extern", '""']:
            scopes.append("")
        else:
            depth = int(token == "{")
            if None not in scopes:
                found.append(("::".join(scope for scope in scopes if scope), head.strip(), depth > 0))
        head = ""
    assert not scopes and depth == 0, f"{path} lacks a brace behind: {found[-1][1] if found else ''}"
    return found


def without_template(head):
    """Without `template <…>` in front."""
    while opening := re.match(r"template\s*<", head):
        depth, end = 1, opening.end()
        while depth > 0:
            depth += {"<": 1, ">": -1}.get(head[end], 0)
            end += 1
        head = head[end:].strip()
    return head


def functions(path, text):
    """The functions outside classes: the whole name, whether the library exports it, and whether it is defined there."""
    for namespace, statement, is_defined in statements(path, text):
        head = without_template(ATTRIBUTE.sub("", statement).strip())
        name = FUNCTION.search(head)
        if name and head[:name.start()].strip() and "=" not in head[:name.start()] and not NO_FUNCTION.match(head):
            yield f"{namespace}::{name[1]}", "PARTITA_EXPORT" in head, is_defined


def foreign_functions(texts):
    """The functions that other units define than the one that declares them: the unit, the file with the reason, and
    whether that is by design."""
    declared, definers = [], {}
    for path, text in texts.items():
        for name, is_exported, is_defined in functions(path, text):
            if is_defined:
                definers.setdefault(name, set()).add(unit_of(path))
            else:
                declared.append((path, name, is_exported))
    for path, name, is_exported in declared:
        units = definers.get(name, set())
        if unit_of(path) in units:
            continue
        by_design = is_exported or len(units) > 1 or name.rsplit("::", 1)[1].startswith("make_")
        for unit in units:
            yield unit_of(path), unit, f"{path} declares the function {name} of {unit}", by_design


def friends(texts, definers):
    """The units that define the friends of each source, with the reason."""
    return {path: {unit: f"{path} has the friend {name} of {unit}" for name in FRIEND.findall(text)
                   for unit in units_of(name, path, definers)} for path, text in texts.items()}


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
    definers = definers_of(texts)
    edges = needs(texts, definers)
    faults = upward(edges) + upward(friends(texts, definers))
    for unit, other, reason, by_design in foreign_functions(texts):
        faults += upward({unit: {other: reason}}) or ([] if by_design else [f"{reason}, which alone defines it"])
    for members in circles(edges):
        faults.append("need each other in a circle: " + ", ".join(members))
        faults += [f"    {edges[a][b]}" for a in members for b in members if b in edges[a]]
    return faults


BELOW = {"core/a.hpp": "class A {};", "link/b.hpp": '#include "core/a.hpp"\nclass B {};'}
PLANTED = {
    "nothing": ({}, False),
    "an include that points up": ({"core/a.cpp": '#include "link/b.hpp"'}, True),
    "an include in angle brackets": ({"core/a.cpp": "#include <link/b.hpp>"}, True),
    "an include by a relative path": ({"core/a.cpp": '#include "../link/b.hpp"'}, True),
    "an include of a kernel's header": ({"core/a.cu": '#include "link/k.cuh"', "link/k.cuh": "class K {};"}, True),
    "a declaration that points up": ({"core/c.hpp": "class B;"}, True),
    "a declaration in a namespace on one line": ({"core/c.hpp": "namespace link { class B; }"}, True),
    "a declared template": ({"core/c.hpp": "template <class T> class V;", "link/v.hpp": "template <class T>\nclass V {};"}, True),
    "a declared enumeration": ({"core/c.hpp": "enum class N : int;", "link/n.hpp": "enum class N : int { one };"}, True),
    "a class declared in an argument": ({"core/c.hpp": "void f(class B& b);"}, True),
    "a friend above": ({"core/c.hpp": "class C { friend class B; };"}, True),
    "a friend beside": ({"link/c.hpp": "class C { friend class B; };", "link/b.hpp": '#include "link/c.hpp"\nclass B {};'}, False),
    "a template's parameter": ({"core/c.hpp": "template <class A, class B> void f(B* b);"}, False),
    "a circle": ({"core/d.hpp": "class E;\nclass D {};", "core/e.hpp": '#include "core/d.hpp"\nclass E {};'}, True),
    "a circle by way of a source": ({"core/d.hpp": "class D {};", "core/d.cpp": '#include "core/e.hpp"',
                                     "core/e.hpp": '#include "core/d.hpp"'}, True),
    "a function of another unit": ({"core/c.hpp": "namespace n {\nvoid f(int i);\n}", "core/d.cpp": "namespace n {\nvoid f(int i) {}\n}"}, True),
    "a function of a unit that includes the header": ({"link/c.hpp": "[[noreturn]] void f();", "link/d.cpp": '#include "link/c.hpp"\nvoid f() {}'}, True),
    "a function of a layer above": ({"core/c.hpp": "int* f(const A& a);", "link/d.cpp": "int* f(const A& a) { return {}; }"}, True),
    "a function declared in a source": ({"core/c.cpp": "void f();", "core/d.cpp": "void f() {}"}, True),
    "a function template of another unit": ({"core/c.hpp": "template <class T, class U = V<T>>\nT f(U u);",
                                             "core/d.hpp": "template <class T, class U>\nT f(U u) { return u; }"}, True),
    "a function behind what has braces": ({"core/c.hpp": "#define BRACE {\nstruct C { char c = '{'; };\nconst C x{};\nvoid f();",
                                           "core/d.cpp": 'const char* brace = "{";\nvoid g() { if (true) { g(); } }\nvoid f() {}'}, True),
    "a function of the same unit": ({"core/c.hpp": "namespace n {\nvoid f(int i);\n}", "core/c.cpp": "namespace n {\nvoid f(int) {}\n}"}, False),
    "a function of another namespace": ({"core/c.hpp": "void f();", "core/c.cpp": "void f() {}",
                                         "core/d.cpp": "namespace n {\nvoid f() {}\n}\nnamespace {\nvoid f(int) {}\n}"}, False),
    "a member of the same name": ({"core/c.hpp": "class C { void f(); };", "core/d.cpp": "void f() {}"}, False),
    "a factory": ({"core/c.hpp": "int make_c();", "core/d.cpp": "int make_c() { return 0; }"}, False),
    "a factory above": ({"core/c.hpp": "int make_c();", "link/d.cpp": "int make_c() { return 0; }"}, True),
    "an exported function": ({"capi/c.hpp": 'extern "C" {\nPARTITA_EXPORT int F(int i);\n}', "capi/d.cpp": "int F(int i) { return i; }"}, False),
    "an exported function above": ({"core/c.hpp": 'extern "C" {\nPARTITA_EXPORT int F(int i);\n}', "capi/d.cpp": "int F(int i) { return i; }"}, True),
    "a function as the build has it": ({"core/c.hpp": "void f();", "core/c_one.cpp": "void f() {}", "core/c_other.cpp": "void f() {}"}, False),
    "a folder that is no layer": ({"hall/f.hpp": "class F {};"}, True),
    "comments": ({"core/g.hpp": '// class B;\n// #include "link/b.hpp"\n/*\nclass B;\n*/'}, False),
}


@pytest.mark.parametrize("files, faulty", PLANTED.values(), ids=[what.replace(" ", "_") for what in PLANTED])
def test_faults_that_are_planted_are_found(files, faulty, tmp_path):
    for name, text in {**BELOW, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    assert bool(faults_of(read(tmp_path))) == faulty


def test_the_sources_have_no_fault(sources):
    assert faults_of(read(sources / "src")) == []


def test_the_pages_name_the_layers_in_their_order(sources):
    contributing = (sources / "CONTRIBUTING.md").read_text(encoding="utf-8")
    chain = re.search(r"`\w+`(?:\s+←\s+`\w+`)+", contributing)[0]
    assert re.findall(r"\w+", chain) == LAYERS, "CONTRIBUTING.md"
    overview = (sources / "docs/design/overview.md").read_text(encoding="utf-8")
    picture = re.search(r"^## Layers$.*?^```$(.*?)^  ─", overview, re.MULTILINE | re.DOTALL)[1]
    assert re.findall(r"^  (\w+)", picture, re.MULTILINE) == LAYERS[::-1], "docs/design/overview.md"


# ---- The one list of the links ----------------------------------------------------------------------------------------


LISTING = ("apps", "bench", "cmake", "program", "src", "tests")
SCRIPT_COMMENT = re.compile(r"(?m)(^|\s)#[^\n]*")


def link_names(sources):
    return re.findall(r"^PARTITA_LINK\((\w+)\)$", (sources / "src/link/links.inc").read_text(encoding="utf-8"), re.MULTILINE)


def lists_of_links(text, names):
    """Those in it that name every link, or every one but that which is `auto` on a node."""
    name = rf"[\"']?\b(?:auto|{'|'.join(names)})\b[\"']?"
    return [found[0] for found in re.finditer(rf"{name}(?:[\s,]+{name})+", text) if set(names[1:]) <= set(re.findall(r"\w+", found[0]))]


def test_a_list_of_all_links_is_found_however_it_is_written():
    names = ["one", "two", "three"]
    for listed in ('{"auto", "two", "three"}', "['three', 'two']", "LINKS one three two LABELS", '"auto,one,two,three"', '"one",\n    "two", "three"'):
        assert lists_of_links(listed, names), listed
    for chosen in ("LINKS auto three", '{"auto", "one", "two"}', '"two" or "three"', "${PARTITA_LINKS}", "twofold, three"):
        assert not lists_of_links(chosen, names), chosen


# Where pages list the links for readers: the names stand in the group, in their order, or are the group of each match.
PAGES_THAT_LIST = {
    "docs/design/overview.md": [r"a way of bytes from one rank to another: (.*?) \|", r"put bytes, raise a flag +(.*)"],
    "docs/design/dropin.md": [r"► libpartita ─► (.*)"],
    "docs/design/runtime.md": [r"\| `PARTITA_LINK` \| `auto` or the name of a link \((.*?)\)"],
    "docs/api/Partita_Psend_init.md": [r"\| `partita_link` \| `auto` or the name of a link \((.*?)\)"],
    "docs/api/Partita_Request_get_info.md": [r"\| `partita_link` \| (.*?);"],
    "docs/guide/getting-started.md": [r"\| `partita_link` \| `auto`, (.*?) \|"],
    "docs/guide/benchmarks.md": [r"`--link auto,(.*?)`"],
}
PAGES_WITH_ONE_FOR_EACH = {"docs/design/link.md": r"^## (\w+)$", "docs/guide/getting-started.md": r"^\| `(\w+)` \| [^|]*\brank"}


def unnamed_links(page, text, names):
    """Where the page does not name the links that it should."""
    lists = [re.search(listing, text) for listing in PAGES_THAT_LIST.get(page, [])]
    faults = [f"a list there is {found and found[1]}" for found in lists
              if not found or re.findall(r"\w+", found[1].replace(" or ", " ")) != names]
    each = re.findall(PAGES_WITH_ONE_FOR_EACH[page], text, re.MULTILINE) if page in PAGES_WITH_ONE_FOR_EACH else names
    return faults + [f"{name} has no place there" for name in names if name not in each]


@pytest.mark.parametrize("page", sorted({*PAGES_THAT_LIST, *PAGES_WITH_ONE_FOR_EACH}))
def test_pages_that_list_the_links_name_all(sources, page):
    names, text = link_names(sources), (sources / page).read_text(encoding="utf-8")
    assert unnamed_links(page, text, names) == [], page
    assert unnamed_links(page, text, [*names, "another"]) != [], f"{page} would be taken for complete"


def test_no_list_of_all_links_is_written_by_hand(sources):
    names, found = link_names(sources), []
    assert len(names) > 2
    for file in (file for folder in LISTING for file in sorted((sources / folder).rglob("*"))):
        if file.suffix in (".cpp", ".hpp", ".cu", ".cuh", ".c", ".h", ".py", ".cmake") or file.name == "CMakeLists.txt":
            text = file.read_text(encoding="utf-8")
            text = SCRIPT_COMMENT.sub("", text) if file.suffix in (".py", ".cmake", ".txt") else COMMENT.sub("", text)
            found += [f"{file.relative_to(sources)}: {listed}" for listed in lists_of_links(text, names)]
    assert found == [], "src/link/links.inc lists them"
