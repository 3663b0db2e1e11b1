// The completion calls on collectives, partitioned and persistent ones.
#include <vector>

#include "completion_calls.hpp"
#include "support/collecting.hpp"
#include "support/completion.hpp"
#include "support/errors.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

template <class Face>
class CompletionOfCollectives : public CompletionCalls<Face> {};

TYPED_TEST_SUITE(CompletionOfCollectives, Faces, FaceNames);

TYPED_TEST(CompletionOfCollectives, inactive_ones_are_complete) {
  for (const Collected what : all_collected) {
    Collecting<TypeParam> collective(what);
    this->expect_nothing_active({collective.request, TypeParam::null()});
    for (int epoch = 1; epoch < 3; ++epoch) {
      collective.start(epoch);
      collective.mark();
      EXPECT_OK(TypeParam::wait(&collective.request, MPI_STATUS_IGNORE));
      collective.expect_result();
      this->expect_nothing_active({TypeParam::null(), collective.request});
    }
    collective.free();
  }
}

TYPED_TEST(CompletionOfCollectives, they_complete_beside_messages_in_every_way) {
  std::vector<Collecting<TypeParam>> collectives(all_collected.begin(), all_collected.end());
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  send.init(2, 3000, this->right(), 3);
  recv.init(2, 3000, this->left(), 3);
  std::vector<typename TypeParam::Request> requests = {send.request, recv.request};
  for (const auto& collective : collectives) requests.push_back(collective.request);
  for (int how = 0; how < completion_count; ++how) {
    SCOPED_TRACE(name_of(static_cast<Completion>(how)));
    const auto before = requests;
    for (auto& collective : collectives) collective.fill(how);
    ASSERT_OK(TypeParam::startall(static_cast<int>(requests.size()), requests.data()));
    for (auto& collective : collectives) collective.mark();
    send.mark_all(static_cast<std::uint64_t>(how));
    std::vector<MPI_Status> statuses;
    complete<TypeParam>(static_cast<Completion>(how), requests, statuses);
    RETURN_IF_FAILED();
    EXPECT_EQ(before, requests);
    EXPECT_EQ(this->left(), statuses[1].MPI_SOURCE);
    EXPECT_TRUE(recv.holds_all(static_cast<std::uint64_t>(how)));
    for (const auto& collective : collectives) collective.expect_result();
  }
  for (auto& collective : collectives) collective.free();
  send.free();
  recv.free();
}

/// The last rank has not started.
TYPED_TEST(CompletionOfCollectives, none_is_reported_before_its_data_are_there) {
  if (ranks() < 2) GTEST_SKIP() << "needs a rank that starts late";
  const ErrorsReturn handler(MPI_COMM_WORLD);
  for (const Collected what : all_for_all) {
    Collecting<TypeParam> collective(what);
    std::vector<typename TypeParam::Request> requests = {TypeParam::null(), collective.request};
    const bool is_late = rank() == ranks() - 1;
    if (!is_late) {
      collective.start(1);
      collective.mark();
    }
    for (int look = 0; !is_late && look < 20; ++look) {
      int flag = 1, index = 0, found = 1;
      std::vector<int> indices(2);
      ASSERT_OK(TypeParam::test(&requests[1], &flag, MPI_STATUS_IGNORE));
      ASSERT_EQ(0, flag);
      ASSERT_OK(TypeParam::testall(2, requests.data(), &(flag = 1), MPI_STATUSES_IGNORE));
      ASSERT_EQ(0, flag);
      ASSERT_OK(TypeParam::testany(2, requests.data(), &index, &(flag = 1), MPI_STATUS_IGNORE));
      ASSERT_EQ(0, flag);
      ASSERT_OK(TypeParam::testsome(2, requests.data(), &found, indices.data(), MPI_STATUSES_IGNORE));
      ASSERT_EQ(0, found);
      ASSERT_OK(TypeParam::get_status(requests[1], &(flag = 1), MPI_STATUS_IGNORE));
      ASSERT_EQ(0, flag);
      if constexpr (TypeParam::has_statuses_of_several) {
        ASSERT_OK(TypeParam::get_status_all(2, requests.data(), &(flag = 1), MPI_STATUSES_IGNORE));
        ASSERT_EQ(0, flag);
        ASSERT_OK(TypeParam::get_status_any(2, requests.data(), &index, &(flag = 1), MPI_STATUS_IGNORE));
        ASSERT_EQ(0, flag);
        ASSERT_OK(TypeParam::get_status_some(2, requests.data(), &found, indices.data(), MPI_STATUSES_IGNORE));
        ASSERT_EQ(0, found);
      }
    }
    if (!is_late) {
      EXPECT_ERROR(TypeParam::free(&collective.request), MPI_ERR_REQUEST, "active");
      EXPECT_EQ(requests[1], collective.request);
    }
    harness_barrier();
    if (is_late) {
      collective.start(1);
      collective.mark();
    }
    ASSERT_OK(TypeParam::waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    collective.expect_result();
    collective.free();
  }
}

/// A look leaves the request active: a Start is refused, and a Test completes it. Freed without it, it is gone all the
/// same.
TYPED_TEST(CompletionOfCollectives, get_status_tells_of_completion_and_leaves_them_active) {
  const ErrorsReturn handler(MPI_COMM_WORLD);
  for (const Collected what : all_collected) {
    Collecting<TypeParam> collective(what);
    for (int epoch = 1; epoch <= 2; ++epoch) {
      collective.start(epoch);
      collective.mark();
      for (int flag = 0; flag == 0; yield_unless(flag)) {
        ASSERT_OK(TypeParam::get_status(collective.request, &flag, MPI_STATUS_IGNORE));
      }
      collective.expect_result();
      EXPECT_ERROR(TypeParam::start(&collective.request), MPI_ERR_REQUEST, "active");
      if (epoch == 2) break;
      int flag = 0;
      ASSERT_OK(TypeParam::test(&collective.request, &flag, MPI_STATUS_IGNORE));
      EXPECT_EQ(1, flag);
    }
    collective.free();
  }
}

}  // namespace
}  // namespace partita::test
