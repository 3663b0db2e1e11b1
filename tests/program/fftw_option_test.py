"""What cmake/PartitaFftw.cmake takes, by PARTITA_FFTW and by what pkg-config finds, and what it says of it."""

import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("pkg-config") is None, reason="needs pkg-config")
GPL = "under the GPL"


@pytest.fixture
def configure(given, sources, tmp_path):
    """Configures a project of nothing else, where pkg-config finds an FFTW of this version, or none: what became of it. Again in
    the same build folder where it is called again."""
    project, packages, libraries = (tmp_path / name for name in ("project", "packages", "libraries"))
    for folder in (project, packages, libraries):
        folder.mkdir()
    (project / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(fftw_option LANGUAGES C)\ninclude({sources / 'cmake/PartitaFftw.cmake'})\n"
        'if(TARGET PkgConfig::fftw3)\n  message(STATUS "it is taken")\nendif()\n')
    (libraries / "libfftw3.so").touch()

    def configured(*options, found=None):
        if found:
            (packages / "fftw3.pc").write_text(f"Name: FFTW\nDescription: FFTW\nVersion: {found}\nLibs: -L{libraries} -lfftw3\n")
        command = [given["cmake"], "-S", project, "-B", tmp_path / "build", f"-DCMAKE_C_COMPILER={given['compiler']}", *options]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "PKG_CONFIG_LIBDIR": str(packages), "PKG_CONFIG_PATH": ""})
    return configured


def taken(result):
    return "it is taken" in result.stdout


@pytest.mark.parametrize("options", [[], ["-DPARTITA_FFTW=AUTO"], ["-DPARTITA_FFTW=ON"]], ids=["unset", "auto", "on"])
def test_what_is_found_is_taken_and_told(configure, options):
    result = configure(*options, found="3.3.10")
    assert result.returncode == 0 and taken(result), result.stdout
    assert "FFTW: 3.3.10" in result.stdout and GPL in result.stdout, result.stdout


@pytest.mark.parametrize("found", [None, "3.2"], ids=["none", "too_old"])
def test_auto_does_without(configure, found):
    result = configure(found=found)
    assert result.returncode == 0 and not taken(result), result.stdout
    assert "FFTW: not found" in result.stdout and GPL not in result.stdout, result.stdout


@pytest.mark.parametrize("found", [None, "3.2"], ids=["none", "too_old"])
def test_on_is_an_error_where_there_is_none(configure, found):
    result = configure("-DPARTITA_FFTW=ON", found=found)
    said = " ".join(result.stdout.split())
    assert result.returncode != 0, said
    assert "PARTITA_FFTW is ON, but FFTW from 3.3 was not found" in said and "libfftw3-dev" in said, said


def test_the_switch_that_it_was_goes_on(configure):
    """A build folder of then, whose ON was the default."""
    result = configure("-DPARTITA_FFTW:BOOL=ON")
    assert result.returncode == 0 and "FFTW: not found" in result.stdout, result.stdout


def test_off_never_takes_it_also_in_a_folder_that_had_it(configure):
    assert taken(configure(found="3.3.10"))
    result = configure("-DPARTITA_FFTW=OFF", found="3.3.10")
    assert result.returncode == 0 and not taken(result), result.stdout
    assert "FFTW: left out" in result.stdout and GPL not in result.stdout, result.stdout
    assert not taken(configure(found="3.3.10")), "it stays so"


@pytest.mark.parametrize("word", ["off", "NO", "0", "FALSE", ""])
def test_another_word_is_an_error_and_takes_nothing(configure, word):
    result = configure(f"-DPARTITA_FFTW={word}", found="3.3.10")
    assert result.returncode != 0 and not taken(result), result.stdout
    assert f"PARTITA_FFTW is '{word}', but takes AUTO, ON or OFF" in " ".join(result.stdout.split()), result.stdout
