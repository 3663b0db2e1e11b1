"""What all tests in Python share: what CTest gives them, and how they tell it what was skipped (docs/design/testing.md)."""

import pathlib

import pytest

from given import Given, add_option

SKIPPED_EXIT_CODE = 77  # partita_add_test_entry() in cmake/PartitaTest.cmake
SOURCES = pathlib.Path(__file__).resolve().parents[1]


def pytest_addoption(parser):
    add_option(parser)


@pytest.fixture(scope="session")
def given(pytestconfig):
    return Given(pytestconfig)


@pytest.fixture(scope="session")
def sources():
    return SOURCES


# ---- What ./dev reads, and the exit code for CTest --------------------------------------------------------------------


def case_of(report):
    return (report.nodeid.partition("::")[2] or report.nodeid).replace(" ", "_")


def reason_of(report):
    return " ".join(report.longrepr[2].split()).removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter):
    """./dev shows the end of what a failed test says, so cases that passed are silent where others failed."""
    if not terminalreporter.getreports("failed") and not terminalreporter.getreports("error"):
        for report in terminalreporter.getreports("passed"):
            if report.capstdout.strip():
                terminalreporter.write_line(f"{case_of(report)} says:\n{report.capstdout.rstrip()}")
    for report in terminalreporter.getreports("skipped"):
        terminalreporter.write_line(f"skipped: {case_of(report)}: {reason_of(report)}")


def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and not reporter.getreports("passed") and reporter.getreports("skipped"):
        session.exitstatus = SKIPPED_EXIT_CODE
