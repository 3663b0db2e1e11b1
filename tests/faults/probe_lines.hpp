// The lines "probe: ..." that the probes print and the tests look at.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <string>

inline int own_rank = 0;

/// One line, in one write, so that those of the ranks do not mix.
inline void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
inline void say(const char* format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::string line = "probe: rank " + std::to_string(own_rank) + " " + text + "\n";
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line.data(), line.size());
}

/// Starts MPI and says which process this rank is. Gives the number of ranks; ends a process that gets no MPI.
inline int begin_probe(int& argc, char**& argv) {
  int level = 0;
  int size = 0;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) _exit(3);
  MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  say("runs as pid %d", static_cast<int>(getpid()));
  return size;
}

/// That of the library whose codes the program has.
inline int (*error_string)(int code, char* text, int* length) = MPI_Error_string;

inline std::string sentence_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  error_string(code, text, &length);
  for (char* c = text; *c != '\0'; ++c) {
    if (*c == '\n') *c = ' ';
  }
  return text;
}

inline int class_of(int code) {
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  return error_class;
}

/// What this rank was told, as `code`, after so long.
inline void say_survives(int code, double waited_s) {
  say("survives: class %d after %.1f s: %s", class_of(code), waited_s, sentence_of(code).c_str());
}
