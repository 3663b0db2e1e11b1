# Finds a Python that has pytest, for the tests in Python. Sets
#   PARTITA_PYTEST   the words before the arguments of pytest
# Taken is the first of: the Python that CMake finds (-DPython3_EXECUTABLE=... names another), that of .venv, and the former
# with the packages of .venv, whose own Python may be missing where it was copied from another machine: pytest is Python alone.

find_package(Python3 COMPONENTS Interpreter)
set(PARTITA_PYTEST "")
set(pytest_needed 7.0)
set(pytest_answers "")
file(GLOB venv_packages "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages")
foreach(candidate "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/.venv/bin/python3"
                  "${CMAKE_COMMAND};-E;env;PYTHONPATH=${venv_packages};${Python3_EXECUTABLE}")
  list(GET candidate -1 interpreter)
  if(PARTITA_PYTEST OR NOT interpreter OR NOT EXISTS "${interpreter}")
    continue()
  endif()
  execute_process(COMMAND ${candidate} -c "import pytest; print(pytest.__version__)" RESULT_VARIABLE code
                  OUTPUT_VARIABLE version ERROR_VARIABLE complaint OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT code EQUAL 0)
    string(REGEX MATCH "[^\n]*$" complaint "${complaint}")
    string(APPEND pytest_answers "\n  ${interpreter}: ${complaint}")
  elseif(version VERSION_LESS pytest_needed)
    string(APPEND pytest_answers "\n  ${interpreter}: pytest ${version}")
  else()
    set(PARTITA_PYTEST ${candidate} -m pytest)
    message(STATUS "pytest: ${version} (${interpreter})")
  endif()
endforeach()
if(NOT PARTITA_PYTEST)
  message(FATAL_ERROR "the tests need Python with pytest ${pytest_needed} or later. ./dev setup brings it; by hand: "
    "'python3 -m pip install pytest' or a package such as python3-pytest; -DPython3_EXECUTABLE=... names another Python, and "
    "-DPARTITA_BUILD_TESTS=OFF builds without the tests. Asked were:${pytest_answers}")
endif()
