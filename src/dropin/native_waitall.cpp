#include "dropin/native_waitall.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/which_mpi.hpp"
#include "dropin/native.hpp"
#include "dropin/runtime.hpp"
#include "dropin/scratch.hpp"
#include "dropin/split.hpp"

namespace partita::dropin {
namespace {

bool may_have_the_defect(std::string_view library_version) {
  if (family_of(library_version) != MpiFamily::open_mpi) return false;
  constexpr std::string_view before_the_version = "Open MPI v";
  const std::size_t found = library_version.find(before_the_version);
  if (found == std::string_view::npos) return true;  // Spectrum MPI, which is made of an older Open MPI
  const std::string_view version = library_version.substr(found + before_the_version.size());
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major < 5;
}

/// The statuses of requests on which a failed call has not reported.
void settle_others(int count, MPI_Request requests[], MPI_Status statuses[], const bool reported[]) {
  for (int i = 0; i < count; ++i) {
    if (reported[i]) continue;
    int complete = 0;
    const int code = native().Test(&requests[i], &complete, &statuses[i]);
    statuses[i].MPI_ERROR = code != MPI_SUCCESS ? code : complete != 0 ? MPI_SUCCESS : MPI_ERR_PENDING;
  }
}

/// Whether the MPI has the defect now.
bool spins_on_failed() {
  static const bool may = may_have_the_defect(library_version(native().Get_library_version));
  int level = MPI_THREAD_SINGLE;
  return may && native().Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE;
}

/// Every status is the caller's to read in the end, or none is wanted.
int waitall_by_waitsome(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const auto n = static_cast<std::size_t>(count);
  Scratch scratch(Scratch::need<MPI_Status>(n) + Scratch::need<int>(n) + Scratch::need<bool>(n));
  MPI_Status* const found = scratch.take<MPI_Status>(n);
  int* const indices = scratch.take<int>(n);
  bool* const reported = scratch.take<bool>(n);
  const bool wanted = statuses != MPI_STATUSES_IGNORE;
  if (wanted) std::fill_n(statuses, count, empty_status());
  for (;;) {
    int done = 0;
    const int code = native().Waitsome(count, requests, &done, indices, wanted ? found : MPI_STATUSES_IGNORE);
    const bool failed = is_in_status(code);
    if (done == MPI_UNDEFINED || (code != MPI_SUCCESS && !failed)) return code;
    for (int i = 0; wanted && i < done; ++i) {
      statuses[indices[i]] = found[i];
      reported[indices[i]] = true;
    }
    if (!failed) continue;
    if (wanted) settle_others(count, requests, statuses, reported);
    return code;
  }
}

}  // namespace

int native_waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const bool is_refused = count <= 0 || requests == nullptr || are_missing(statuses);
  return is_refused || !spins_on_failed() ? native().Waitall(count, requests, statuses)
                                          : waitall_by_waitsome(count, requests, statuses);
}

}  // namespace partita::dropin
