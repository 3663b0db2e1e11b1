// Wrong arguments of Psend_init and Precv_init: the class, and a sentence that names the call, the argument and the
// value.
#include <gtest/gtest.h>
#include <mpi.h>

#include <climits>
#include <cstdint>
#include <functional>
#include <string>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

/// The arguments of an init call, right ones at first.
struct Call {
  void* buf = nullptr;
  int partitions = 4;
  MPI_Count count = 10;
  MPI_Datatype type = MPI_INT;
  int peer = 0;
  int tag = 1;
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Info info = MPI_INFO_NULL;
};

template <class Face>
class InitErrors : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_)); }
  void TearDown() override { EXPECT_OK(MPI_Comm_free(&comm_)); }

  /// Both calls with the arguments as `change` leaves them; nothing may be made.
  void expect(int error_class, const std::string& word, const std::string& value,
              const std::function<void(Call&)>& change) {
    const ErrorsReturn handler(comm_);
    Call call;
    call.buf = data_;
    call.comm = comm_;
    change(call);
    auto request = Face::null();
    EXPECT_ERROR(Face::psend_init(call.buf, call.partitions, call.count, call.type, call.peer, call.tag, call.comm,
                                  call.info, &request),
                 error_class, "Psend_init", word, value);
    EXPECT_EQ(request, Face::null()) << "a refused call makes no request";
    EXPECT_ERROR(Face::precv_init(call.buf, call.partitions, call.count, call.type, call.peer, call.tag, call.comm,
                                  call.info, &request),
                 error_class, "Precv_init", word, value);
    EXPECT_EQ(request, Face::null());
    if (call.info != MPI_INFO_NULL) MPI_Info_free(&call.info);
  }

  int data_[64] = {};
  MPI_Comm comm_ = MPI_COMM_NULL;
};

TYPED_TEST_SUITE(InitErrors, Faces, FaceNames);

TYPED_TEST(InitErrors, partitions_must_be_positive) {
  for (const int partitions : {0, -1, -7, INT_MIN}) {
    this->expect(MPI_ERR_ARG, "partitions", std::to_string(partitions), [&](Call& c) { c.partitions = partitions; });
  }
}

TYPED_TEST(InitErrors, count_must_not_be_negative) {
  for (const MPI_Count count : {MPI_Count{-1}, MPI_Count{INT64_MIN}}) {
    this->expect(MPI_ERR_COUNT, "count", std::to_string(count), [&](Call& c) { c.count = count; });
  }
}

TYPED_TEST(InitErrors, partitions_that_overflow_are_refused) {
  this->expect(MPI_ERR_COUNT, std::to_string(INT_MAX), std::to_string(INT64_MAX), [](Call& c) {
    c.partitions = INT_MAX;
    c.count = INT64_MAX;
  });
  this->expect(MPI_ERR_COUNT, "4", std::to_string(INT64_MAX / 8), [](Call& c) { c.count = INT64_MAX / 8; });
}

TYPED_TEST(InitErrors, the_peer_must_be_a_rank_of_the_communicator) {
  for (const int peer : {ranks(), ranks() + 5, -77, MPI_ANY_SOURCE, INT_MAX}) {
    this->expect(MPI_ERR_RANK, "rank", std::to_string(peer), [&](Call& c) { c.peer = peer; });
  }
}

TYPED_TEST(InitErrors, the_tag_must_lie_between_zero_and_the_upper_bound) {
  int *bound = nullptr, found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
  ASSERT_NE(found, 0);
  for (const int tag : {-1, MPI_ANY_TAG, INT_MIN}) {
    this->expect(MPI_ERR_TAG, "tag", std::to_string(tag), [&](Call& c) { c.tag = tag; });
  }
  if (*bound == INT_MAX) return;
  for (const int tag : {*bound + 1, INT_MAX}) {
    this->expect(MPI_ERR_TAG, "tag", std::to_string(tag), [&](Call& c) { c.tag = tag; });
  }
}

TYPED_TEST(InitErrors, the_tag_is_checked_for_mpi_proc_null_too) {
  for (const int tag : {-5, MPI_ANY_TAG, INT_MIN}) {
    this->expect(MPI_ERR_TAG, "tag", std::to_string(tag), [&](Call& c) {
      c.peer = MPI_PROC_NULL;
      c.tag = tag;
    });
  }
}

TYPED_TEST(InitErrors, handles_that_are_none_get_the_class_of_the_handle) {
  this->expect(MPI_ERR_COMM, "comm", "no communicator", [](Call& c) { c.comm = MPI_Comm{}; });
  this->expect(MPI_ERR_TYPE, "datatype", "", [](Call& c) { c.type = MPI_Datatype{}; });
  const ErrorsReturn handler(this->comm_);
  auto request = TypeParam::null();
  EXPECT_ERROR(TypeParam::psend_init(this->data_, 1, 1, MPI_INT, rank(), 1, this->comm_, MPI_Info{}, &request),
               MPI_ERR_INFO, "Psend_init", "info");
  EXPECT_ERROR(TypeParam::precv_init(this->data_, 1, 1, MPI_INT, rank(), 1, this->comm_, MPI_Info{}, &request),
               MPI_ERR_INFO, "Precv_init", "info");
  EXPECT_EQ(request, TypeParam::null());
}

TYPED_TEST(InitErrors, the_datatype_must_be_a_committed_one) {
  this->expect(MPI_ERR_TYPE, "datatype", "MPI_DATATYPE_NULL", [](Call& c) { c.type = MPI_DATATYPE_NULL; });
  MPI_Datatype uncommitted;
  MPI_Type_vector(2, 1, 3, MPI_INT, &uncommitted);
  this->expect(MPI_ERR_TYPE, "datatype", "committed", [&](Call& c) { c.type = uncommitted; });
  MPI_Type_free(&uncommitted);
}

TYPED_TEST(InitErrors, the_communicator_must_be_one) {
  this->expect(MPI_ERR_COMM, "comm", "MPI_COMM_NULL", [](Call& c) { c.comm = MPI_COMM_NULL; });
}

TYPED_TEST(InitErrors, a_null_buffer_is_refused_where_there_are_bytes) {
  this->expect(MPI_ERR_BUFFER, "buf", "", [](Call& c) { c.buf = nullptr; });
}

TYPED_TEST(InitErrors, a_null_buffer_of_no_bytes_is_fine) {
  auto request = TypeParam::null();
  EXPECT_OK(TypeParam::psend_init(nullptr, 3, 0, MPI_INT, rank(), 1, this->comm_, MPI_INFO_NULL, &request));
  EXPECT_OK(TypeParam::free(&request));
  EXPECT_OK(TypeParam::precv_init(nullptr, 3, 0, MPI_INT, rank(), 1, this->comm_, MPI_INFO_NULL, &request));
  EXPECT_OK(TypeParam::free(&request));
}

TYPED_TEST(InitErrors, the_place_for_the_request_must_not_be_null) {
  const ErrorsReturn handler(this->comm_);
  EXPECT_ERROR(TypeParam::psend_init(this->data_, 1, 1, MPI_INT, 0, 1, this->comm_, MPI_INFO_NULL, nullptr),
               MPI_ERR_ARG, "Psend_init", "request");
  EXPECT_ERROR(TypeParam::precv_init(this->data_, 1, 1, MPI_INT, 0, 1, this->comm_, MPI_INFO_NULL, nullptr),
               MPI_ERR_ARG, "Precv_init", "request");
}

TYPED_TEST(InitErrors, values_of_our_info_keys_are_checked) {
  for (const char* link : {"bogus", "UCX ", "mpi2"}) {
    this->expect(MPI_ERR_INFO_VALUE, "partita_link", link, [&](Call& c) { c.info = info_with("partita_link", link); });
  }
  for (const char* count : {"0", "-1", "three", "4x", "99999999999", "1.5"}) {
    this->expect(MPI_ERR_INFO_VALUE, "partita_transport_partitions", count,
                 [&](Call& c) { c.info = info_with("partita_transport_partitions", count); });
  }
}

TYPED_TEST(InitErrors, values_of_the_info_keys_for_gpus_are_checked) {
  for (const char* driver : {"gpu", "Host", "devices"}) {
    this->expect(MPI_ERR_INFO_VALUE, "partita_driver", driver,
                 [&](Call& c) { c.info = info_with("partita_driver", driver); });
  }
  for (const char* copy : {"dma", "KERNEL", "engines"}) {
    this->expect(MPI_ERR_INFO_VALUE, "partita_gpu_copy", copy,
                 [&](Call& c) { c.info = info_with("partita_gpu_copy", copy); });
  }
  for (const char* in_place : {"1", "yes", "True"}) {
    this->expect(MPI_ERR_INFO_VALUE, "partita_in_place", in_place,
                 [&](Call& c) { c.info = info_with("partita_in_place", in_place); });
  }
}

TYPED_TEST(InitErrors, info_keys_that_need_gpu_memory_refuse_host_memory) {
  this->expect(MPI_ERR_BUFFER, "partita_driver=device", "buf",
               [](Call& c) { c.info = info_with("partita_driver", "device"); });
  this->expect(MPI_ERR_BUFFER, "partita_in_place", "buf",
               [](Call& c) { c.info = info_with("partita_in_place", "true"); });
}

TYPED_TEST(InitErrors, unknown_info_keys_of_our_name_are_refused_and_foreign_ones_ignored) {
  this->expect(MPI_ERR_INFO_KEY, "partita_lnk", "partita_link",
               [](Call& c) { c.info = info_with("partita_lnk", "mpi"); });
  MPI_Info foreign = info_with("someone_elses_key", "42");
  auto request = TypeParam::null();
  EXPECT_OK(TypeParam::psend_init(this->data_, 1, 1, MPI_INT, rank(), 1, this->comm_, foreign, &request));
  EXPECT_OK(TypeParam::free(&request));
  EXPECT_OK(TypeParam::precv_init(this->data_, 1, 1, MPI_INT, rank(), 1, this->comm_, foreign, &request));
  EXPECT_OK(TypeParam::free(&request));
  MPI_Info_free(&foreign);
}

TYPED_TEST(InitErrors, a_refused_call_consumes_no_place_in_the_order) {
  {
    const ErrorsReturn handler(this->comm_);
    auto none = TypeParam::null();
    EXPECT_NE(TypeParam::psend_init(this->data_, 0, 1, MPI_INT, rank(), 1, this->comm_, MPI_INFO_NULL, &none), 0);
    EXPECT_NE(TypeParam::psend_init(this->data_, 1, -1, MPI_INT, rank(), 1, this->comm_, MPI_INFO_NULL, &none), 0);
  }
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  send.init(2, 8, rank(), 1, this->comm_);
  recv.init(2, 8, rank(), 1, this->comm_);
  RETURN_IF_FAILED();
  recv.start();
  send.start();
  send.mark_all(5);
  recv.wait_for(5);
  send.wait();
  send.free();
  recv.free();
}

}  // namespace
}  // namespace partita::test
