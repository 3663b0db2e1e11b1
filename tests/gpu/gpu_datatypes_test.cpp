// Datatypes over GPU memory: those without gaps move as they are, others are refused, as nothing packs GPU memory.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <string>

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

template <class Face>
class GpuDatatypes : public testing::Test {
 protected:
  int right() const { return (rank() + 1) % ranks(); }
  int left() const { return (rank() + ranks() - 1) % ranks(); }

  void expect_refused(MPI_Datatype type, const std::string& what) {
    SCOPED_TRACE(what);
    step("init with " + what);
    const ErrorsReturn errors(MPI_COMM_WORLD);
    const Bytes bytes(Memory::gpu, 4096);
    auto request = Face::null();
    EXPECT_ERROR(Face::psend_init(bytes.address(), 2, 3, type, right(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
                 MPI_ERR_TYPE, "Psend_init", "datatype", "GPU memory", "contiguous");
    EXPECT_EQ(request, Face::null());
    EXPECT_ERROR(Face::precv_init(bytes.address(), 2, 3, type, left(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
                 MPI_ERR_TYPE, "Precv_init", "datatype", "GPU memory", "contiguous");
    EXPECT_EQ(request, Face::null());
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

TYPED_TEST(GpuDatatypes, with_gaps_or_out_of_order_are_refused_by_init) {
  this->expect_refused(Datatype(vector_of_ints(4, 5)).type(), "a vector with gaps");
  this->expect_refused(Datatype(padded_int()).type(), "padded elements");
  this->expect_refused(Datatype(swapped_ints()).type(), "elements out of order");
  // Nothing is left of them: the next pair of the same tag matches.
  this->expect_moved(MPI_INT, 0, 1);
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

}  // namespace
}  // namespace partita::test
