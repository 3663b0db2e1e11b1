// What the tests of the completion calls share: that every call says of requests that none is active.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "empty_status.hpp"
#include "support/face.hpp"
#include "support/job.hpp"

namespace partita::test {

inline MPI_Status filled_status() {
  MPI_Status status;
  status.MPI_SOURCE = 12345;
  status.MPI_TAG = 12345;
  status.MPI_ERROR = 12345;
  return status;
}

/// The four calls on arrays say in the error field that a request succeeded, the others leave the field alone.
inline void expect_empty_in_array(const MPI_Status& status) {
  expect_empty(status);
  EXPECT_EQ(status.MPI_ERROR, MPI_SUCCESS);
}

template <class Face>
class CompletionCalls : public testing::Test {
 protected:
  using Request = typename Face::Request;
  int right() const { return (rank() + 1) % ranks(); }
  int left() const { return (rank() + ranks() - 1) % ranks(); }

  /// None of `requests` is active: every call says so and returns at once.
  void expect_nothing_active(std::vector<Request> requests) {
    const int n = static_cast<int>(requests.size());
    const auto before = requests;
    std::vector<MPI_Status> statuses(requests.size(), filled_status());
    std::vector<int> indices(requests.size());
    MPI_Status status = filled_status();
    int flag = 0, index = 0, found = 0;

    for (auto& request : requests) {
      status = filled_status();
      EXPECT_OK(Face::wait(&request, &status));
      expect_empty(status);
      flag = 0;
      status = filled_status();
      EXPECT_OK(Face::test(&request, &flag, &status));
      EXPECT_EQ(flag, 1);
      expect_empty(status);
      flag = 0;
      status = filled_status();
      EXPECT_OK(Face::get_status(request, &flag, &status));
      EXPECT_EQ(flag, 1);
      expect_empty(status);
    }
    // Where all are null, the drop-in leaves the call to the MPI, which may leave the field alone (MPICH 4.0).
    const bool ours = std::is_same_v<Face, CFace> ||
                      std::any_of(before.begin(), before.end(), [](Request r) { return r != Face::null(); });
    const auto expect_nothing_in = [&] {
      for (const auto& s : statuses) ours ? expect_empty_in_array(s) : expect_empty(s);
    };
    EXPECT_OK(Face::waitall(n, requests.data(), statuses.data()));
    expect_nothing_in();
    statuses.assign(requests.size(), filled_status());
    flag = 0;
    EXPECT_OK(Face::testall(n, requests.data(), &flag, statuses.data()));
    EXPECT_EQ(flag, 1);
    expect_nothing_in();

    status = filled_status();
    EXPECT_OK(Face::waitany(n, requests.data(), &index, &status));
    EXPECT_EQ(index, MPI_UNDEFINED);
    expect_empty(status);
    index = flag = 0;
    status = filled_status();
    EXPECT_OK(Face::testany(n, requests.data(), &index, &flag, &status));
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(index, MPI_UNDEFINED);
    expect_empty(status);
    EXPECT_OK(Face::waitsome(n, requests.data(), &found, indices.data(), statuses.data()));
    EXPECT_EQ(found, MPI_UNDEFINED);
    found = 0;
    EXPECT_OK(Face::testsome(n, requests.data(), &found, indices.data(), statuses.data()));
    EXPECT_EQ(found, MPI_UNDEFINED);
    EXPECT_OK(Face::waitall(n, requests.data(), MPI_STATUSES_IGNORE));
    EXPECT_EQ(requests, before) << "handles must not change";
  }
};

}  // namespace partita::test
