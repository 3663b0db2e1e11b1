#!/usr/bin/env python3
"""Fills the figures of pages from result files, so that nobody types a number, or checks that they are as filled.

  bench/pages.py [--check] [PAGE.md]...       default: every page below docs/

A figure stands in a page as <!--= EXPRESSION -->TEXT<!--/-->, of which readers see TEXT. The expression is Python over the
functions of quoted.py and goals.py; what it gives is the text. A table stands between two such lines. --check changes nothing and
fails with the difference. It also fails on a number with a unit of a result outside of such a place, but for limits and settings,
which nominal.csv names."""
import argparse
import csv
import pathlib
import re
import sys

sys.dont_write_bytecode = True
import goals  # noqa: E402
import quoted  # noqa: E402
from partita_report.failure import Failure  # noqa: E402

NOMINAL = pathlib.Path(__file__).with_name("nominal.csv")
PLACE = re.compile(r"<!--=\s*(?P<expression>.*?)\s*-->(?P<text>.*?)<!--/-->", re.DOTALL)
# Units of results. Bytes and registers are the sizes of messages and the limits of kernels, too, which nominal.csv then says. Sizes from
# KiB on, counts, versions, what a command is given and the end of a formula (2^63 - 1 bytes) are no figures.
MEASURED = re.compile(r"(?<![\w.^])(?<!− )\d[\d,.]*(?:\s(?:to|and|or|/)\s\d[\d,.]*)*\s?"
                      r"(?:µs|us\b|ns\b|ms\b|GB/s|MB/s|×(?! ?[\dN])|% |%[.,;:)]|times\b|instructions\b|bytes?\b|B\b|registers?\b)")
CODE = re.compile(r"^ {4}[^\n]*$", re.MULTILINE)
NOT_FIGURES = re.compile(r"`(?:[^`\n]|\n(?!\n))*`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)


def functions(page):
    quotes = quoted.Quotes(page.parent)
    own = {name: getattr(quotes, name) for name in dir(quotes) if not name.startswith("_")}
    shared = {name: getattr(quoted, name) for name in ("number", "span", "each", "worst", "best", "percent", "lines", "markdown")}
    return {**shared, **own, **goals.functions(quotes)}


def value(page, expression):
    try:
        found = eval(" ".join(expression.split()), functions(page))  # pages are sources, as this file is
    except Exception as error:
        raise Failure(f"{page}: {expression}: {type(error).__name__}: {error}") from error
    if not isinstance(found, str):
        raise Failure(f"{page}: {expression} gives {found!r}, not text; span, each or table make text of values")
    return found


def is_example(match):
    """Whether the place stands in an indented block of code."""
    begin = match.string.rfind("\n", 0, match.start()) + 1
    return match.string[begin:begin + 4] == "    "


def places(text):
    return [match for match in PLACE.finditer(text) if not is_example(match)]


def filled(page, text):
    def place(match):
        if is_example(match):
            return match[0]
        found = value(page, match["expression"])
        return f"<!--= {match['expression']} -->" + (f"\n\n{found}\n\n" if "\n" in found else found) + "<!--/-->"
    return PLACE.sub(place, text)


def differences(page, text):
    """What the page says and what its result files say, where the two differ."""
    for match in places(text):
        found = value(page, match["expression"])
        if match["text"].strip() != found:
            line = text.count("\n", 0, match.start()) + 1
            yield f"{page}:{line}: the page says \"{match['text'].strip()}\", the result files \"{found}\" ({match['expression']})"


def nominal(page):
    """The figures of a page that are limits and settings of the library or the harness, and no results (nominal.csv)."""
    with open(NOMINAL, encoding="utf-8", newline="") as file:
        return {row["figure"] for row in csv.DictReader(file) if quoted.ROOT / row["page"] == page.resolve()}


def untied(page, text):
    """Figures of which nothing says from which result file they are."""
    known = nominal(page)
    for match in MEASURED.finditer(blanked(text)):
        figure = unwrapped(match[0])
        if figure.strip(" .,;:)") in known:
            continue
        yield f"{page}:{text.count(chr(10), 0, match.start()) + 1}: \"{figure}\" is tied to no result file"


def unwrapped(text):
    """Without ends of lines: a number may end one whose unit begins the next."""
    return text.replace("\n", " ")


def blanked(text):
    """The same length and lines, without what may hold numbers that are no figures. Code goes first: a line that begins with a place
    would else look like it."""
    for pattern in (CODE, PLACE, NOT_FIGURES):
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def pages():
    return sorted((quoted.ROOT / "docs").rglob("*.md")) + [quoted.ROOT / name for name in ("README.md", "CHANGELOG.md")]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE.md")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    try:
        return check(options.pages or pages()) if options.check else fill(options.pages or pages())
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1


def check(chosen):
    found = []
    for page in chosen:
        text = page.read_text(encoding="utf-8")
        found += differences(page, text)
        found += untied(page, text)
    print("\n".join(found) or f"{len(chosen)} pages say what the result files say")
    return 1 if found else 0


def fill(chosen):
    for page in chosen:
        text = page.read_text(encoding="utf-8")
        found = filled(page, text)
        if found != text:
            page.write_text(found, encoding="utf-8")
            print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
