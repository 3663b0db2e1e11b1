// Flattened datatypes against the MPI's own packing, and against an oracle that knows each byte's place.
#include "core/layout.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/buffer.hpp"
#include "support/job.hpp"
#include "support/layout.hpp"
#include "support/pattern.hpp"

namespace partita::test {
namespace {

constexpr std::int64_t elements = 5;

std::vector<std::uint8_t> packed_by_mpi(const Buffer& buffer, void* address) {
  const auto& layout = buffer.layout();
  int size = 0, position = 0;
  MPI_Pack_size(static_cast<int>(buffer.count()), layout.type(), MPI_COMM_SELF, &size);
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(size));
  MPI_Pack(address, static_cast<int>(buffer.count()), layout.type(), packed.data(), size, &position, MPI_COMM_SELF);
  packed.resize(static_cast<std::size_t>(position));
  return packed;
}

/// Open MPI 4.1 takes a stride of -1 byte for "no stride given" and lays the blocks out one after the other.
bool mpi_can_step_back_a_byte() {
  MPI_Datatype backwards = MPI_DATATYPE_NULL;
  MPI_Type_create_hvector(2, 1, -1, MPI_BYTE, &backwards);
  MPI_Type_commit(&backwards);
  const std::uint8_t user[3] = {1, 2, 3};
  std::uint8_t packed[2] = {};
  int position = 0;
  MPI_Pack(&user[1], 1, backwards, packed, sizeof packed, &position, MPI_COMM_SELF);
  MPI_Type_free(&backwards);
  return packed[0] == 2 && packed[1] == 1;
}

/// Packed data in which neighbouring bytes differ.
std::vector<std::byte> counting_bytes(std::int64_t size_bytes) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size_bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(pattern(99, static_cast<std::int64_t>(i)));
  return bytes;
}

class LayoutTest : public testing::Test {
 protected:
  /// Runs `check(layout)` on many random types.
  template <class Check>
  void for_random_layouts(bool overlaps, const Check& check) {
    Random random(job_seed(), overlaps ? 1 : 2);
    const auto rounds = environment_number("PARTITEST_ITERATIONS", 400);
    const TypedLayout basics[] = {TypedLayout::basic(MPI_BYTE, 1, "byte"), TypedLayout::basic(MPI_INT, 4, "int"),
                                  TypedLayout::basic(MPI_DOUBLE, 8, "double")};
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      const auto layout = TypedLayout::random(random, basics[random.integer(0, 2)], 4, overlaps);
      SCOPED_TRACE(layout.text());
      check(layout);
    }
  }
};

TEST_F(LayoutTest, the_oracle_agrees_with_the_mpi) {
  const bool any_stride = mpi_can_step_back_a_byte();
  for_random_layouts(true, [any_stride](const TypedLayout& oracle) {
    if (oracle.steps_back_a_byte() && !any_stride) return;  // nothing to compare with
    MPI_Count lower = 0, extent = 0, size = 0;
    MPI_Type_get_extent_x(oracle.type(), &lower, &extent);
    MPI_Type_size_x(oracle.type(), &size);
    EXPECT_EQ(extent, oracle.extent_bytes());
    EXPECT_EQ(size, oracle.size_bytes());
    Buffer buffer(oracle, elements, Memory::plain);
    buffer.write_pattern(7, 0, buffer.packed_bytes());
    const auto packed = packed_by_mpi(buffer, buffer.address());
    ASSERT_EQ(static_cast<std::int64_t>(packed.size()), buffer.packed_bytes());
    for (std::int64_t p = 0; p < buffer.packed_bytes(); ++p) {
      ASSERT_EQ(packed[static_cast<std::size_t>(p)], buffer.at(p)) << "packed byte " << p;
    }
  });
}

TEST_F(LayoutTest, size_and_extent_are_the_types) {
  for_random_layouts(true, [](const TypedLayout& oracle) {
    const Layout layout = Layout::of(oracle.type());
    EXPECT_EQ(layout.size_bytes(), oracle.size_bytes());
    EXPECT_EQ(layout.extent_bytes(), oracle.extent_bytes());
  });
}

TEST_F(LayoutTest, pack_takes_each_byte_from_its_place) {
  for_random_layouts(true, [](const TypedLayout& oracle) {
    const Layout layout = Layout::of(oracle.type());
    Buffer buffer(oracle, elements, Memory::plain);
    buffer.write_pattern(3, 0, buffer.packed_bytes());
    for (std::int64_t first = 0; first < elements; ++first) {
      const std::int64_t count = elements - first - (first % 2);
      std::vector<std::byte> packed(static_cast<std::size_t>(count * oracle.size_bytes()));
      layout.pack(static_cast<const std::byte*>(buffer.address()), first, count, packed.data());
      for (std::size_t p = 0; p < packed.size(); ++p) {
        ASSERT_EQ(static_cast<std::uint8_t>(packed[p]),
                  buffer.at(first * oracle.size_bytes() + static_cast<std::int64_t>(p)))
            << "packed byte " << p << " of elements from " << first;
      }
    }
  });
}

TEST_F(LayoutTest, unpack_puts_each_byte_in_its_place_and_leaves_gaps_alone) {
  for_random_layouts(false, [](const TypedLayout& oracle) {
    if (oracle.overlaps_itself(elements)) return;
    const Layout layout = Layout::of(oracle.type());
    Buffer buffer(oracle, elements, Memory::plain);
    const auto packed = counting_bytes(buffer.packed_bytes());
    layout.unpack(packed.data(), static_cast<std::byte*>(buffer.address()), 0, 2);
    layout.unpack(packed.data() + 2 * oracle.size_bytes(), static_cast<std::byte*>(buffer.address()), 2, elements - 2);
    for (std::size_t p = 0; p < packed.size(); ++p) {
      ASSERT_EQ(buffer.at(static_cast<std::int64_t>(p)), static_cast<std::uint8_t>(packed[p])) << "packed byte " << p;
    }
    EXPECT_TRUE(buffer.gaps_untouched());
  });
}

TEST_F(LayoutTest, contiguous_means_that_packed_and_user_bytes_are_the_same_stretch) {
  int contiguous = 0, gapped = 0;
  for_random_layouts(true, [&](const TypedLayout& oracle) {
    const Layout layout = Layout::of(oracle.type());
    bool one_stretch = true;
    for (std::int64_t p = 1; p < 3 * oracle.size_bytes(); ++p) {
      one_stretch = one_stretch && oracle.offset_of(p) == oracle.offset_of(0) + p;
    }
    EXPECT_EQ(layout.contiguous(), one_stretch);
    if (layout.contiguous()) {
      EXPECT_EQ(layout.first_byte(), oracle.offset_of(0));
    }
    ++(one_stretch ? contiguous : gapped);
  });
  EXPECT_GT(contiguous, 0);
  EXPECT_GT(gapped, 0);
}

TEST_F(LayoutTest, predefined_pair_types_leave_their_gap_out) {
  for (const MPI_Datatype type : {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT}) {
    const Layout layout = Layout::of(type);
    MPI_Count size = 0, lower = 0, extent = 0;
    MPI_Type_size_x(type, &size);
    MPI_Type_get_extent_x(type, &lower, &extent);
    EXPECT_EQ(layout.size_bytes(), size);
    EXPECT_EQ(layout.extent_bytes(), extent);
    std::vector<std::byte> user = counting_bytes(3 * extent), ours(static_cast<std::size_t>(3 * size)),
                           theirs(ours.size());
    layout.pack(user.data(), 0, 3, ours.data());
    int position = 0;
    MPI_Pack(user.data(), 3, type, theirs.data(), static_cast<int>(theirs.size()), &position, MPI_COMM_SELF);
    EXPECT_EQ(ours, theirs);
  }
}

/// Ours against the MPI's own packing, both ways; frees `type`. For types that are flattened by asking the MPI.
void expect_packed_as_by_the_mpi(MPI_Datatype type, bool contiguous) {
  MPI_Type_commit(&type);
  const Layout layout = Layout::of(type);
  MPI_Count size = 0, lower = 0, extent = 0;
  MPI_Type_size_x(type, &size);
  MPI_Type_get_extent_x(type, &lower, &extent);
  EXPECT_EQ(layout.size_bytes(), size);
  EXPECT_EQ(layout.extent_bytes(), extent);
  EXPECT_EQ(layout.contiguous(), contiguous);

  const std::vector<std::byte> user = counting_bytes(elements * extent);
  std::vector<std::byte> ours(static_cast<std::size_t>(elements * size)), theirs(ours.size());
  layout.pack(user.data(), 0, elements, ours.data());
  int position = 0;
  MPI_Pack(user.data(), elements, type, theirs.data(), static_cast<int>(theirs.size()), &position, MPI_COMM_SELF);
  EXPECT_EQ(ours, theirs);

  std::vector<std::byte> to_ours(user.size(), std::byte{0xa5}), to_theirs(to_ours);
  layout.unpack(ours.data(), to_ours.data(), 0, elements);
  position = 0;
  MPI_Unpack(ours.data(), static_cast<int>(ours.size()), &position, to_theirs.data(), elements, type, MPI_COMM_SELF);
  EXPECT_EQ(to_ours, to_theirs);
  MPI_Type_free(&type);
}

TEST_F(LayoutTest, distributed_arrays_are_packed_as_by_the_mpi) {
  const int sizes[] = {7, 10}, processes[] = {2, 3}, blocks[] = {MPI_DISTRIBUTE_DFLT_DARG, 2};
  const int ways[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  for (const int order : {MPI_ORDER_C, MPI_ORDER_FORTRAN}) {
    for (int process = 0; process < 6; ++process) {
      SCOPED_TRACE("process " + std::to_string(process) + (order == MPI_ORDER_C ? ", C" : ", Fortran"));
      MPI_Datatype type = MPI_DATATYPE_NULL;
      MPI_Type_create_darray(6, process, 2, sizes, ways, blocks, processes, order, MPI_DOUBLE, &type);
      expect_packed_as_by_the_mpi(type, false);
    }
  }
}

#if MPI_VERSION >= 4
TEST_F(LayoutTest, types_of_the_large_count_constructors_are_packed_as_by_the_mpi) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous_c(5, MPI_INT, &type);
  expect_packed_as_by_the_mpi(type, true);
  MPI_Type_vector_c(4, 2, 3, MPI_DOUBLE, &type);
  expect_packed_as_by_the_mpi(type, false);
  const MPI_Count lengths[] = {2, 1}, offsets[] = {24, 0};
  const MPI_Datatype types[] = {MPI_INT, MPI_CHAR};
  MPI_Type_create_struct_c(2, lengths, offsets, types, &type);
  expect_packed_as_by_the_mpi(type, false);
}

TEST_F(LayoutTest, a_large_count_type_inside_another_is_packed_as_by_the_mpi) {
  MPI_Datatype inner = MPI_DATATYPE_NULL, outer = MPI_DATATYPE_NULL;
  MPI_Type_vector_c(2, 1, 2, MPI_INT, &inner);
  MPI_Type_contiguous(3, inner, &outer);
  MPI_Type_free(&inner);
  expect_packed_as_by_the_mpi(outer, false);
}
#endif

TEST_F(LayoutTest, types_without_bytes_have_none) {
  MPI_Datatype empty;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  const Layout layout = Layout::of(empty);
  EXPECT_EQ(layout.size_bytes(), 0);
  std::byte untouched{42};
  layout.pack(nullptr, 0, 10, &untouched);
  layout.unpack(nullptr, &untouched, 0, 10);
  EXPECT_EQ(untouched, std::byte{42});
  MPI_Type_free(&empty);
}

TEST_F(LayoutTest, a_large_strided_type_is_a_few_runs) {
  MPI_Datatype column;
  MPI_Type_vector(1 << 20, 3, 1000, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  const Layout layout = Layout::of(column);
  EXPECT_EQ(layout.size_bytes(), (std::int64_t{1} << 20) * 24);
  EXPECT_LE(layout.runs().size(), 2U);
  MPI_Type_free(&column);
}

TEST_F(LayoutTest, the_null_type_is_refused_with_a_sentence) {
  try {
    Layout::of(MPI_DATATYPE_NULL);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::type);
    EXPECT_NE(error.sentence().find("MPI_DATATYPE_NULL"), std::string::npos) << error.sentence();
  }
}

}  // namespace
}  // namespace partita::test
