"""The core calls the MPI by its table of pointers alone (src/core/native_calls.inc): a direct call of MPI_X or PMPI_X would
end in the drop-in, which stands behind both names.

    native_calls_check.py READELF LIBRARY
"""
import re
import subprocess
import sys

READELF, LIBRARY = sys.argv[1:]
FUNCTION = re.compile(r"\bP?MPIX?_[A-Z][a-z]\w*")
listed = subprocess.run([READELF, "--relocs", "--wide", LIBRARY], check=True, capture_output=True, text=True).stdout
named = [(line, FUNCTION.search(line)) for line in listed.splitlines()]
# What a call goes through is a slot of the procedure linkage table, or, without one, an entry of the offset table.
direct = sorted({found.group() for line, found in named if found and re.search(r"JUMP_S|GLOB_DAT", line)})
in_table = {found.group() for line, found in named if found} - set(direct)
if direct:
    print(f"FAILED: {LIBRARY} calls past its table: {', '.join(direct)}")
    sys.exit(1)
if not in_table:
    print(f"FAILED: {LIBRARY} names no function of the MPI; expected are those of its table")
    sys.exit(1)
