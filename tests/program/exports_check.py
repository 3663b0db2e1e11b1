"""A shared library shows the names of its interface and nothing else: what more it showed would stand before the same
names of other libraries in the process, those of the C++ library first of all.

    exports_check.py NM LIBRARY PREFIX...
"""
import subprocess
import sys

NM, LIBRARY, *PREFIXES = sys.argv[1:]
listed = subprocess.run([NM, "--dynamic", "--defined-only", "--format=posix", LIBRARY], check=True, capture_output=True, text=True)
names = [line.split()[0].split("@")[0] for line in listed.stdout.splitlines()]
others = sorted(name for name in names if not name.startswith(tuple(PREFIXES)))
unused = [prefix for prefix in PREFIXES if not any(name.startswith(prefix) for name in names)]
if others or unused:
    print(f"FAILED: {LIBRARY} shows {len(others)} names that begin with none of {', '.join(PREFIXES)}: {' '.join(others[:20])}")
    print(f"prefixes that no name has: {', '.join(unused) or 'none'}")
    sys.exit(1)
