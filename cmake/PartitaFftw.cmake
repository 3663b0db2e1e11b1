# Finds FFTW 3, by which the app fft transforms on hosts. It is under the GPL, and so is then a program that is passed on with
# it, so whether it is taken is for whoever builds to say (PARTITA_FFTW). Makes the target PkgConfig::fftw3 where it is taken,
# and sets fftw3_VERSION.

# It was a switch whose ON meant what AUTO means now: build folders of then go on as they were.
get_property(was_a_switch CACHE PARTITA_FFTW PROPERTY TYPE)
if(was_a_switch STREQUAL "BOOL" AND PARTITA_FFTW)
  set(PARTITA_FFTW AUTO CACHE STRING "" FORCE)
endif()
set(PARTITA_FFTW AUTO CACHE STRING "FFTW, which is under the GPL, in the program partita: AUTO (where it is found), ON or OFF")
set_property(CACHE PARTITA_FFTW PROPERTY STRINGS AUTO ON OFF)
if(NOT PARTITA_FFTW MATCHES "^(AUTO|ON|OFF)$")
  # Whoever wants to do without must not get it by another word for OFF.
  message(FATAL_ERROR "PARTITA_FFTW is '${PARTITA_FFTW}', but takes AUTO, ON or OFF")
endif()

# Debian's CMake files of FFTW miss a part, so pkg-config tells.
if(NOT PARTITA_FFTW STREQUAL "OFF")
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(fftw3 QUIET IMPORTED_TARGET GLOBAL fftw3>=3.3)
  endif()
endif()

if(TARGET PkgConfig::fftw3)
  message(STATUS "FFTW: ${fftw3_VERSION}; who passes the program partita on with it does so under the GPL (-DPARTITA_FFTW=OFF: without)")
elseif(PARTITA_FFTW STREQUAL "ON")
  message(FATAL_ERROR "PARTITA_FFTW is ON, but FFTW from 3.3 was not found by pkg-config; install libfftw3-dev and pkg-config, or "
                      "take -DPARTITA_FFTW=AUTO, which builds without it")
elseif(PARTITA_FFTW STREQUAL "OFF")
  message(STATUS "FFTW: left out (PARTITA_FFTW is OFF); partita run fft transforms on GPUs only")
else()
  message(STATUS "FFTW: not found (3.3, by pkg-config); partita run fft transforms on GPUs only")
endif()
