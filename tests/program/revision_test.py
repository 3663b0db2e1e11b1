"""What cmake/PartitaRevision.cmake takes for the revision of the sources, and that it writes only what is new."""

import os
import re
import shutil
import subprocess

import pytest

GIT = shutil.which("git")
pytestmark = pytest.mark.skipif(GIT is None, reason="needs git")


@pytest.fixture(scope="module", autouse=True)
def no_git_of_the_caller():
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            patch.delenv(name)
        yield


def git(folder, *arguments):
    known = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    result = subprocess.run([GIT, "-C", folder, *known, *arguments], check=True, capture_output=True, text=True)
    return result.stdout.strip()


@pytest.fixture
def output(tmp_path):
    return tmp_path / "revision.cpp"


@pytest.fixture
def revision(given, sources, output):
    def of(source, program=GIT, override=""):
        subprocess.run([given["cmake"], "-D", f"SOURCE={source}", "-D", f"OUTPUT={output}", "-D", f"GIT={program}", "-D",
                        f"REVISION={override}", "-P", sources / "cmake/PartitaRevision.cmake"], check=True)
        return re.search(r'return "(.*)";', output.read_text()).group(1)
    return of


@pytest.fixture(scope="module")
def first_checkout(tmp_path_factory):
    """A checkout of one commit, with a tag, whose name is not wanted."""
    folder = tmp_path_factory.mktemp("first")
    git(folder, "init", "--quiet")
    (folder / "file").write_text("one\n")
    (folder / "unpacked").mkdir()
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "--message", "one")
    git(folder, "tag", "v1")
    return folder


@pytest.fixture
def checkout(first_checkout, tmp_path):
    return shutil.copytree(first_checkout, tmp_path / "checkout")


def test_a_clean_checkout_is_its_commit(revision, checkout):
    found = revision(checkout)
    assert len(found) >= 12 and git(checkout, "rev-parse", "HEAD").startswith(found)


def test_only_another_revision_is_written(revision, checkout, output):
    found = revision(checkout)
    os.utime(output, (1, 1))
    revision(checkout)
    assert output.stat().st_mtime == 1, "the same revision is not written again"
    (checkout / "file").write_text("two\n")
    assert revision(checkout) == f"{found}-dirty", "a changed file shows"
    assert output.stat().st_mtime != 1, "another revision is written"


def test_a_worktree_is_its_own_commit(revision, checkout, tmp_path):
    found = revision(checkout)
    (checkout / "file").write_text("two\n")
    git(checkout, "worktree", "add", "--quiet", "--detach", str(tmp_path / "worktree"))
    assert revision(tmp_path / "worktree") == found


def test_a_folder_within_another_checkout_is_not_of_its_revision(revision, checkout):
    assert revision(checkout / "unpacked") == "unknown"


def test_a_folder_without_git_has_no_revision(revision, tmp_path):
    assert revision(tmp_path) == "unknown"


def test_without_git_no_revision_is_known(revision, checkout):
    assert revision(checkout, program="GIT-NOTFOUND") == "unknown"


def test_what_is_said_stands_above_what_is_found(revision, checkout, tmp_path):
    assert revision(tmp_path, override="1.0-rc") == "1.0-rc"
    assert revision(checkout, override="1.0-rc") == "1.0-rc"
