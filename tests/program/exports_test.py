"""A shared library shows the names of its interface and nothing else: what more it showed would stand before the same names
of other libraries in the process, those of the C++ library first of all."""

import subprocess

import pytest


@pytest.fixture(scope="module")
def names(given):
    listed = subprocess.run([given["nm"], "--dynamic", "--defined-only", "--format=posix", given["library"]], check=True,
                            capture_output=True, text=True)
    return [line.split()[0].split("@")[0] for line in listed.stdout.splitlines()]


@pytest.fixture(scope="module")
def prefixes(given):
    return tuple(given["prefixes"].split(","))


def test_the_library_shows_no_name_beside_its_interface(names, prefixes):
    assert sorted(name for name in names if not name.startswith(prefixes)) == []


def test_the_library_shows_names_of_its_whole_interface(names, prefixes):
    assert [prefix for prefix in prefixes if not any(name.startswith(prefix) for name in names)] == []
