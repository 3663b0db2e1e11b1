// Datatypes over GPU memory: those without gaps move as they are, others are packed and unpacked by a kernel; on CUDA
// and on the fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/memory.hpp"
#include "support/pattern.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

constexpr int tag = 11;

/// A committed datatype of this scope.
class Datatype {
 public:
  explicit Datatype(MPI_Datatype made) : type_(made) { MPI_Type_commit(&type_); }
  ~Datatype() { MPI_Type_free(&type_); }
  Datatype(const Datatype&) = delete;
  Datatype& operator=(const Datatype&) = delete;
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_;
};

/// `count` blocks of 2 ints, `stride` ints apart.
MPI_Datatype vector_of_ints(int count, int stride) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_vector(count, 2, stride, MPI_INT, &made);
  return made;
}

/// An int in 8 bytes.
MPI_Datatype padded_int() {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, 8, &made);
  return made;
}

/// Two ints in the wrong order: without gaps, and yet not one stretch.
MPI_Datatype swapped_ints() {
  const int offsets[2] = {1, 0};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_create_indexed_block(2, 1, offsets, MPI_INT, &made);
  return made;
}

/// 6 ints in one stretch that begins `offset_ints` from the buffer's address.
MPI_Datatype stretch_of_ints(int offset_ints) {
  const int lengths[2] = {4, 2};
  const int offsets[2] = {offset_ints, offset_ints + 4};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_indexed(2, lengths, offsets, MPI_INT, &made);
  return made;
}

template <class ValueAt>
void fill(Bytes& bytes, std::size_t ints, ValueAt value_at) {
  bytes.write(0, static_cast<std::int64_t>(ints * sizeof(int)), [&](std::uint8_t* to) {
    for (std::size_t i = 0; i < ints; ++i) {
      const int number = value_at(static_cast<int>(i));
      std::memcpy(to + i * sizeof(int), &number, sizeof number);
    }
  });
}
std::vector<int> ints_of(const Bytes& bytes, std::size_t ints) {
  std::vector<int> numbers(ints);
  bytes.read(0, static_cast<std::int64_t>(ints * sizeof(int)), [&](const std::uint8_t* from) {
    std::memcpy(numbers.data(), from, ints * sizeof(int));
    return 0;
  });
  return numbers;
}

template <class Face>
class GpuDatatypes : public testing::Test {
 protected:
  int right() const { return (rank() + 1) % ranks(); }
  int left() const { return (rank() + ranks() - 1) % ranks(); }

  /// Kernels of the program pack nothing: requests that these drive or store into have no gaps.
  void expect_refused(MPI_Datatype type, const char* key, const char* value) {
    SCOPED_TRACE(key);
    const ErrorsReturn errors(MPI_COMM_WORLD);
    const Bytes bytes(Memory::gpu, 4096);
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    auto request = Face::null();
    EXPECT_ERROR(Face::psend_init(bytes.address(), 2, 3, type, right(), tag, MPI_COMM_WORLD, info, &request),
                 MPI_ERR_TYPE, "Psend_init", "datatype", "without gaps", key);
    EXPECT_EQ(request, Face::null());
    MPI_Info_free(&info);
  }

  /// Three epochs of 6 elements of `type` around the ring, in partitions that differ on the two sides. Each element has
  /// `extent_ints` ints, of which the first packed ones are `ints_at`.
  void expect_packed(MPI_Datatype type, int extent_ints, const std::vector<int>& ints_at, const std::string& what) {
    SCOPED_TRACE(what);
    step("elements of " + what);
    constexpr int elements = 6;
    const auto ints = static_cast<std::size_t>(elements * extent_ints);
    Bytes out(Memory::gpu, static_cast<std::int64_t>(ints * sizeof(int)));
    Bytes in(Memory::gpu, static_cast<std::int64_t>(ints * sizeof(int)));
    typename Face::Request requests[2] = {Face::null(), Face::null()};
    ASSERT_OK(Face::psend_init(out.address(), 6, 1, type, right(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    ASSERT_OK(Face::precv_init(in.address(), 2, 3, type, left(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int epoch = 1; epoch <= 3; ++epoch) {
      std::vector<int> expected(ints, -epoch);
      for (int e = 0; e < elements; ++e) {
        for (const int at : ints_at)
          expected[static_cast<std::size_t>(e * extent_ints + at)] = value(epoch, e, at, left());
      }
      fill(out, ints, [&](int i) { return value(epoch, i / extent_ints, i % extent_ints, rank()); });
      fill(in, ints, [&](int) { return -epoch; });
      ASSERT_OK(Face::startall(2, requests));
      for (const int partition : {4, 0, 5, 2, 1, 3}) ASSERT_OK(Face::pready(partition, requests[0]));
      if (epoch == 2) {
        for (int partition = 0; partition < 2; ++partition) {
          for (int flag = 0; flag == 0; sched_yield()) ASSERT_OK(Face::parrived(requests[1], partition, &flag));
        }
        EXPECT_EQ(ints_of(in, ints), expected) << "once all has arrived";
      }
      ASSERT_OK(Face::waitall(2, requests, MPI_STATUSES_IGNORE));
      EXPECT_EQ(ints_of(in, ints), expected) << "epoch " << epoch;
    }
    for (auto& request : requests) ASSERT_OK(Face::free(&request));
  }

  static int value(int epoch, int element, int at, int sender) {
    return epoch * 100000 + sender * 10000 + element * 100 + at;
  }
  /// An epoch of 2 × 4 elements of `type` around the ring; what moves lies from `first` on.
  void expect_moved(MPI_Datatype type, std::int64_t first, std::uint64_t key) {
    int size_bytes = 0;
    MPI_Type_size(type, &size_bytes);
    const std::int64_t last = first + 8 * size_bytes;
    Bytes out(Memory::gpu, last + 64), in(Memory::gpu, last + 64);
    out.write(first, last, [&](std::uint8_t* bytes) { write_pattern(bytes, key, 0, last - first); });
    typename Face::Request requests[2] = {Face::null(), Face::null()};
    ASSERT_OK(Face::psend_init(out.address(), 2, 4, type, right(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    ASSERT_OK(Face::precv_init(in.address(), 2, 4, type, left(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    ASSERT_OK(Face::startall(2, requests));
    ASSERT_OK(Face::pready_range(0, 1, requests[0]));
    ASSERT_OK(Face::waitall(2, requests, MPI_STATUSES_IGNORE));
    const std::int64_t wrong =
        in.read(first, last, [&](const std::uint8_t* bytes) { return first_off_pattern(bytes, key, 0, last - first); });
    EXPECT_EQ(wrong, last - first);
    for (auto& request : requests) ASSERT_OK(Face::free(&request));
  }
};

TYPED_TEST_SUITE(GpuDatatypes, Faces, FaceNames);

TYPED_TEST(GpuDatatypes, with_gaps_or_out_of_order_are_packed) {
  this->expect_packed(Datatype(padded_int()).type(), 2, {0}, "padded ints");
  this->expect_packed(Datatype(swapped_ints()).type(), 2, {0, 1}, "swapped ints");
  MPI_Datatype padded_vector = MPI_DATATYPE_NULL;
  const Datatype vector(vector_of_ints(3, 5));
  MPI_Type_create_resized(vector.type(), 0, 15 * sizeof(int), &padded_vector);
  this->expect_packed(Datatype(padded_vector).type(), 15, {0, 1, 5, 6, 10, 11}, "a vector");
}

TYPED_TEST(GpuDatatypes, with_gaps_are_refused_where_kernels_of_the_program_move_them) {
  const Datatype padded(padded_int());
  this->expect_refused(padded.type(), "partita_driver", "device");
  this->expect_refused(padded.type(), "partita_in_place", "true");
  // Nothing is left of them: the next pair of the same tag matches.
  this->expect_moved(MPI_INT, 0, 1);
}

TYPED_TEST(GpuDatatypes, with_gaps_are_marked_once_an_epoch) {
  const ErrorsReturn errors(MPI_COMM_WORLD);
  const Datatype padded(padded_int());
  const Bytes out(Memory::gpu, 512), in(Memory::gpu, 512);
  typename TypeParam::Request requests[2] = {TypeParam::null(), TypeParam::null()};
  ASSERT_OK(TypeParam::psend_init(out.address(), 8, 2, padded.type(), this->right(), tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                                  &requests[0]));
  ASSERT_OK(TypeParam::precv_init(in.address(), 8, 2, padded.type(), this->left(), tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                                  &requests[1]));
  for (int epoch = 0; epoch < 2; ++epoch) {
    ASSERT_OK(TypeParam::startall(2, requests));
    ASSERT_OK(TypeParam::pready(3, requests[0]));
    EXPECT_ERROR(TypeParam::pready(3, requests[0]), MPI_ERR_ARG, "Pready", "partition 3 was marked");
    EXPECT_ERROR(TypeParam::pready_range(1, 6, requests[0]), MPI_ERR_ARG, "Pready_range", "partition 3 was marked");
    ASSERT_OK(TypeParam::pready(0, requests[0]));
    ASSERT_OK(TypeParam::pready_range(4, 7, requests[0]));
    ASSERT_OK(TypeParam::waitall(2, requests, MPI_STATUSES_IGNORE));
  }
  for (auto& request : requests) ASSERT_OK(TypeParam::free(&request));
}

TYPED_TEST(GpuDatatypes, without_gaps_move_as_they_are) {
  this->expect_moved(Datatype(vector_of_ints(4, 2)).type(), 0, 2);
  this->expect_moved(Datatype(stretch_of_ints(0)).type(), 0, 3);
  this->expect_moved(Datatype(stretch_of_ints(5)).type(), 5 * sizeof(int), 4);
}

/// The other side packs, in host memory.
TYPED_TEST(GpuDatatypes, with_gaps_in_host_memory_meet_gpu_memory) {
  const Datatype padded(padded_int());
  constexpr int ints = 24;
  for (const bool send_on_gpu : {true, false}) {
    SCOPED_TRACE(send_on_gpu ? "GPU to host" : "host to GPU");
    const std::uint64_t key = send_on_gpu ? 5 : 6;
    Bytes on_gpu(Memory::gpu, ints * 4), on_host(Memory::plain, ints * 8);
    on_gpu.write(0, ints * 4, [&](std::uint8_t* bytes) { write_pattern(bytes, key, 0, ints * 4); });
    for (int i = 0; i < ints; ++i) write_pattern(on_host.address() + 8 * i, send_on_gpu ? 0 : key, 4 * i, 4 * i + 4);
    typename TypeParam::Request requests[2] = {TypeParam::null(), TypeParam::null()};
    void* const out = send_on_gpu ? on_gpu.address() : on_host.address();
    void* const in = send_on_gpu ? on_host.address() : on_gpu.address();
    if (!send_on_gpu) on_gpu.write(0, ints * 4, [](std::uint8_t* bytes) { std::memset(bytes, 0, ints * 4); });
    const MPI_Datatype out_type = send_on_gpu ? MPI_INT : padded.type();
    const MPI_Datatype in_type = send_on_gpu ? padded.type() : MPI_INT;
    ASSERT_OK(
        TypeParam::psend_init(out, 6, 4, out_type, this->right(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    ASSERT_OK(TypeParam::precv_init(in, 3, 8, in_type, this->left(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    ASSERT_OK(TypeParam::startall(2, requests));
    ASSERT_OK(TypeParam::pready_range(0, 5, requests[0]));
    ASSERT_OK(TypeParam::waitall(2, requests, MPI_STATUSES_IGNORE));
    const auto right_from = [&](const std::uint8_t* bytes, std::int64_t first, std::int64_t last) {
      return first_off_pattern(bytes, key, first, last) == last;
    };
    if (send_on_gpu) {
      for (int i = 0; i < ints; ++i) EXPECT_TRUE(right_from(on_host.address() + 8 * i, 4 * i, 4 * i + 4)) << i;
    } else {
      EXPECT_TRUE(on_gpu.read(0, ints * 4, [&](const std::uint8_t* bytes) { return right_from(bytes, 0, ints * 4); }));
    }
    for (auto& request : requests) ASSERT_OK(TypeParam::free(&request));
  }
}

/// Two ints of three in memory. The message of 5 ints ends in the middle of the third element of a receive of four.
TEST(GpuOrdinaryMessages, of_fewer_bytes_end_within_an_element_with_gaps) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  const Datatype pair(vector_of_ints(1, 2));
  MPI_Type_create_resized(pair.type(), 0, 3 * sizeof(int), &made);
  const Datatype two_of_three(made);
  const int left = (rank() + ranks() - 1) % ranks();
  const int right = (rank() + 1) % ranks();
  Bytes out(Memory::gpu, 5 * sizeof(int)), in(Memory::gpu, 12 * sizeof(int));
  Partita_Request requests[2] = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
  ASSERT_OK(Partita_Send_init(out.address(), 5, MPI_INT, right, tag, MPI_COMM_WORLD, &requests[0]));
  ASSERT_OK(Partita_Recv_init(in.address(), 4, two_of_three.type(), left, tag, MPI_COMM_WORLD, &requests[1]));
  ASSERT_OK(Partita_Matchall(2, requests));
  for (int epoch = 1; epoch <= 2; ++epoch) {
    fill(out, 5, [&](int i) { return 1000 * epoch + 100 * rank() + i; });
    fill(in, 12, [](int) { return -1; });
    ASSERT_OK(Partita_Startall(2, requests));
    MPI_Status statuses[2];
    ASSERT_OK(Partita_Waitall(2, requests, statuses));
    const int first = 1000 * epoch + 100 * left;
    const std::vector<int> expected = {first, first + 1, -1, first + 2, first + 3, -1, first + 4, -1, -1, -1, -1, -1};
    EXPECT_EQ(ints_of(in, 12), expected) << "epoch " << epoch;
    int received = -1;
    MPI_Get_elements(&statuses[1], two_of_three.type(), &received);
    EXPECT_EQ(received, 5);
  }
  for (auto& request : requests) ASSERT_OK(Partita_Request_free(&request));
}

}  // namespace
}  // namespace partita::test
