"""A program that loads libraries in scopes of their own uses the MPI's objects themselves: a copy of MPI_INFO_NULL in the program
would be another handle than the library's."""

import subprocess


def test_the_program_has_no_copy_of_an_object_of_the_mpi(given):
    listed = subprocess.run([given["readelf"], "--relocs", "--wide", given["program"]], check=True, capture_output=True, text=True)
    copied = [line.split()[4] for line in listed.stdout.splitlines() if "_COPY" in line]
    assert [name for name in copied if name.startswith(("ompi_", "MPI_", "MPIR_"))] == []
