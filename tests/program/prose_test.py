"""The English of comments, docstrings and pages, as far as a program can tell.

No sentence begins with "Of": it would name its subject late, or never. Lines of pages have 100 columns at most, but for what cannot
be wrapped: tables, code, headings, and the expressions behind figures, which stand in HTML comments.
"""
import ast
import functools
import io
import pathlib
import re
import tokenize

import pytest

FOLDERS = ("apps", "bench", "cmake", "docs", "examples", "include", "program", "src", "tests")
COLUMNS = 100

LATE_SUBJECT = re.compile(r"""(?<![\w`"'])Of(?!\S)""")
# Strings come first: what they hold may look like a comment.
C_STRING = r'R"(?P<end>[^()\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|' + r"(?<!\w)'(?:\\.|[^'\\\n])+'"
C_COMMENT = re.compile(rf"{C_STRING}|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
SCRIPT_COMMENT = re.compile(r"(?:^|(?<=\s))(?P<comment>#[^\n]*)", re.MULTILINE)
FORTRAN_COMMENT = re.compile(r"(?P<comment>![^\n]*)")
FENCED = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^ {4}[^\n]*$", re.MULTILINE)
HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
NEVER_WRAPPED = re.compile(r"\s*[|#]")


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


# ---- The English in a source, with the number of its first line -------------------------------------------------------


def comments(pattern, text):
    return [(line_of(text, found.start("comment")), found["comment"]) for found in pattern.finditer(text) if found["comment"]]


def python_words(text):
    words = [(token.start[0], token.string) for token in tokenize.generate_tokens(io.StringIO(text).readline)
             if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            words.append((node.body[0].lineno, ast.get_docstring(node, clean=False)))
    return words


c_words = functools.partial(comments, C_COMMENT)
script_words = functools.partial(comments, SCRIPT_COMMENT)
WORDS = {
    **dict.fromkeys((".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inc"), c_words),
    **dict.fromkeys((".cmake", ".sh", "CMakeLists.txt", "Makefile"), script_words),
    **dict.fromkeys((".py", "dev"), python_words),
    ".f90": functools.partial(comments, FORTRAN_COMMENT),
}


def words_of(path):
    return WORDS.get(path.suffix) or WORDS.get(path.name)


# ---- What is wrong with it --------------------------------------------------------------------------------------------


def late_subjects(path, words):
    for first, text in words:
        for found in LATE_SUBJECT.finditer(text):
            yield f'{path}:{first - 1 + line_of(text, found.start())}: a sentence begins with "Of"; its subject comes first'


def prose_of(page):
    """The same lines, without code and HTML comments."""
    for pattern in (FENCED, INDENTED, HTML_COMMENT):
        page = pattern.sub(lambda found: "\n" * found[0].count("\n"), page)
    return page


def long_lines(path, prose):
    for number, line in enumerate(prose.split("\n"), 1):
        if len(line) > COLUMNS and not NEVER_WRAPPED.match(line):
            yield f"{path}:{number}: {len(line)} columns; lines of pages have {COLUMNS} at most"


def faults_of(path, text):
    if path.suffix == ".md":
        prose = prose_of(text)
        return [*late_subjects(path, [(1, prose)]), *long_lines(path, prose)]
    return list(late_subjects(path, words_of(path)(text)))


# ---- What the checks find, and what they leave alone ------------------------------------------------------------------


PLANTED = {
    "a comment": ("a.cpp", "int a;\n// Of a send it is null.\n", 2),
    "a comment of a member": ("a.hpp", "int a;  ///< Of a send.\n", 1),
    "a later sentence": ("a.cuh", "/// Never blocks. Of a send\n/// none leaves.\n", 1),
    "a sentence that begins on the next line": ("a.cu", "/// Never blocks.\n/// Of a send none leaves.\n", 2),
    "a sentence whose first word ends a line": ("a.h", "/// Never blocks. Of\n/// a send none leaves.\n", 1),
    "a comment of many lines": ("a.c", "/* Never blocks.\n * Of a send none leaves. */\n", 2),
    "a comment behind strings": ("a.cpp", "f(\"//\", '\"', 1'000);  // Of a send.\n", 1),
    "a comment of Python": ("a.py", "a = 1\nb = 2  # Of a send.\n", 2),
    "a docstring": ("a.py", 'def f():\n    """Of a send."""\n', 2),
    "a docstring's second sentence": ("a.py", 'class A:\n    """Nothing.\n\n    Of a send.\n    """\n', 4),
    "a comment of CMake": ("CMakeLists.txt", "set(a 1)  # Of a send.\n", 1),
    "a comment of Fortran": ("a.f90", "! Of a send.\n", 1),
    "a sentence of a page": ("a.md", "# A\n\nNothing. Of\na send.\n", 3),
    "a long line": ("a.md", "# A\n\n" + "word " * 21 + "\n", 3),
    "a long line of a list": ("a.md", "- one\n- " + "word " * 21 + "\n", 2),
    "a long line behind a figure": ("a.md", "<!--= f(1,\n2) -->1<!--/--> " + "word " * 21 + "\n", 2),
    "a long line behind code": ("a.md", "```\n#\n```\n" + "word " * 21 + "\n", 4),
}
SOUND = {
    "another word": ("a.cpp", "// Often. Offers. One of a send.\nint a;  ///< of a send\n"),
    "the word itself": ("a.cpp", '// No sentence begins with "Of", `Of` or \'Of\'.\n'),
    "a string": ("a.cpp", 'f("Of a send. // Of a send", R"(// Of a send)");\n'),
    "a string of Python": ("a.py", 'a = "# Of a send"\n'),
    "code of a page": ("a.md", "```\n" + "Of " * 40 + "\n```\n\n    " + "Of " * 40 + "\n"),
    "a table": ("a.md", "| " + "word | " * 20 + "\n"),
    "a heading": ("a.md", "## " + "word " * 25 + "\n"),
    "a figure's expression": ("a.md", "It took <!--= " + "f() " * 40 + " -->1 s<!--/-->.\n"),
    "a line of 100 columns": ("a.md", "x" * 49 + " " + "x" * 50 + "\n"),
}


def ids(cases):
    return [what.replace(" ", "_") for what in cases]


@pytest.mark.parametrize("name, text, line", PLANTED.values(), ids=ids(PLANTED))
def test_faults_that_are_planted_are_found(name, text, line):
    found = faults_of(pathlib.Path(name), text)
    assert [fault.split(": ")[0] for fault in found] == [f"{name}:{line}"], found


@pytest.mark.parametrize("name, text", SOUND.values(), ids=ids(SOUND))
def test_what_is_no_fault_is_left_alone(name, text):
    assert faults_of(pathlib.Path(name), text) == []


def test_sources_and_pages_have_no_fault(sources):
    files = [file for folder in FOLDERS for file in sorted((sources / folder).rglob("*"))]
    files = [file for file in files if words_of(file) or file.suffix == ".md"]
    assert len(files) > 500
    files += [*sorted(sources.glob("*.md")), sources / "CMakeLists.txt", sources / "dev"]
    found = [fault for file in files for fault in faults_of(file.relative_to(sources), file.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)
