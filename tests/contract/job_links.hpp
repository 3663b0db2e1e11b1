// The links of this job as the suite drives them: made without the layers above, each pair matched by plain messages.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "link/context.hpp"
#include "link/link.hpp"
#include "support/job.hpp"
#include "support/memory.hpp"

namespace partita::test {

/// The names of the links to test: PARTITA_LINK, or all that this build has.
std::vector<std::string> links_under_test();

/// Links over one world that all JobLinks share, made for requests whose first epoch follows `first_epoch`. What
/// outlasts epochs is told `progress`, or one without a thread: the cases make progress themselves. Collective for the
/// first one.
class JobLinks {
 public:
  explicit JobLinks(Epoch first_epoch = no_epoch, Progress* progress = nullptr);

  link::Link& named(const std::string& name);
  memory::HostMemory& host_memory();

 private:
  Settings settings_;
  std::unique_ptr<link::Context> context_;
  std::vector<std::unique_ptr<link::Link>> links_;
};

enum class MemoryKind { plain, exported, gpu };

/// The memory of the two sides of a request.
struct Kinds {
  MemoryKind send;
  MemoryKind recv;
  Kinds(MemoryKind both) : send(both), recv(both) {}  // NOLINT(google-explicit-constructor): most requests have one
  Kinds(MemoryKind sending, MemoryKind receiving) : send(sending), recv(receiving) {}
};

/// Memory of one side.
class Buffer {
 public:
  Buffer(JobLinks& links, MemoryKind kind, std::int64_t size_bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  link::Endpoint endpoint(int peer) const;

  void fill(Epoch epoch, link::Range range) const;
  void overwrite(link::Range range) const;
  /// The first byte of `range` that is not of `epoch`, and what it is instead; the end where all are. `landed` is the
  /// memory that such a buffer landed in, which may be a link's own.
  std::pair<std::int64_t, int> first_wrong(const std::byte* landed, Epoch epoch, link::Range range) const;

 private:
  JobLinks& links_;
  MemoryKind kind_;
  std::int64_t size_bytes_;
  mutable Bytes bytes_;  ///< but of exported memory
  std::byte* data_ = nullptr;
};

struct Shape {
  std::int32_t send_partitions = 1;
  std::int32_t recv_partitions = 1;
  std::int32_t transport_partitions = 1;
  std::int64_t total_bytes = 0;
  std::int32_t transfers = 0;  ///< where all is complete together; 0: as many as there are transport partitions
  std::vector<std::int64_t> send_sizes = {};  ///< where the sender's partitions differ in size

  std::int32_t transfers_or_all() const { return transfers > 0 ? transfers : transport_partitions; }
  link::Plan plan() const {
    if (send_sizes.empty()) return {send_partitions, recv_partitions, transport_partitions, total_bytes};
    return {link::Partitioning(send_sizes), {recv_partitions, total_bytes}, transport_partitions};
  }
};
std::string to_string(const Shape& shape);

/// One matched request from rank `from` to rank `to`. Collective between the two; the other ranks make nothing. The
/// layers above keep a freed half until the other is freed, too, since a slow receiver still writes credits into the
/// sender's words; here a barrier does, between a pair's last epoch and the next pair.
class Pair {
 public:
  Pair(JobLinks& links, const std::string& link_name, const Shape& shape, Kinds kinds, int from = 0, int to = 1);
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  /// The sentence with which one of the sides refused; the same on both.
  const std::optional<std::string>& refusal() const { return refusal_; }
  link::Link& link() const { return link_; }
  const link::Plan& plan() const { return plan_; }
  const Buffer& buffer() const { return *buffer_; }
  std::int32_t transports() const { return plan_.transport_partitions(); }

  bool sends() const { return sender != nullptr; }
  bool receives() const { return receiver != nullptr; }
  std::unique_ptr<link::Sender> sender;
  link::SenderFacts sender_facts;
  std::unique_ptr<link::Receiver> receiver;
  link::ReceiverFacts receiver_facts;
  std::string way;  ///< as the receiver has told it

  /// Puts, when the receiver is ready, the partitions in `order` (all of them where it is empty), one by one.
  void put(Epoch epoch, std::vector<std::int32_t> order = {});
  /// Puts `runs` of neighbours likewise.
  void put_runs(Epoch epoch, const std::vector<link::Range>& runs);
  /// Waits until the link has let go of the sender's memory, and overwrites that.
  void finish();
  /// Waits for transport partition `t` and checks its bytes at that moment.
  void expect_arrival(std::int32_t t, Epoch epoch);
  void expect_all(Epoch epoch);
  /// The whole round, on either side.
  void round(Epoch epoch);

 private:
  void match_sender(int to);
  void match_receiver(int from);
  void match_self();
  void connect(std::span<const std::byte> answer);
  wire::Bytes answer();

  link::Link& link_;
  link::Plan plan_;
  std::int32_t transfers_;
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<Buffer> self_buffer_;  ///< the receiving side's where a rank sends to itself
  std::optional<std::string> refusal_;
};

/// Makes progress on `link` until `condition()`; false, with a failed check that says `what`, after a quarter of the
/// entry's time limit.
template <class Condition>
bool until(link::Link& link, const std::string& what, Condition condition) {
  const long limit_s = environment_number("PARTITEST_LIMIT", 120) / 4;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(limit_s);
  for (unsigned polls = 1; !condition(); ++polls) {
    link.progress();
    if (polls % 32 == 0) ::sched_yield();  // not each time: a crowded machine gives the core back late
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "waited " << limit_s << " s in vain until " << what;
      return false;
    }
  }
  return true;
}

}  // namespace partita::test
