// Windows of any number of ranks: what each shows the others, whichever side's memory it is; on the fake GPU and on
// CUDA.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "contract/gpu_job.hpp"
#include "contract/gpu_program.hpp"
#include "core/error.hpp"
#include "memory/window.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

using memory::PeerWindow;
using memory::Window;
using memory::WindowName;

constexpr std::size_t buffer_bytes = 10'000;
constexpr std::size_t words = 8;
constexpr std::size_t words_bytes = words * sizeof(std::uint32_t);

/// Every rank shows every rank, itself too, a buffer, words in GPU memory and words in host memory.
class Windows : public GpuJob {
 protected:
  void SetUp() override {
    GpuJob::SetUp();
    buffer_.emplace(buffer_bytes);
    own_.emplace(host_memory(), device_memory(), gpu(), words_bytes, words_bytes);
    std::vector<WindowName> names;
    for (int peer = 0; peer < ranks(); ++peer) {
      names.push_back(own_->name_for(peer));
      names.back().buffer = buffer_name(peer);
    }
    const auto theirs = all_to_all(names);
    for (int peer = 0; peer < ranks(); ++peer) peers_.push_back(map(peer, theirs[static_cast<std::size_t>(peer)]));
    harness_barrier();
  }
  void TearDown() override {
    harness_barrier();
    peers_.clear();
    harness_barrier();
    own_.reset();
    buffer_.reset();
  }

  memory::DeviceExport buffer_name(int peer) {
    auto exported = device_memory().export_to(peer, buffer_->data(), buffer_bytes);
    return std::get<memory::DeviceExport>(exported);
  }
  PeerWindow map(int peer, const WindowName& name) {
    auto mapped = PeerWindow::map(host_memory(), device_memory(), peer, name, gpu(), words_bytes);
    if (const auto* reason = std::get_if<memory::NotMappable>(&mapped)) ADD_FAILURE() << reason->reason;
    return std::get<PeerWindow>(mapped);
  }

  /// names[i] goes to rank i; what comes back is of rank i.
  std::vector<WindowName> all_to_all(const std::vector<WindowName>& names) {
    std::vector<std::byte> out;
    std::vector<int> out_sizes;
    for (int peer = 0; peer < ranks(); ++peer) {
      while (!world().socket().flush(peer)) std::this_thread::yield();
      wire::Writer message;
      const wire::Bytes bytes = put_window(message, names[static_cast<std::size_t>(peer)]).take();
      out.insert(out.end(), bytes.begin(), bytes.end());
      out_sizes.push_back(static_cast<int>(bytes.size()));
    }
    std::vector<int> in_sizes(out_sizes.size());
    PMPI_Alltoall(out_sizes.data(), 1, MPI_INT, in_sizes.data(), 1, MPI_INT, harness_comm());
    const auto starts = [](const std::vector<int>& sizes) {
      std::vector<int> result(sizes.size());
      std::exclusive_scan(sizes.begin(), sizes.end(), result.begin(), 0);
      return result;
    };
    const auto out_starts = starts(out_sizes);
    const auto in_starts = starts(in_sizes);
    std::vector<std::byte> in(static_cast<std::size_t>(in_starts.back() + in_sizes.back()));
    PMPI_Alltoallv(out.data(), out_sizes.data(), out_starts.data(), MPI_BYTE, in.data(), in_sizes.data(),
                   in_starts.data(), MPI_BYTE, harness_comm());
    std::vector<WindowName> result;
    for (std::size_t peer = 0; peer < in_sizes.size(); ++peer) {
      const std::span<const std::byte> all(in);
      wire::Reader message{
          all.subspan(static_cast<std::size_t>(in_starts[peer]), static_cast<std::size_t>(in_sizes[peer]))};
      result.push_back(memory::get_window(message));
      message.end();
    }
    return result;
  }

  std::uint32_t host_word(int index) const {
    return std::atomic_ref(reinterpret_cast<std::uint32_t*>(own_->host_words())[index]).load(std::memory_order_acquire);
  }

  std::optional<ProgramMemory> buffer_;
  std::optional<Window> own_;
  std::vector<PeerWindow> peers_;
};

TEST_F(Windows, words_start_as_zero_and_both_sides_address_them) {
  EXPECT_EQ(read(own_->device_words(), words_bytes), std::vector<std::byte>(words_bytes));
  for (std::size_t i = 0; i < words; ++i) EXPECT_EQ(host_word(static_cast<int>(i)), 0u);
  EXPECT_NE(own_->host_words_on_gpu(), nullptr);
  harness_barrier();
  for (const PeerWindow& peer : peers_) {
    std::atomic_ref(reinterpret_cast<std::uint32_t*>(peer.host_words())[rank()]).store(5, std::memory_order_release);
  }
  harness_barrier();
  for (int peer = 0; peer < ranks(); ++peer) EXPECT_EQ(host_word(peer), 5u);
}

/// Each rank pushes to its right neighbour and raises a flag there, in its GPU and in its host's memory.
TEST_F(Windows, a_stream_copies_into_a_peers_buffer_and_a_kernel_raises_flags_at_both_places) {
  const auto stream = device_memory().make_stream(gpu());
  const ProgramMemory from(buffer_bytes);
  write(from.data(), pattern(buffer_bytes, 100 + static_cast<std::uint64_t>(rank())));
  const PeerWindow& right = peers_[static_cast<std::size_t>((rank() + 1) % ranks())];
  stream->copy(right.buffer(), from.data(), buffer_bytes);
  memory::StoreWords flags;
  flags.add({right.device_words(), nullptr, 9, 4});
  flags.add({right.host_words_on_gpu(), nullptr, 9, 4});
  stream->launch({}, flags);
  stream->wait(reinterpret_cast<const std::uint32_t*>(own_->device_words()), 9, memory::Until::equal);
  while (host_word(0) != 9) std::this_thread::yield();
  const int left = (rank() + ranks() - 1) % ranks();
  EXPECT_EQ(read(buffer_->data(), buffer_bytes), pattern(buffer_bytes, 100 + static_cast<std::uint64_t>(left)));
  stream->drain();
}

/// The sender's memory is shown too: each rank pulls from its right neighbour.
TEST_F(Windows, a_stream_copies_out_of_a_peers_buffer) {
  write(buffer_->data(), pattern(buffer_bytes, 200 + static_cast<std::uint64_t>(rank())));
  harness_barrier();
  const int right = (rank() + 1) % ranks();
  const ProgramMemory to(buffer_bytes);
  const auto stream = device_memory().make_stream(gpu());
  stream->copy(to.data(), peers_[static_cast<std::size_t>(right)].buffer(), buffer_bytes);
  stream->drain();
  EXPECT_EQ(read(to.data(), buffer_bytes), pattern(buffer_bytes, 200 + static_cast<std::uint64_t>(right)));
}

TEST_F(Windows, show_only_what_their_name_has) {
  const Window of_host_words(host_memory(), device_memory(), gpu(), 4, 0);
  const Window of_device_words(host_memory(), device_memory(), gpu(), 0, 4);
  EXPECT_EQ(of_host_words.device_words(), nullptr);
  EXPECT_EQ(of_device_words.host_words(), nullptr);
  EXPECT_EQ(of_device_words.host_words_on_gpu(), nullptr);
  const PeerWindow host_only = map(rank(), of_host_words.name_for(rank()));
  EXPECT_NE(host_only.host_words(), nullptr);
  EXPECT_EQ(host_only.buffer(), nullptr);
  EXPECT_EQ(host_only.device_words(), nullptr);
  const PeerWindow device_only = map(rank(), of_device_words.name_for(rank()));
  EXPECT_NE(device_only.device_words(), nullptr);
  EXPECT_EQ(device_only.peer().host_words, nullptr);
}

TEST_F(Windows, mappings_outlive_the_first_copy_of_a_peer_window) {
  std::optional<PeerWindow> first = peers_.back();
  const PeerWindow second = *first;
  first.reset();
  const auto bytes = pattern(16, 3);
  harness_barrier();
  if (rank() == 0) write(second.buffer(), bytes);
  harness_barrier();
  if (rank() == ranks() - 1) {
    EXPECT_EQ(read(buffer_->data(), bytes.size()), bytes);
  }
}

}  // namespace
}  // namespace partita::test
