// Datatypes with gaps in GPU memory, packed and unpacked by the library's kernel: each byte beside an oracle that knows
// its place; on the fake GPU and on CUDA.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "contract/gpu_job.hpp"
#include "contract/gpu_program.hpp"
#include "memory/gpu_layout.hpp"
#include "support/job.hpp"
#include "support/layout.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

using Contents = std::vector<std::byte>;

/// Elements of a datatype in GPU memory that begin `shift` bytes behind a boundary of 16, and room for `bytes` of their
/// packed ones, `packed_shift` behind one.
class Elements {
 public:
  Elements(const TypedLayout& type, std::int64_t bytes, std::int64_t shift, std::int64_t packed_shift)
      : type_(type), bytes_(bytes), packed_shift_(static_cast<std::size_t>(packed_shift)) {
    const auto [first, last] = type.span_of((bytes + type.size_bytes() - 1) / type.size_bytes());
    // Bytes may lie before the first element's address.
    start_ = (std::max<std::int64_t>(-first, 0) + 15) / 16 * 16 + shift;
    gapped_bytes_ = static_cast<std::size_t>(start_ + std::max<std::int64_t>(last, 0) + 16);
    gapped_ = std::make_unique<ProgramMemory>(gapped_bytes_);
    packed_bytes_ = packed_shift_ + static_cast<std::size_t>(bytes) + 16;
    packed_ = std::make_unique<ProgramMemory>(packed_bytes_);
  }

  std::byte* memory() const { return gapped_->data(); }
  std::size_t memory_bytes() const { return gapped_bytes_; }
  std::byte* user() const { return gapped_->data() + start_; }
  std::byte* packed_memory() const { return packed_->data(); }
  std::size_t packed_memory_bytes() const { return packed_bytes_; }
  std::byte* packed() const { return packed_->data() + packed_shift_; }

  /// What packing makes of `gapped` and what unpacking makes of `packed`, as the oracle says.
  Contents packed_from(const Contents& gapped, Contents packed) const {
    for (std::int64_t i = 0; i < bytes_; ++i) packed[packed_place(i)] = gapped[gapped_place(i)];
    return packed;
  }
  Contents unpacked_from(const Contents& packed, Contents gapped) const {
    for (std::int64_t i = 0; i < bytes_; ++i) gapped[gapped_place(i)] = packed[packed_place(i)];
    return gapped;
  }

 private:
  std::size_t packed_place(std::int64_t position) const { return packed_shift_ + static_cast<std::size_t>(position); }
  std::size_t gapped_place(std::int64_t position) const {
    return static_cast<std::size_t>(start_ + type_.offset_of(position));
  }

  const TypedLayout& type_;
  const std::int64_t bytes_;
  const std::size_t packed_shift_;
  std::int64_t start_ = 0;
  std::size_t gapped_bytes_ = 0;
  std::size_t packed_bytes_ = 0;
  std::unique_ptr<ProgramMemory> gapped_;
  std::unique_ptr<ProgramMemory> packed_;
};

class DevicePacking : public GpuJob {
 protected:
  /// Packs and unpacks, and looks at all bytes, those in gaps and around the elements included.
  void expect_both_ways(const TypedLayout& type, std::int64_t bytes, std::int64_t shift, std::int64_t packed_shift) {
    SCOPED_TRACE(std::to_string(bytes) + " bytes of " + type.text() + ", " + std::to_string(shift) + " and " +
                 std::to_string(packed_shift) + " bytes behind a boundary");
    const Elements elements(type, bytes, shift, packed_shift);
    const memory::GpuLayout layout(device_memory(), gpu(), Layout::of(type.type()));
    const auto stream = device_memory().make_stream(gpu());
    const Contents gapped = pattern(elements.memory_bytes(), 1);
    const Contents before = pattern(elements.packed_memory_bytes(), 2);
    write(elements.memory(), gapped);
    write(elements.packed_memory(), before);
    layout.pack(*stream, elements.user(), bytes, elements.packed());
    stream->drain();
    ASSERT_EQ(read(elements.packed_memory(), before.size()), elements.packed_from(gapped, before));
    ASSERT_EQ(read(elements.memory(), gapped.size()), gapped);

    const Contents packed = pattern(elements.packed_memory_bytes(), 3);
    write(elements.packed_memory(), packed);
    layout.unpack(*stream, elements.packed(), elements.user(), bytes);
    stream->drain();
    ASSERT_EQ(read(elements.memory(), gapped.size()), elements.unpacked_from(packed, gapped));
    ASSERT_EQ(read(elements.packed_memory(), packed.size()), packed);
  }
};

TEST_F(DevicePacking, random_datatypes_at_any_place) {
  Random random(job_seed());
  const std::vector<TypedLayout> basics = {
      TypedLayout::basic(MPI_BYTE, 1, "byte"), TypedLayout::basic(MPI_SHORT, 2, "short"),
      TypedLayout::basic(MPI_INT, 4, "int"), TypedLayout::basic(MPI_DOUBLE, 8, "double")};
  const auto rounds = environment_number("PARTITEST_ITERATIONS", 150);
  for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
    const TypedLayout type = TypedLayout::random(random, random.of(basics), 4, false);
    if (type.size_bytes() == 0 || type.size_bytes() > 4000 || type.steps_back_a_byte()) continue;
    const std::int64_t aligned = random.of(std::vector<std::int64_t>{16, 8, 4, 2, 1});
    const auto shift = [&] { return random.between(0, 15) / aligned * aligned; };
    std::int64_t bytes = random.of(std::vector<std::int64_t>{0, 1, 2, 7, 40}) * type.size_bytes();
    if (random.one_in(4)) bytes = random.between(0, bytes);  // may end within an element
    const std::int64_t before = shift();
    expect_both_ways(type, bytes, before, shift());
  }
}

/// Rows of a matrix, whose units are as large as the rows allow, and of more bytes than a grid copies at once.
TEST_F(DevicePacking, rows_in_every_unit) {
  for (const int row_bytes : {1, 2, 4, 8, 16, 48, 64, 100, 4096}) {
    for (const int pitch : {row_bytes + 1, row_bytes * 2, row_bytes + 16}) {
      MPI_Datatype made = MPI_DATATYPE_NULL;
      MPI_Type_create_hvector(33, row_bytes, pitch, MPI_BYTE, &made);
      MPI_Type_commit(&made);
      const memory::GpuLayout layout(device_memory(), gpu(), Layout::of(made));
      const auto stream = device_memory().make_stream(gpu());
      const Contents matrix = pattern(static_cast<std::size_t>(pitch) * 33, 5);
      const ProgramMemory from(matrix.size()), packed(static_cast<std::size_t>(row_bytes) * 33), to(matrix.size());
      write(from.data(), matrix);
      layout.pack(*stream, from.data(), row_bytes * 33, packed.data());
      layout.unpack(*stream, packed.data(), to.data(), row_bytes * 33);
      stream->drain();
      Contents expected(matrix.size());
      for (std::size_t i = 0; i < matrix.size(); ++i) {
        if (i % static_cast<std::size_t>(pitch) < static_cast<std::size_t>(row_bytes)) expected[i] = matrix[i];
      }
      EXPECT_EQ(read(to.data(), matrix.size()), expected) << row_bytes << " of " << pitch << " bytes";
      MPI_Type_free(&made);
    }
  }
}

/// They are many runs, so that the kernel searches.
TEST_F(DevicePacking, a_thousand_blocks_of_different_lengths) {
  Random random(job_seed(), 1);
  std::vector<int> lengths, offsets;
  int end = 0;
  for (int i = 0; i < 1000; ++i) {
    end += random.integer(1, 5);
    offsets.push_back(end);
    lengths.push_back(random.integer(0, 6));
    end += lengths.back();
  }
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_indexed(1000, lengths.data(), offsets.data(), MPI_FLOAT, &made);
  MPI_Type_commit(&made);
  const Layout layout = Layout::of(made);
  MPI_Type_free(&made);
  const memory::GpuLayout on_gpu(device_memory(), gpu(), layout);
  const auto stream = device_memory().make_stream(gpu());
  constexpr std::int64_t count = 3;
  const Contents gapped = pattern(static_cast<std::size_t>(count * layout.extent_bytes()) + 64, 7);
  const ProgramMemory user(gapped.size()), packed(static_cast<std::size_t>(count * layout.size_bytes()));
  write(user.data(), gapped);
  on_gpu.pack(*stream, user.data(), count * layout.size_bytes(), packed.data());
  stream->drain();
  Contents expected(static_cast<std::size_t>(count * layout.size_bytes()));
  layout.pack(gapped.data(), 0, count, expected.data());
  EXPECT_EQ(read(packed.data(), expected.size()), expected);
}

}  // namespace
}  // namespace partita::test
