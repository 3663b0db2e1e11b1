"""The core calls the MPI by its table of pointers alone (src/core/native_calls.inc): a direct call of MPI_X or PMPI_X would
end in the drop-in, which stands behind both names."""

import re
import subprocess

import pytest

FUNCTION = re.compile(r"\bP?MPIX?_[A-Z][a-z]\w*")


@pytest.fixture(scope="module")
def names(given):
    """The MPI's functions that the library calls directly, and those of its table."""
    listed = subprocess.run([given["readelf"], "--relocs", "--wide", given["library"]], check=True, capture_output=True,
                            text=True).stdout
    named = [(line, FUNCTION.search(line)) for line in listed.splitlines()]
    # What a call goes through is a slot of the procedure linkage table, or, without one, an entry of the offset table.
    direct = {found.group() for line, found in named if found and re.search(r"JUMP_S|GLOB_DAT", line)}
    return direct, {found.group() for _, found in named if found} - direct


def test_the_core_calls_no_function_of_the_mpi_past_its_table(names):
    direct, _ = names
    assert sorted(direct) == []


def test_the_table_of_the_core_names_functions_of_the_mpi(names):
    _, in_table = names
    assert in_table
