// All ways to complete requests, so that a test can take any of them.
#pragma once

#include <mpi.h>
#include <sched.h>

#include <vector>

#include "support/face.hpp"
#include "support/job.hpp"

namespace partita::test {

/// The last ones look until a request is complete, and complete it by a Wait. Where a face has none of several requests
/// they are get_status.
enum class Completion {
  wait,
  waitall,
  waitany,
  waitsome,
  test,
  testall,
  testany,
  testsome,
  get_status,
  get_status_all,
  get_status_any,
  get_status_some
};
inline constexpr int completion_count = 12;
inline const char* name_of(Completion how) {
  static constexpr const char* names[] = {"Wait",       "Waitall",        "Waitany",        "Waitsome",
                                          "Test",       "Testall",        "Testany",        "Testsome",
                                          "get_status", "get_status_all", "get_status_any", "get_status_some"};
  return names[static_cast<int>(how)];
}

/// As the face has it.
template <class Face>
constexpr Completion available(Completion how) {
  return how >= Completion::get_status && !Face::has_statuses_of_several ? Completion::get_status : how;
}

/// Lets the other ranks run where there was nothing to do; on a crowded machine each yield costs a time slice.
inline void yield_unless(int something_done) {
  if (something_done == 0) sched_yield();
}

/// Completes all `requests`, which are active; statuses[i] belongs to requests[i]. Blocks.
template <class Face>
void complete(Completion how, std::vector<typename Face::Request>& requests, std::vector<MPI_Status>& statuses) {
  const int count = static_cast<int>(requests.size());
  statuses.resize(requests.size());
  step(std::string(name_of(how)) + " of " + std::to_string(count) + " requests");
  int flag = 0, index = MPI_UNDEFINED, left = count, found = 0;
  std::vector<int> indices(requests.size());
  std::vector<MPI_Status> some(requests.size());
  MPI_Status status;
  const auto keep = [&](int i, const MPI_Status& s) {
    ASSERT_TRUE(i >= 0 && i < count) << name_of(how) << " gave index " << i << " of " << count;
    statuses[static_cast<std::size_t>(i)] = s;
    --left;
  };
  const auto keep_some = [&] {
    ASSERT_NE(found, MPI_UNDEFINED) << name_of(how) << " sees no active request, " << left << " are";
    for (int i = 0; i < found; ++i) keep(indices[static_cast<std::size_t>(i)], some[static_cast<std::size_t>(i)]);
  };
  const auto wait_for = [&](int i) {
    ASSERT_OK(Face::wait(&requests[static_cast<std::size_t>(i)], MPI_STATUS_IGNORE));
  };
  switch (available<Face>(how)) {
    case Completion::wait:
      for (std::size_t i = 0; i < requests.size(); ++i) ASSERT_OK(Face::wait(&requests[i], &statuses[i]));
      return;
    case Completion::waitall:
      ASSERT_OK(Face::waitall(count, requests.data(), statuses.data()));
      return;
    case Completion::waitany:
      while (left > 0 && !testing::Test::HasFatalFailure()) {
        ASSERT_OK(Face::waitany(count, requests.data(), &index, &status));
        keep(index, status);
      }
      return;
    case Completion::waitsome:
      while (left > 0 && !testing::Test::HasFatalFailure()) {
        ASSERT_OK(Face::waitsome(count, requests.data(), &found, indices.data(), some.data()));
        keep_some();
      }
      return;
    case Completion::test:
      for (std::size_t i = 0; i < requests.size(); ++i) {
        for (flag = 0; flag == 0; yield_unless(flag)) ASSERT_OK(Face::test(&requests[i], &flag, &statuses[i]));
      }
      return;
    case Completion::testall:
      for (; flag == 0; yield_unless(flag)) {
        ASSERT_OK(Face::testall(count, requests.data(), &flag, statuses.data()));
      }
      return;
    case Completion::testany:
      while (left > 0 && !testing::Test::HasFatalFailure()) {
        ASSERT_OK(Face::testany(count, requests.data(), &index, &flag, &status));
        if (flag != 0) keep(index, status);
        yield_unless(flag);
      }
      return;
    case Completion::testsome:
      while (left > 0 && !testing::Test::HasFatalFailure()) {
        ASSERT_OK(Face::testsome(count, requests.data(), &found, indices.data(), some.data()));
        keep_some();
        yield_unless(found);
      }
      return;
    case Completion::get_status:
      for (int i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        for (flag = 0; flag == 0; yield_unless(flag)) ASSERT_OK(Face::get_status(requests[at], &flag, &statuses[at]));
        wait_for(i);
      }
      return;
    default:
      break;
  }
  if constexpr (Face::has_statuses_of_several) {
    for (; how == Completion::get_status_all && flag == 0; yield_unless(flag)) {
      ASSERT_OK(Face::get_status_all(count, requests.data(), &flag, statuses.data()));
    }
    if (how == Completion::get_status_all) {
      ASSERT_OK(Face::waitall(count, requests.data(), MPI_STATUSES_IGNORE));
      return;
    }
    while (left > 0 && !testing::Test::HasFatalFailure()) {
      if (how == Completion::get_status_any) {
        ASSERT_OK(Face::get_status_any(count, requests.data(), &index, &flag, &status));
        if (flag != 0) keep(index, status);
        if (flag != 0) wait_for(index);
        yield_unless(flag);
      } else {
        ASSERT_OK(Face::get_status_some(count, requests.data(), &found, indices.data(), some.data()));
        keep_some();
        for (int i = 0; i < found; ++i) wait_for(indices[static_cast<std::size_t>(i)]);
        yield_unless(found);
      }
    }
  }
}

}  // namespace partita::test
