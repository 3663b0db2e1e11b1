// Whether the MPI of this process is one that the library was built for. A preloaded library, or one of another
// installation, meets any; handles of one MPI are numbers, of another addresses, so that nothing may be tried.
#pragma once

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace partita {

/// MPIs of one family share their binary interface.
enum class MpiFamily { mpich, open_mpi, unknown };

#if defined(OPEN_MPI)
inline constexpr MpiFamily built_for = MpiFamily::open_mpi;
inline constexpr const char* built_for_name = "Open MPI";
#elif defined(MPICH_VERSION)
inline constexpr MpiFamily built_for = MpiFamily::mpich;
inline constexpr const char* built_for_name = "MPICH";
#else
inline constexpr MpiFamily built_for = MpiFamily::unknown;
inline constexpr const char* built_for_name = "another MPI";
#endif

/// The family of an MPI by what its MPI_Get_library_version says.
inline MpiFamily family_of(std::string_view library_version) {
  const auto says = [&](std::string_view word) { return library_version.find(word) != std::string_view::npos; };
  if (says("Open MPI") || says("Spectrum MPI")) return MpiFamily::open_mpi;
  if (says("MPICH") || says("MVAPICH") || says("Intel(R) MPI")) return MpiFamily::mpich;
  return MpiFamily::unknown;
}

/// The beginning of such a text, which may go on for pages: "Open MPI v4.1.4", "MPICH Version: 5.0.2".
inline std::string short_name(std::string_view library_version) {
  std::string name;
  for (const char letter : library_version.substr(0, library_version.find_first_of(",\n"))) {
    const bool space = letter == ' ' || letter == '\t';
    if (!space) name += letter;
    if (space && !name.empty() && name.back() != ' ') name += ' ';
  }
  return name;
}

/// What MPI_Get_library_version says, whosever it is: MPIs differ in how long that may be.
inline std::string library_version(decltype(&PMPI_Get_library_version) get_library_version) {
  std::array<char, 16384> text{};
  int length = 0;
  return get_library_version(text.data(), &length) == MPI_SUCCESS ? text.data() : "";
}

/// Ends this process with a sentence where the MPI whose function is given is of another family than the one that
/// `library` was built for. At any time, before MPI_Init too.
inline void end_under_another_mpi(const char* library, decltype(&PMPI_Get_library_version) get_library_version) {
  const std::string found = library_version(get_library_version);
  const MpiFamily family = family_of(found);
  if (family == built_for || family == MpiFamily::unknown || built_for == MpiFamily::unknown) return;
  const std::string line = fmt::format(
      "[partita] {} was built for {}, but the MPI of this process is {}: load the one that was built for that MPI, or "
      "compile the program with the compiler wrapper of {}\n",
      library, built_for_name, short_name(found), built_for_name);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  std::_Exit(EXIT_FAILURE);
}

}  // namespace partita
