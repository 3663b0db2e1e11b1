// The library's own kernels, as the host names and feeds them (Stream::launch). Their bodies stand in
// memory/kernel_bodies.cuh.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/elements.hpp>
#include <partita/device/impl/execution_space.hpp>

namespace partita::memory {

enum class Kernel : partita_u32 {
  store_words,
  await_word,
  reduce_elements,
  pack_elements,
  pack_together,
  do_collective,
  run_message,
  run_messages,
  run_epochs,
  reduce_pushed,
};
inline constexpr int kernel_count = 10;
/// Their entry points, in this order.
inline constexpr const char* kernel_names[kernel_count] = {
    "partita_store_words",   "partita_await_word",    "partita_reduce_elements", "partita_pack_elements",
    "partita_pack_together", "partita_do_collective", "partita_run_message",     "partita_run_messages",
    "partita_run_epochs",    "partita_reduce_pushed"};

struct Grid {
  unsigned blocks = 1;
  unsigned threads = 1;
  /// Not 0: the blocks wait for each other, and for those of as many such grids, this one included, which may be on the
  /// same GPU. All run at once, fewer blocks of each where the GPU has no room for so many.
  unsigned grids_at_once = 0;
};

/// What a wait ends with: the word is the value, or, a counter that may wrap, has come to it. Waits and counts are less
/// than half of the word's range apart.
enum class Until : partita_u32 { equal, reached };

/// A store of a word of `bytes` (4 or 8): of `value`, or, where `from` is not null, of what lies there when the kernel
/// runs. So a graph that is launched again stores the next epoch. Addresses are as the GPU uses them.
struct WordStore {
  void* word = nullptr;
  const void* from = nullptr;
  partita_u64 value = 0;
  partita_u32 bytes = 4;
};

/// The arguments of Kernel::store_words, a grid of one thread. Stores in order; who sees one of them at system scope
/// sees those before it, and all that the stream did before.
struct StoreWords {
  static constexpr Kernel kernel = Kernel::store_words;
  static constexpr partita_u32 most = 64;
  partita_u32 count = 0;
  WordStore stores[most];

  PARTITA_HOST_DEVICE void add(const WordStore& store) { stores[count++] = store; }
};

/// The arguments of Kernel::await_word, a grid of one thread that spins. What was released to the word is visible to
/// all that the stream does next.
struct AwaitWord {
  static constexpr Kernel kernel = Kernel::await_word;
  const void* word = nullptr;
  const void* from = nullptr;  ///< not null: the value is read there, once, when the kernel begins
  partita_u64 value = 0;
  partita_u32 bytes = 4;  ///< of the word, and of what `from` names: 4 or 8
  Until until = Until::equal;
  partita_u64 limit_ns = 0;     ///< the wait ends after this long
  partita_u32* late = nullptr;  ///< set to 1 by a wait that ended so; null: then the kernel fails
};

using device::Combine;
using device::Element;

/// The arguments of Kernel::reduce_elements, any grid: to = from ⊕ to, bit by bit the same as with the two exchanged.
/// They do not overlap, and are aligned for their elements. Nothing is done where `element` does not go with `by`.
struct ReduceElements {
  static constexpr Kernel kernel = Kernel::reduce_elements;
  void* to = nullptr;
  const void* from = nullptr;
  partita_u64 count = 0;
  Element element = Element::i8;
  Combine by = Combine::sum;
};

/// Pieces of an element of a datatype, as Layout::Run, and where the first lies among the element's packed bytes.
struct PackRun {
  partita_i64 offset_bytes = 0;
  partita_i64 stride_bytes = 0;
  partita_u64 length_bytes = 0;
  partita_u64 packed_bytes = 0;
};

/// The arguments of Kernel::pack_elements, any grid: copies the first packed bytes of elements of a datatype with gaps
/// from the buffer, or, where `unpacks` is not 0, to it; then all else in the buffer stays untouched. A thread copies a
/// unit at a time, for which all pieces are aligned.
struct PackElements {
  static constexpr Kernel kernel = Kernel::pack_elements;
  void* packed = nullptr;
  void* user = nullptr;           ///< the first element
  const PackRun* runs = nullptr;  ///< in memory that the GPU reads; `packed_bytes` ascend from 0
  partita_u32 run_count = 0;      ///< 1 or more
  partita_u32 unit_bytes = 1;     ///< 1, 2, 4, 8 or 16
  partita_u64 bytes = 0;          ///< packed, whole units
  partita_u64 size_bytes = 0;     ///< of an element, packed
  partita_i64 extent_bytes = 0;
  partita_u32 unpacks = 0;
};

/// The arguments of Kernel::pack_together: several of them, with blocks for each.
struct PackTogether {
  static constexpr Kernel kernel = Kernel::pack_together;
  static constexpr partita_u32 most = 32;
  PackElements each[most]{};
  partita_u32 blocks[most]{};  ///< of each
};
static_assert(sizeof(PackTogether) <= 4096, "a kernel takes no more on every GPU");

/// The arguments of Kernel::do_collective, any grid of up to `most_threads` a block whose blocks run at once: the next
/// epoch of the request, a collective whose epochs kernels open, from its begin to its end, as MPIX_Pallreduce and the
/// like within a kernel. What goes wrong is recorded as there.
struct DoCollective {
  static constexpr Kernel kernel = Kernel::do_collective;
  static constexpr unsigned most_threads = 512;
  Partita_Prequest request{};
};

enum class EpochStep : partita_u32 { start, wait };

/// The arguments of Kernel::run_epochs, a block of up to `most_threads` for each request, which is one whose epochs
/// kernels open: opens its next epoch, or waits for the end of the open one, as MPIX_Pstart and MPIX_Pwait within a
/// kernel. What goes wrong is recorded as there. Nothing is done with a request that has failed, before or in the step,
/// and from there on every call of a kernel on it returns PARTITA_DEVICE_ERR_ABORTED.
struct RunEpochs {
  static constexpr Kernel kernel = Kernel::run_epochs;
  static constexpr unsigned most_threads = 256;
  static constexpr partita_u32 most = 16;
  Partita_Prequest requests[most]{};
  EpochStep step = EpochStep::start;
};
static_assert(sizeof(RunEpochs) <= 4096, "a kernel takes no more on every GPU");

/// The arguments of Kernel::reduce_pushed, any grid: reduces what marks of a collective have pushed on all ranks in the
/// epoch behind `before`, and nobody else reduces, or nothing where that epoch is over. It waits for nobody.
struct ReducePushed {
  static constexpr Kernel kernel = Kernel::reduce_pushed;
  static constexpr unsigned most_threads = 256;
  Partita_Prequest request{};
  partita_u32 before = 0;
};

}  // namespace partita::memory
