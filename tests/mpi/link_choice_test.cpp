// Which link a request takes when its two sides wish for different ones, and what Request_get_info then tells.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

int get_info(Partita_Request request, MPI_Info* info) {
  return Partita_Request_get_info(request, info);
}
int get_info(MPI_Request request, MPI_Info* info) {
  return Partita_mpi_Request_get_info(request, info);
}

/// The value of `key`, empty where there is none.
template <class Request>
std::string info_of(Request request, const char* key) {
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_OK(get_info(request, &info));
  if (info == MPI_INFO_NULL) return {};
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
  MPI_Info_free(&info);
  return value;
}

const std::vector<std::string> links = {PARTITEST_LINKS};
const bool has_ucx = std::find(links.begin(), links.end(), "ucx") != links.end();

/// The longest of the ranks' texts; they are of 31 characters at most.
std::string from_any_rank(const std::string& text) {
  char mine[32] = "", longest[32] = "";
  text.copy(mine, sizeof mine - 1);
  PMPI_Allreduce(mine, longest, sizeof mine, MPI_SIGNED_CHAR, MPI_MAX, harness_comm());
  return longest;
}

template <class Face>
class LinkChoice : public testing::Test {
 protected:
  int right() const { return (rank() + 1) % ranks(); }
  int left() const { return (rank() + ranks() - 1) % ranks(); }

  void init(const std::string& send_wish, const std::string& recv_wish, std::int64_t partition_bytes = 3000) {
    MPI_Info send_info = info_with("partita_link", send_wish);
    MPI_Info recv_info = info_with("partita_link", recv_wish);
    send_.init(4, partition_bytes, right(), 3, MPI_COMM_WORLD, send_info);
    recv_.init(2, 2 * partition_bytes, left(), 3, MPI_COMM_WORLD, recv_info);
    if (send_info != MPI_INFO_NULL) MPI_Info_free(&send_info);
    if (recv_info != MPI_INFO_NULL) MPI_Info_free(&recv_info);
  }
  void run() {
    for (std::uint64_t key = 1; key <= 3; ++key) {
      run_epoch(send_, recv_, key);
      RETURN_IF_FAILED();
    }
  }
  void free() {
    send_.free();
    recv_.free();
  }
  /// Both sides are told, be it at the start.
  void expect_failure(const std::string& words) {
    for (auto* request : {&recv_.request, &send_.request}) {
      int code = Face::start(request);
      if (code == MPI_SUCCESS) code = Face::wait(request, MPI_STATUS_IGNORE);
      EXPECT_ERROR(code, MPI_ERR_OTHER, "no link can move", words);
    }
  }
  void expect_link(const std::string& link) {
    EXPECT_EQ(info_of(send_.request, "partita_link"), link);
    EXPECT_EQ(info_of(recv_.request, "partita_link"), link);
  }

  Sending<Face> send_;
  Receiving<Face> recv_;
};

TYPED_TEST_SUITE(LinkChoice, Faces, FaceNames);

TYPED_TEST(LinkChoice, one_side_alone_may_demand_a_link) {
  for (const std::string& link : links) {
    for (const bool sender_demands : {true, false}) {
      SCOPED_TRACE(link + (sender_demands ? " demanded by the sender" : " demanded by the receiver"));
      this->init(sender_demands ? link : "", sender_demands ? "" : link);
      RETURN_IF_FAILED();
      this->run();
      RETURN_IF_FAILED();
      this->expect_link(link);
      this->free();
    }
  }
}

TYPED_TEST(LinkChoice, a_link_that_is_asked_for_serves_requests_that_were_started_and_marked_before) {
  if (!has_ucx) GTEST_SKIP() << "this build has no UCX, the only link that must be asked for";
  // The receives come late, so that every send has its marks and its offer waits at the other side.
  this->send_.init(4, 3000, this->right(), 4);
  this->send_.start();
  this->send_.mark_all(1);
  RETURN_IF_FAILED();
  harness_barrier();
  MPI_Info info = info_with("partita_link", "ucx");
  this->recv_.init(4, 3000, this->left(), 4, MPI_COMM_WORLD, info);
  MPI_Info_free(&info);
  this->recv_.start();
  this->recv_.wait_for(1);
  this->send_.wait();
  RETURN_IF_FAILED();
  this->expect_link("ucx");
  this->free();
}

TYPED_TEST(LinkChoice, requests_freed_while_a_link_is_asked_for_do_no_harm) {
  if (!has_ucx) GTEST_SKIP() << "this build has no UCX, the only link that must be asked for";
  for (int round = 0; round < 10; ++round) {
    this->init("", "ucx");
    RETURN_IF_FAILED();
    if (round % 3 == 0) {
      int pending = 0;
      Partita_Progress(&pending);
    }
    this->free();
  }
  this->init("", "ucx");
  this->run();
  this->free();
}

/// Also run with PARTITA_LINK set on rank 1 alone (CMakeLists.txt).
TYPED_TEST(LinkChoice, the_environment_of_one_rank_decides_for_its_requests) {
  const char* own = std::getenv("PARTITA_LINK");
  const bool wished_here = own != nullptr;
  std::vector<int> wished(static_cast<std::size_t>(ranks()));
  const int mine = wished_here ? 1 : 0;
  MPI_Allgather(&mine, 1, MPI_INT, wished.data(), 1, MPI_INT, harness_comm());
  this->init("", "");
  RETURN_IF_FAILED();
  this->run();
  RETURN_IF_FAILED();
  const std::string link = from_any_rank(wished_here ? own : "");
  const auto is_wished = [&](int peer) { return wished_here || wished[static_cast<std::size_t>(peer)] != 0; };
  EXPECT_TRUE(!is_wished(this->right()) || info_of(this->send_.request, "partita_link") == link);
  EXPECT_TRUE(!is_wished(this->left()) || info_of(this->recv_.request, "partita_link") == link);
  this->free();
}

TYPED_TEST(LinkChoice, contrary_demands_are_an_error_on_both_sides) {
  ErrorsReturn scope(MPI_COMM_WORLD);
  this->init("mpi", "direct");
  RETURN_IF_FAILED();
  this->expect_failure("demands");
  this->free();
}

TYPED_TEST(LinkChoice, a_link_that_the_build_lacks_is_refused_with_the_reason) {
  if (has_ucx) GTEST_SKIP() << "this build has every link";
  ErrorsReturn scope(MPI_COMM_WORLD);
  for (const bool sender_demands : {true, false}) {
    this->init(sender_demands ? "ucx" : "", sender_demands ? "" : "ucx");
    RETURN_IF_FAILED();
    this->expect_failure("has no UCX");
    this->free();
  }
}

TYPED_TEST(LinkChoice, info_tells_a_requests_life) {
  this->init("", "");
  RETURN_IF_FAILED();
  EXPECT_EQ(info_of(this->send_.request, "partita_kind"), "send");
  EXPECT_EQ(info_of(this->recv_.request, "partita_kind"), "recv");
  EXPECT_EQ(info_of(this->recv_.request, "partita_active"), "false");
  this->recv_.start();
  EXPECT_EQ(info_of(this->recv_.request, "partita_active"), "true");
  this->send_.start();
  this->send_.mark_all(1);
  this->recv_.wait_for(1);
  this->send_.wait();
  for (const auto request : {this->send_.request, this->recv_.request}) {
    EXPECT_EQ(info_of(request, "partita_active"), "false");
    EXPECT_EQ(info_of(request, "partita_matched"), "true");
    EXPECT_FALSE(info_of(request, "partita_reason").empty());
    const std::string transports = info_of(request, "partita_transport_partitions");
    EXPECT_TRUE(transports >= "1" && transports <= "4") << transports;
  }
  this->free();
}

TYPED_TEST(LinkChoice, info_of_a_request_to_nobody_is_never_matched) {
  this->send_.init(4, 100, MPI_PROC_NULL, 3);
  this->send_.start();
  this->send_.mark_all(1);
  EXPECT_EQ(info_of(this->send_.request, "partita_matched"), "false");
  EXPECT_EQ(info_of(this->send_.request, "partita_link"), "");
  this->send_.wait();
  this->send_.free();
}

TYPED_TEST(LinkChoice, info_of_no_request_is_an_error) {
  ErrorsReturn scope(MPI_COMM_WORLD);
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_ERROR(get_info(TypeParam::null(), &info), MPI_ERR_REQUEST, "get_info", "request");
  this->init("", "");
  EXPECT_ERROR(get_info(this->send_.request, nullptr), MPI_ERR_ARG, "get_info", "info");
  this->free();
}

}  // namespace
}  // namespace partita::test
