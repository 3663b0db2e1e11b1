"""`partita report`; the program partita starts this file, and `python3 bench/report.py` does the same without it."""
import sys

from partita_report.command import main

if __name__ == "__main__":
    sys.exit(main())
