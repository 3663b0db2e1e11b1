#include "core/layout.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/mpi_check.hpp"

namespace partita {
namespace {

using Run = Layout::Run;
using Runs = std::vector<Run>;

/// A run of one piece, or of pieces that touch, is one stretch.
Run simplified(Run run) {
  if (run.count > 1 && run.stride_bytes == run.length_bytes) {
    run.length_bytes *= run.count;
    run.count = 1;
  }
  if (run.count == 1) run.stride_bytes = 0;
  return run;
}

/// Appends `run`, growing the last one where it continues it.
void append(Runs& runs, Run run) {
  run = simplified(run);
  if (run.length_bytes == 0 || run.count == 0) return;
  if (!runs.empty()) {
    Run& last = runs.back();
    if (last.count == 1 && run.count == 1 && last.offset_bytes + last.length_bytes == run.offset_bytes) {
      last.length_bytes += run.length_bytes;
      return;
    }
  }
  runs.push_back(run);
}

void append_shifted(Runs& runs, const Runs& piece, std::int64_t shift_bytes) {
  for (Run run : piece) {
    run.offset_bytes += shift_bytes;
    append(runs, run);
  }
}

/// Appends `count` copies of `piece`, `stride_bytes` apart; one strided run where that can say it.
void append_repeated(Runs& runs, const Runs& piece, std::int64_t shift_bytes, std::int64_t count,
                     std::int64_t stride_bytes) {
  if (piece.size() == 1 && piece.front().count == 1) {
    append(runs, {piece.front().offset_bytes + shift_bytes, piece.front().length_bytes, stride_bytes, count});
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) append_shifted(runs, piece, shift_bytes + i * stride_bytes);
}

std::int64_t extent_of(MPI_Datatype type) {
  MPI_Count lower_bound = 0;
  MPI_Count extent = 0;
  PARTITA_MPI(Type_get_extent_x(type, &lower_bound, &extent));
  return extent;
}

Runs flatten(MPI_Datatype type);

/// How many arguments of each kind a type was made from, and by which constructor.
struct Envelope {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = MPI_COMBINER_NAMED;
  bool large_counts = false;  ///< made by a large-count constructor (MPI-4), whose arguments need other calls

  static Envelope of(MPI_Datatype type) {
    Envelope envelope;
#if MPI_VERSION >= 4
    // The query without large counts is an error on such a type.
    MPI_Count integers = 0, addresses = 0, large_counts = 0, types = 0;
    PARTITA_MPI(Type_get_envelope_c(type, &integers, &addresses, &large_counts, &types, &envelope.combiner));
    envelope.large_counts = large_counts > 0;
    if (envelope.large_counts) return envelope;
#endif
    PARTITA_MPI(Type_get_envelope(type, &envelope.integers, &envelope.addresses, &envelope.types, &envelope.combiner));
    return envelope;
  }
};

/// The arguments that a derived type was made from.
class Contents {
 public:
  Contents(MPI_Datatype type, const Envelope& envelope)
      : integers_(static_cast<std::size_t>(envelope.integers)),
        addresses_(static_cast<std::size_t>(envelope.addresses)),
        types_(static_cast<std::size_t>(envelope.types)) {
    PARTITA_MPI(Type_get_contents(type, envelope.integers, envelope.addresses, envelope.types, integers_.data(),
                                  addresses_.data(), types_.data()));
  }
  ~Contents() {
    for (MPI_Datatype& type : types_) free_if_derived(type);
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  std::int64_t integer(std::size_t i) const { return integers_.at(i); }
  std::int64_t address(std::size_t i) const { return addresses_.at(i); }
  MPI_Datatype type(std::size_t i) const { return types_.at(i); }

 private:
  static void free_if_derived(MPI_Datatype& type) {
    if (Envelope::of(type).combiner != MPI_COMBINER_NAMED) native::Type_free(&type);
  }

  std::vector<int> integers_;
  std::vector<MPI_Aint> addresses_;
  std::vector<MPI_Datatype> types_;
};

/// Blocks of `old_type`: block i has length(i) elements at offset(i) bytes.
template <class Length, class Offset>
Runs blocks(MPI_Datatype old_type, std::int64_t count, Length length, Offset offset) {
  const Runs piece = flatten(old_type);
  const std::int64_t extent = extent_of(old_type);
  Runs runs;
  for (std::int64_t i = 0; i < count; ++i) append_repeated(runs, piece, offset(i), length(i), extent);
  return runs;
}

/// `count` blocks, evenly spaced.
Runs strided_blocks(MPI_Datatype old_type, std::int64_t count, std::int64_t length, std::int64_t stride_bytes) {
  Runs block;
  append_repeated(block, flatten(old_type), 0, length, extent_of(old_type));
  Runs runs;
  append_repeated(runs, block, 0, count, stride_bytes);
  return runs;
}

/// MPI_Type_create_subarray: dimension by dimension, the fastest first.
Runs subarray(const Contents& contents) {
  const auto dimensions = static_cast<std::size_t>(contents.integer(0));
  const bool c_order = contents.integer(3 * dimensions + 1) == MPI_ORDER_C;
  Runs runs = flatten(contents.type(0));
  std::int64_t pitch = extent_of(contents.type(0));
  for (std::size_t step = 0; step < dimensions; ++step) {
    const std::size_t d = c_order ? dimensions - 1 - step : step;
    const std::int64_t size = contents.integer(1 + d);
    const std::int64_t subsize = contents.integer(1 + dimensions + d);
    const std::int64_t start = contents.integer(1 + 2 * dimensions + d);
    Runs rows;
    append_repeated(rows, runs, start * pitch, subsize, pitch);
    runs = std::move(rows);
    pitch *= size;
  }
  return runs;
}

Runs structure(const Contents& contents) {
  Runs runs;
  const auto count = static_cast<std::size_t>(contents.integer(0));
  for (std::size_t i = 0; i < count; ++i) {
    const MPI_Datatype member = contents.type(i);
    append_repeated(runs, flatten(member), contents.address(i), contents.integer(1 + i), extent_of(member));
  }
  return runs;
}

/// Where the bytes of one element lie, gaps among them included, and how many they are without.
struct Bounds {
  std::int64_t first_byte = 0;
  std::int64_t span_bytes = 0;
  std::int64_t size_bytes = 0;

  static Bounds of(MPI_Datatype type) {
    MPI_Count lower_bound = 0;
    MPI_Count true_extent = 0;
    MPI_Count size = 0;
    PARTITA_MPI(Type_get_true_extent_x(type, &lower_bound, &true_extent));
    PARTITA_MPI(Type_size_x(type, &size));
    return {lower_bound, true_extent, size};
  }
};

Runs named(MPI_Datatype type) {
  const Bounds bounds = Bounds::of(type);
  Runs runs;
  if (bounds.size_bytes == bounds.span_bytes) {
    append(runs, {bounds.first_byte, bounds.size_bytes, 0, 1});
    return runs;
  }
  // The pair types with a gap (MPI_DOUBLE_INT, MPI_LONG_INT, MPI_LONG_DOUBLE_INT): value, then an int at the next
  // multiple of its alignment. The value fills the rest of the size.
  const std::int64_t value_bytes = bounds.size_bytes - static_cast<std::int64_t>(sizeof(int));
  const std::int64_t int_align = alignof(int);
  append(runs, {bounds.first_byte, value_bytes, 0, 1});
  append(runs, {bounds.first_byte + (value_bytes + int_align - 1) / int_align * int_align, sizeof(int), 0, 1});
  return runs;
}

/// Asks the MPI itself for the map of `type`, whatever it was made from: packs a buffer in which every byte holds a
/// part of its own offset, one part a pass. Takes memory of twice the type's extent, for a moment.
Runs probed(MPI_Datatype type) {
  const Bounds bounds = Bounds::of(type);
  if (bounds.span_bytes > std::numeric_limits<int>::max()) {
    throw Error(
        ErrorClass::type,
        "a datatype of {} bytes made by MPI_Type_create_darray or a large-count constructor is more than can be "
        "flattened (2^31 - 1); expected are contiguous, vector, indexed, struct, subarray, resized or dup ones",
        bounds.span_bytes);
  }
  // A type inside another one need not be committed, but then the MPI does not pack it.
  MPI_Datatype packable = MPI_DATATYPE_NULL;
  PARTITA_MPI(Type_dup(type, &packable));
  PARTITA_MPI(Type_commit(&packable));
  const auto size_bytes = static_cast<std::size_t>(bounds.size_bytes);
  std::vector<std::uint64_t> offsets(size_bytes);
  std::vector<unsigned char> stamps(static_cast<std::size_t>(bounds.span_bytes));
  std::vector<unsigned char> packed(size_bytes);
  for (int shift = 0; shift < 32; shift += 8) {
    for (std::size_t i = 0; i < stamps.size(); ++i) stamps[i] = static_cast<unsigned char>(i >> shift);
    int position = 0;
    PARTITA_MPI(Pack(stamps.data() - bounds.first_byte, 1, packable, packed.data(), static_cast<int>(size_bytes),
                     &position, MPI_COMM_SELF));
    for (std::size_t i = 0; i < packed.size(); ++i) offsets[i] |= std::uint64_t{packed[i]} << shift;
  }
  PARTITA_MPI(Type_free(&packable));
  Runs runs;
  for (const std::uint64_t offset : offsets) {
    append(runs, {bounds.first_byte + static_cast<std::int64_t>(offset), 1, 0, 1});
  }
  return runs;
}

Runs flatten(MPI_Datatype type) {
  const Envelope envelope = Envelope::of(type);
  if (envelope.large_counts) return probed(type);
  if (envelope.combiner == MPI_COMBINER_NAMED) return named(type);

  const Contents c(type, envelope);
  const auto index = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  switch (envelope.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      return flatten(c.type(0));
    case MPI_COMBINER_CONTIGUOUS:
      return strided_blocks(c.type(0), 1, c.integer(0), 0);
    case MPI_COMBINER_VECTOR:
      return strided_blocks(c.type(0), c.integer(0), c.integer(1), c.integer(2) * extent_of(c.type(0)));
    case MPI_COMBINER_HVECTOR:
      return strided_blocks(c.type(0), c.integer(0), c.integer(1), c.address(0));
    case MPI_COMBINER_INDEXED: {
      const std::int64_t n = c.integer(0), extent = extent_of(c.type(0));
      return blocks(
          c.type(0), n, [&](auto i) { return c.integer(index(1 + i)); },
          [&](auto i) { return c.integer(index(1 + n + i)) * extent; });
    }
    case MPI_COMBINER_HINDEXED:
      return blocks(
          c.type(0), c.integer(0), [&](auto i) { return c.integer(index(1 + i)); },
          [&](auto i) { return c.address(index(i)); });
    case MPI_COMBINER_INDEXED_BLOCK: {
      const std::int64_t extent = extent_of(c.type(0));
      return blocks(
          c.type(0), c.integer(0), [&](auto) { return c.integer(1); },
          [&](auto i) { return c.integer(index(2 + i)) * extent; });
    }
    case MPI_COMBINER_HINDEXED_BLOCK:
      return blocks(
          c.type(0), c.integer(0), [&](auto) { return c.integer(1); }, [&](auto i) { return c.address(index(i)); });
    case MPI_COMBINER_STRUCT:
      return structure(c);
    case MPI_COMBINER_SUBARRAY:
      return subarray(c);
    case MPI_COMBINER_F90_REAL:
    case MPI_COMBINER_F90_COMPLEX:
    case MPI_COMBINER_F90_INTEGER:
      return named(type);
    default:
      return probed(type);
  }
}

/// memcpy with the length known to the compiler where pieces are single numbers.
template <std::int64_t Length>
void copy_pieces(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                 std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, Length);
}

void copy_run(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
              std::int64_t length, std::int64_t count) {
  switch (length) {
    case 4:
      return copy_pieces<4>(to, to_stride, from, from_stride, count);
    case 8:
      return copy_pieces<8>(to, to_stride, from, from_stride, count);
    case 16:
      return copy_pieces<16>(to, to_stride, from, from_stride, count);
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<std::size_t>(length));
      }
  }
}

}  // namespace

Layout Layout::of(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL) {
    throw Error(ErrorClass::type, "argument datatype is MPI_DATATYPE_NULL; expected is a committed datatype");
  }
  MPI_Count size = 0;
  PARTITA_MPI(Type_size_x(datatype, &size));
  Layout layout;
  layout.size_bytes_ = size;
  layout.extent_bytes_ = extent_of(datatype);
  layout.runs_ = flatten(datatype);
  layout.contiguous_ = size == 0 || (layout.one_piece() && layout.extent_bytes_ == layout.size_bytes_);
  return layout;
}

void Layout::pack(const std::byte* user, std::int64_t first, std::int64_t count, std::byte* packed) const {
  if (one_piece()) {
    const Run& run = runs_.front();
    copy_run(packed, run.length_bytes, user + first * extent_bytes_ + run.offset_bytes, extent_bytes_, run.length_bytes,
             count);
    return;
  }
  for (std::int64_t element = first; element < first + count; ++element) {
    const std::byte* base = user + element * extent_bytes_;
    for (const Run& run : runs_) {
      copy_run(packed, run.length_bytes, base + run.offset_bytes, run.stride_bytes, run.length_bytes, run.count);
      packed += run.length_bytes * run.count;
    }
  }
}

void Layout::unpack(const std::byte* packed, std::byte* user, std::int64_t first, std::int64_t count) const {
  if (one_piece()) {
    const Run& run = runs_.front();
    copy_run(user + first * extent_bytes_ + run.offset_bytes, extent_bytes_, packed, run.length_bytes, run.length_bytes,
             count);
    return;
  }
  for (std::int64_t element = first; element < first + count; ++element) {
    std::byte* base = user + element * extent_bytes_;
    for (const Run& run : runs_) {
      copy_run(base + run.offset_bytes, run.stride_bytes, packed, run.length_bytes, run.length_bytes, run.count);
      packed += run.length_bytes * run.count;
    }
  }
}

}  // namespace partita
