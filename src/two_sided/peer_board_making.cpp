#include "two_sided/peer_board_making.hpp"

#include <atomic>
#include <utility>

#include "core/current_error.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {

using Words = std::array<std::uint64_t, 5>;

/// `before`: the words of another peer, of which the file is kept where this one cannot open it.
Words board_words_of(const memory::HostAddress& address, const Words& before) {
  // The number of no file is -1, and the words of ranks that name nothing are 0.
  const auto file = static_cast<std::uint64_t>(std::int64_t{address.file.number} + 1);
  if (file == 0) return {0, address.segment, address.offset_bytes, before[3], before[4]};
  return {0, address.segment, address.offset_bytes, file, address.file.inode};
}

memory::HostAddress board_address_of(const Words& words) {
  memory::HostAddress address{words[1], words[2], {}};
  address.file.number = static_cast<int>(words[3]) - 1;
  address.file.inode = words[4];
  return address;
}

/// The owner cannot know who opens its files until it is tried; to the others it has passed a descriptor.
std::byte* import_from(memory::HostMemory& host_memory, int owner, memory::HostAddress address,
                       std::size_t size_bytes) {
  try {
    return host_memory.import(owner, address, size_bytes);
  } catch (const Error&) {
    address.file = {};
    return host_memory.import(owner, address, size_bytes);
  }
}

}  // namespace

/// The MPI may still come to it: it stays to the end of the process.
BoardMaking::~BoardMaking() {
  static std::atomic<Talk*> left{nullptr};
  if (talk_ == nullptr || talk_->request == MPI_REQUEST_NULL) return;
  Talk* const begun = talk_.release();
  begun->next = left.exchange(begun);
}

template <class Step>
bool BoardMaking::succeeds(const Step& step) {
  try {
    step();
    return true;
  } catch (const std::exception&) {
    why_not_ = current_error().sentence();
    return false;
  }
}

bool BoardMaking::step(MPI_Comm comm) {
  if (stage_ == Stage::begun) {
    begin_largest_of(comm, named_words());
    stage_ = Stage::named;
  }
  if (stage_ == Stage::named) {
    const Words* const named = largest();
    if (named == nullptr) return false;
    begin_largest_of(comm, {maps(*named) ? 0U : 1U});
    stage_ = Stage::mapped;
  }
  if (stage_ == Stage::mapped) {
    const Words* const missing = largest();
    if (missing == nullptr) return false;
    if ((*missing)[0] != 0) board_ = nullptr;
    stage_ = Stage::over;
  }
  return true;
}

void BoardMaking::begin_largest_of(MPI_Comm comm, const Words& own) {
  talk_ = std::make_unique<Talk>(Talk{own, {}, MPI_REQUEST_NULL, nullptr});
  PARTITA_MPI(Iallreduce(talk_->own.data(), talk_->all.data(), static_cast<int>(own.size()), MPI_UINT64_T, MPI_MAX,
                         comm, &talk_->request));
}

/// The largest of each word of all ranks; null while the MPI is at it.
const BoardMaking::Words* BoardMaking::largest() {
  int ended = 0;
  PARTITA_MPI(Test(&talk_->request, &ended, MPI_STATUS_IGNORE));
  return ended != 0 ? &talk_->all : nullptr;
}

BoardMaking::Words BoardMaking::named_words() {
  Words named{};
  const bool has_named = succeeds([&] {
    if (rank_ != 0) return;
    memory::HostMemory& host_memory = services_.requests.host_memory;
    const auto ranks = static_cast<int>(members_.size());
    services_.left_boards.sweep();
    std::byte* const memory = host_memory.allocate_block(PeerBoard::size_bytes(ranks));
    board_ = std::make_unique<PeerBoard>(memory, ranks, rank_, &services_.left_boards);
    for (const int peer : members_) named = board_words_of(host_memory.export_to(peer, memory), named);
  });
  named[0] = has_named ? 0 : 1;
  return named;
}

bool BoardMaking::maps(const Words& named) {
  const bool has_mapped = succeeds([&] {
    if (rank_ == 0 || named[0] != 0) return;
    const auto ranks = static_cast<int>(members_.size());
    std::byte* const memory = import_from(services_.requests.host_memory, members_.front(), board_address_of(named),
                                          PeerBoard::size_bytes(ranks));
    board_ = std::make_unique<PeerBoard>(memory, ranks, rank_, nullptr);
  });
  return has_mapped && board_ != nullptr;
}

}  // namespace partita
