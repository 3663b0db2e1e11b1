"""Checks what cmake/PartitaRevision.cmake takes for the revision of the sources, and that it writes only what is new.

    revision_check.py CMAKE SCRIPT
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CMAKE, SCRIPT = sys.argv[1:]
GIT = shutil.which("git")
failures = []


def git(folder, *arguments):
    known = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    result = subprocess.run([GIT, "-C", folder, *known, *arguments], check=True, capture_output=True, text=True)
    return result.stdout.strip()


def revision(source, output, program=GIT, override=""):
    subprocess.run([CMAKE, "-D", f"SOURCE={source}", "-D", f"OUTPUT={output}", "-D", f"GIT={program}", "-D",
                    f"REVISION={override}", "-P", SCRIPT], check=True)
    return re.search(r'return "(.*)";', output.read_text()).group(1)


def expect(condition, what):
    if not condition:
        failures.append(what)


def make_checkout(folder):
    """A checkout of one commit, with a tag, whose name is not wanted."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "file").write_text("one\n")
    (folder / "unpacked").mkdir()
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "--message", "one")
    git(folder, "tag", "v1")
    return git(folder, "rev-parse", "HEAD")


def check(folder):
    checkout, worktree, output = folder / "checkout", folder / "worktree", folder / "revision.cpp"
    commit = make_checkout(checkout)
    found = revision(checkout, output)
    expect(len(found) >= 12 and commit.startswith(found), f"a clean checkout is its commit, not {found}")

    os.utime(output, (1, 1))
    revision(checkout, output)
    expect(output.stat().st_mtime == 1, "the same revision is not written again")

    (checkout / "file").write_text("two\n")
    expect(revision(checkout, output) == f"{found}-dirty", "a changed file shows")
    expect(output.stat().st_mtime != 1, "another revision is written")

    git(checkout, "worktree", "add", "--quiet", "--detach", str(worktree))
    expect(revision(worktree, output) == found, "a worktree is its own commit")
    expect(revision(checkout / "unpacked", output) == "unknown", "a folder in another checkout is not of its revision")
    expect(revision(folder, output) == "unknown", "a folder without git has no revision")
    expect(revision(checkout, output, program="GIT-NOTFOUND") == "unknown", "without git no revision is known")
    expect(revision(folder, output, override="1.0-rc") == "1.0-rc", "what is said stands above what is found")


if GIT is None:
    print("skipped: needs git")
    sys.exit(77)
for name in [name for name in os.environ if name.startswith("GIT_")]:
    del os.environ[name]
with tempfile.TemporaryDirectory() as place:
    check(pathlib.Path(place))
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
