"""What the commands of ./dev bring, build and start, without doing any of it; and what they say of wrong words."""

import contextlib
import json
import os
import sys
import time

import pytest

from dev_script import SOURCES, load_dev

FOR_USERS = ["demo", "run", "bench", "install"]


@pytest.fixture
def dev(tmp_path, monkeypatch):
    """./dev in an empty folder. `dev.brought` names what it would have installed, `dev.steps` what it would have called."""
    dev = load_dev()
    dev.BUILD, dev.LOGS, dev.brought, dev.steps = tmp_path / "build", tmp_path / "log", [], []
    monkeypatch.setattr(dev, "install_system_packages", dev.brought.extend)
    monkeypatch.setattr(dev, "make_venv", dev.brought.extend)
    monkeypatch.setattr(dev, "venv_is_made", lambda: True)
    monkeypatch.setattr(dev, "step", lambda title, *_more, **_options: dev.steps.append(title))
    monkeypatch.setattr(dev, "mpi_wrapper", lambda: str(dev.VENV / "bin/mpicc"))
    monkeypatch.setattr(dev, "find_nvcc", lambda: None)
    return dev


def commands():
    dev = load_dev()
    return [*dev.COMMANDS, *dev.LAUNCHERS]


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_and_does_nothing_else_then(dev, capsys, name):
    assert dev.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: ./dev {name}")
    assert f"./dev {name}" in dev.__doc__
    assert dev.brought == dev.steps == []


@pytest.mark.parametrize("words, said", [(["tset"], "unknown command 'tset'; there are: demo, test"),
                                         (["test", "--al"], "unknown option --al; there is --all"),
                                         (["demo", "fast"], "unexpected argument 'fast'"), (["install"], "needs the prefix"),
                                         (["run", "-n", "0"], "the number of ranks"), (["build", "debug"], "there is no preset 'debug'")],
                         ids=lambda words: "_".join(words) if isinstance(words, list) else "")
def test_wrong_words_are_told(dev, words, said):
    with pytest.raises(dev.Failure) as told:
        dev.main(words)
    assert said in str(told.value)


@pytest.mark.parametrize("name", [*FOR_USERS, "test", "format"])
def test_tools_come_only_to_those_who_use_them(dev, monkeypatch, name):
    monkeypatch.setattr(dev, "run_program", lambda *_: 0)
    if name in dev.COMMANDS:
        monkeypatch.setattr(dev.COMMANDS[name], "function", lambda *_: 0)
    assert dev.main([name]) == 0
    assert {"cmake", "mpich", "pkg-config"} <= set(dev.brought)
    assert ("clang-format" in dev.brought) == (name == "format")
    assert ("pytest" in dev.brought) == ("libgtest-dev" in dev.brought) == (name == "test")


def test_lint_says_which_sources_it_cannot_read(dev, monkeypatch, capsys):
    monkeypatch.setattr(dev, "write_module_map", lambda path: None)
    monkeypatch.setattr(dev, "with_modules", lambda command, folder: command)
    monkeypatch.setattr(dev, "run_tidy", lambda arguments: None)
    monkeypatch.setattr(dev, "lint_commands", lambda mpicc: {"src/a.cpp": {"file": "src/a.cpp", "command": "g++ -c src/a.cpp"}})
    monkeypatch.setattr(dev, "tracked", lambda *patterns: ["src/a.cpp", "bench/gpu/b.cpp"])
    dev.clang_tidy([])
    assert "leaves out what nothing compiles without nvcc, 1 in all: bench/gpu/b.cpp" in capsys.readouterr().out


def test_ci_lints_every_source_the_suites_of_the_tests_too(dev, monkeypatch):
    sources = ["src/a.cpp", "src/b.cpp", "tests/support/c.cpp", "tests/unit/d_test.cpp", "tests/gpu/e_test.cpp"]
    bodies, read = {}, set()
    monkeypatch.setattr(dev, "run_leg", bodies.__setitem__)
    monkeypatch.setattr(dev, "finish", len)
    monkeypatch.setattr(dev, "gpu_count", lambda: 0)
    monkeypatch.setattr(dev.Ahead, "add", lambda *_words, **_options: None)
    monkeypatch.setattr(dev, "write_commands", lambda _folder, entries: entries)
    monkeypatch.setattr(dev, "lint_commands", lambda _mpicc: {name: {"file": name, "command": "g++"} for name in sources})
    monkeypatch.setattr(dev, "tracked", lambda *_patterns: sources)
    monkeypatch.setattr(dev, "tidy", lambda _folder, _commands, group: read.update(group) or [])
    monkeypatch.setattr(dev, "includes", lambda _folder, _name: "")
    assert dev.test_all() == len(bodies)
    leg = dev.Leg("lint")
    bodies["lint"](leg)
    assert (leg.passed, read) == (1, set(sources))


@pytest.mark.parametrize("missing, told", [(["libfftw3-dev"], False), (["libfftw3-dev", "libfmt-dev"], True)])
def test_who_is_not_root_can_do_without_what_can_be_missed(monkeypatch, missing, told):
    dev = load_dev()
    monkeypatch.setattr(dev.shutil, "which", lambda name: name)
    monkeypatch.setattr(dev.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(dev, "is_installed", lambda name: name not in missing)
    with pytest.raises(dev.Failure, match="libfmt-dev") if told else contextlib.nullcontext():
        dev.install_system_packages([*dev.PACKAGES, *dev.PACKAGES_THAT_CAN_BE_MISSED])


@pytest.mark.parametrize("nvcc, preset", [("/cuda/bin/nvcc", "release-cuda"), (None, "release")])
def test_users_get_the_gpu_parts_where_nvcc_is_found_and_no_tests(dev, monkeypatch, nvcc, preset):
    monkeypatch.setattr(dev, "find_nvcc", lambda: nvcc)
    assert dev.build_for_users() == dev.BUILD / preset
    assert dev.steps == [f"configure {preset}", f"build {preset}"]
    presets = {each["name"]: each for each in json.loads((SOURCES / "CMakePresets.json").read_text())["configurePresets"]}
    variables = {**presets["release"]["cacheVariables"], **presets[preset]["cacheVariables"]}
    assert variables["PARTITA_BUILD_TESTS"] == "OFF"
    assert variables.get("PARTITA_CUDA", "OFF") == ("ON" if nvcc else "OFF")


@pytest.mark.parametrize("release, taken", [("12.3", False), ("12.4", True), ("13.0", True)])
def test_an_nvcc_that_is_too_old_is_told(tmp_path, monkeypatch, capsys, release, taken):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.1'\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDACXX", str(nvcc))
    assert load_dev().find_nvcc() == (str(nvcc) if taken else None)
    assert ("they need CUDA 12.4" in capsys.readouterr().out) != taken


def test_run_takes_what_was_built_last_and_builds_where_there_is_nothing(dev):
    assert dev.built_last() == dev.BUILD / "release"
    for age_s, preset in enumerate(["cuda", "dev", "release"]):
        program = dev.BUILD / preset / "bin/partita"
        program.parent.mkdir(parents=True)
        program.touch()
        os.utime(program, (1000 - age_s, 1000 - age_s))
    dev.steps.clear()
    assert dev.built_last() == dev.BUILD / "cuda"
    assert dev.steps == ["build cuda"]


def test_a_log_sees_how_far_a_build_is_from_time_to_time(dev, monkeypatch, capsys):
    progress = dev.Progress("build release")
    progress.see("[1/90] Building CXX object a.o")
    monkeypatch.setattr(dev, "PROGRESS_EVERY_S", 0)
    progress.see("[2/90] Building CXX object b.o")
    progress.see("a warning")
    assert capsys.readouterr().out == "[2/90] "


def test_uninstall_removes_nothing_outside_the_prefix(dev, tmp_path):
    prefix, other = tmp_path / "prefix", tmp_path / "letter"
    with pytest.raises(dev.Failure, match="there is no Partita in"):
        dev.main(["uninstall", str(prefix)])
    (prefix / dev.RECORD).parent.mkdir(parents=True)
    (prefix / "lib").mkdir()
    (prefix / "lib/libpartita.so").touch()
    other.touch()
    (prefix / dev.RECORD).write_text("lib/libpartita.so\n../letter\n")
    with pytest.raises(dev.Failure, match="is not inside the prefix; nothing was removed"):
        dev.main(["uninstall", str(prefix)])
    assert other.exists() and (prefix / "lib/libpartita.so").exists()


# ---- Builds of later legs, while tests run ----------------------------------------------------------------------------


@pytest.fixture
def ahead(dev, tmp_path):
    dev.ROOT = tmp_path
    return dev.Ahead()


def wait_for(file):
    end = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < end, f"{file} never came"
        time.sleep(0.01)


def shell(words):
    return ["sh", "-c", words]


def test_builds_go_on_while_tests_run_and_end_with_them(ahead, tmp_path):
    ahead.builds = {"first": (shell("touch configured"), shell("touch built")),
                    "second": (shell("true"), shell("echo $$ > pid; touch building; exec sleep 1000"))}
    with ahead.go_on():
        wait_for(tmp_path / "building")
    assert (tmp_path / "configured").exists() and (tmp_path / "built").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_builds_run_where_nothing_else_does(ahead, tmp_path):
    ahead.builds = {"one": (shell("true"), [sys.executable, "-c", "import os, pathlib; pathlib.Path('policy').write_text("
                                            "f'{os.sched_getscheduler(0)} {os.nice(0)}'); pathlib.Path('told').touch()"])}
    with ahead.go_on():
        wait_for(tmp_path / "told")
    assert (tmp_path / "policy").read_text() in (f"{os.SCHED_IDLE} {os.nice(0)}", f"{os.SCHED_OTHER} 19")


def test_what_configures_is_not_interrupted(ahead, tmp_path):
    ahead.builds = {"one": (shell("touch begun; sleep 0.3; touch ended"), shell("touch built"))}
    with ahead.go_on():
        wait_for(tmp_path / "begun")
    assert (tmp_path / "ended").exists()


def test_a_build_that_fails_ahead_keeps_no_other(ahead, tmp_path):
    ahead.builds = {"one": (shell("exit 1"), shell("touch wrong")), "two": (shell("true"), shell("exit 1")),
                    "three": (shell("true"), shell("touch right"))}
    with ahead.go_on():
        wait_for(tmp_path / "right")
    assert not (tmp_path / "wrong").exists()


def test_a_leg_builds_by_itself_from_its_own_step_on(dev, ahead):
    dev.ahead, dev.ROOT = ahead, SOURCES
    ahead.add("asan", lambda: str(dev.VENV / "bin/mpicc"))
    assert list(ahead.builds) == [dev.BUILD / "asan"]
    dev.configure("asan")
    assert not ahead.builds


def test_a_build_whose_mpi_is_missing_is_left_to_its_leg(dev, ahead):
    def none():
        raise dev.Failure("none")
    dev.ROOT = SOURCES
    ahead.add("asan", none)
    assert not ahead.builds


@pytest.mark.parametrize("time_is_up_at, parts_run, left_out", [
    ("never", 3, 0), ("third part", 2, 1), ("first part", 0, 3), ("build", 0, 1)])
def test_a_sanitizer_begins_nothing_once_time_is_up(dev, monkeypatch, time_is_up_at, parts_run, left_out):
    steps, parts = iter(["build", "first part", "second part", "third part"]), []
    late = False

    def clock():
        nonlocal late
        late = late or next(steps) == time_is_up_at
        return dev.began + dev.SANITIZERS_END_S + (1 if late else -1)
    monkeypatch.setattr(dev, "build", lambda *_: dev.BUILD / "asan")
    monkeypatch.setattr(dev, "test_names", lambda _folder, chosen: [f"test of {chosen[-1]}"])
    monkeypatch.setattr(dev, "run_ctest", lambda _leg, _folder, extra, part: parts.append((extra[-1], part)))
    leg = dev.Leg("asan")
    with monkeypatch.context() as patched:
        patched.setattr(dev.time, "monotonic", clock)
        dev.sanitizer_leg("asan", None, [])(leg)
    assert parts == [(f"{part},,3", f"-{part}") for part in (1, 2, 3)][:parts_run]
    assert leg.skipped_count() == left_out
    assert all("75 minutes had passed" in reason for reason in leg.skipped)
