"""A program that has the tests of several files runs those of the files that PARTITEST_FILES names."""

import os
import pathlib
import re
import subprocess

SOURCES = pathlib.Path(__file__).parent
CASE = re.compile(r"^TEST(?:_F)?\((\w+), (\w+)\)", re.MULTILINE)


def cases_of(*names):
    """What stands in the sources `names`."""
    return {f"{suite}.{case}" for name in names for suite, case in CASE.findall((SOURCES / name).read_text())}


def listed(given, files, *options):
    """The cases that the program would run, as GoogleTest lists them: each suite, and its cases indented behind it."""
    run = subprocess.run([given["program"], "--gtest_list_tests", *options], check=True, capture_output=True, text=True,
                         env={**os.environ, "PARTITEST_FILES": files})
    found, suite = set(), ""
    for line in run.stdout.splitlines():
        if line.startswith("  "):
            found.add(suite + line.split()[0])
        elif line.endswith("."):
            suite = line
    return found


def test_the_cases_of_one_file_run(given):
    assert listed(given, "transfer_empty.cpp") == cases_of("transfer_empty.cpp") != set()


def test_the_cases_of_several_files_run(given):
    assert listed(given, "transfer_empty.cpp,transfer_ends.cpp") == cases_of("transfer_empty.cpp", "transfer_ends.cpp")


def test_without_files_all_run(given):
    assert listed(given, "") > cases_of("transfer_empty.cpp", "transfer_ends.cpp")


def test_the_filter_chooses_among_them(given):
    own = cases_of("transfer_empty.cpp")
    fails = {case for case in own if "fails" in case}
    assert fails and fails != own
    assert listed(given, "transfer_empty.cpp", "--gtest_filter=*fails*") == fails
    assert listed(given, "transfer_empty.cpp", "--gtest_filter=-*fails*") == own - fails
    assert listed(given, "transfer_empty.cpp", "--gtest_filter=Empty*-*fails*") == own - fails


def test_files_of_which_there_is_no_case_end_the_program(given):
    run = subprocess.run([given["program"]], capture_output=True, text=True,
                         env={**os.environ, "PARTITEST_FILES": "nothing.cpp"})
    assert run.returncode == 2
    assert run.stderr == "PARTITEST_FILES=nothing.cpp: this program has no case of these files\n"
