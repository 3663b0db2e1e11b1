#include "support/gather.hpp"

#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "support/job.hpp"
#include "support/watchdog.hpp"

namespace partita::test {
namespace {

// Failures on any rank in any case so far; the same on all ranks.
bool any_rank_failed = false;

std::string case_name(const testing::TestInfo& info) {
  return std::string(info.test_suite_name()) + "." + info.name();
}

struct Findings {
  std::string failures;
  std::string skips;
};

Findings findings_of(const testing::TestResult& result) {
  Findings found;
  for (int i = 0; i < result.total_part_count(); ++i) {
    const auto& part = result.GetTestPartResult(i);
    const std::string where = part.file_name() == nullptr
                                  ? "in an unknown place"
                                  : std::string(part.file_name()) + ":" + std::to_string(part.line_number());
    if (part.failed()) found.failures += where + ": " + part.message() + "\n";
    if (part.skipped()) found.skips += std::string(part.message()) + " ";
  }
  return found;
}

/// Rank 0 receives the text of every rank, in order; the others receive nothing.
std::vector<std::string> gather(const std::string& own) {
  const int own_length = static_cast<int>(own.size());
  std::vector<int> lengths(static_cast<std::size_t>(ranks()));
  PMPI_Gather(&own_length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, harness_comm());
  std::vector<int> offsets(lengths.size(), 0);
  for (std::size_t i = 1; i < lengths.size(); ++i) offsets[i] = offsets[i - 1] + lengths[i - 1];
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  PMPI_Gatherv(own.data(), own_length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, 0,
               harness_comm());
  std::vector<std::string> texts;
  if (rank() != 0) return texts;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

/// Keeps the watchdog informed. Stands apart from Gatherer, which makes failures itself and must hear of none.
class Watcher : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& info) override { watch_case(case_name(info)); }
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    watch_failure(part.message());
    // Rank 0's printer tells its own failures at once and those of the others at the end of a case, to which a job that
    // hangs or is aborted does not come.
    if (rank() != 0) std::fprintf(stderr, "[rank %d] %s\n", rank(), part.message());
  }
};

class Gatherer : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& info) override {
    step("the case has ended on this rank, which waits for the others");
    const Findings own = findings_of(*info.result());
    const auto failures = gather(own.failures);
    const auto skips = gather(own.skips);
    int failed = 0;
    for (std::size_t r = 0; r < failures.size(); ++r) {
      if (!failures[r].empty()) failed = 1;
      if (r != 0 && !failures[r].empty()) ADD_FAILURE() << "on rank " << r << ": " << failures[r];
      const bool told = r != 0 && skips[r] == skips[0];
      if (!skips[r].empty() && !told) {
        std::printf("skipped: %s on rank %zu: %s\n", case_name(info).c_str(), r, skips[r].c_str());
      }
    }
    PMPI_Bcast(&failed, 1, MPI_INT, 0, harness_comm());
    any_rank_failed = any_rank_failed || failed != 0;
    watch_case("");
  }
};

bool every_case_was_skipped() {
  const auto& unit = *testing::UnitTest::GetInstance();
  return unit.test_to_run_count() > 0 && unit.skipped_test_count() == unit.test_to_run_count();
}

}  // namespace

void install_listeners() {
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Watcher);
  listeners.Append(new Gatherer);
}

int common_exit_code(int own_result) {
  int failed = own_result != 0 || any_rank_failed ? 1 : 0;
  int all_skipped = every_case_was_skipped() ? 1 : 0;
  PMPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, harness_comm());
  PMPI_Allreduce(MPI_IN_PLACE, &all_skipped, 1, MPI_INT, MPI_MIN, harness_comm());
  if (failed != 0) return 1;
  return all_skipped != 0 ? skipped_exit_code : 0;
}

}  // namespace partita::test
