// Link `mpi`: internal messages of the MPI itself, on a private communicator (docs/design/link.md). Works between any
// two ranks and needs nothing else.
#include <algorithm>
#include <map>
#include <mutex>

#include "link/mpi/copied_sends.hpp"
#include "link/mpi/receiver.hpp"
#include "link/mpi/sender.hpp"
#include "link/registry.hpp"

namespace partita::link {
namespace mpi {
namespace {

/// What is worth a message, with its receive, of its own.
constexpr std::int64_t least_block_bytes = 64 * 1024;

/// One for each transfer; or several, where transfers are so large that parts of them had better not go in pieces.
std::int32_t count_blocks(const Plan& plan, std::int32_t transfers) {
  const std::int64_t each = plan.total_bytes() / least_block_bytes / transfers;
  return transfers *
         static_cast<std::int32_t>(std::clamp<std::int64_t>(each, 1, plan.transport_partitions() / transfers));
}

constexpr SmallestTransfer into_host[] = {{any_size, least_block_bytes}};

class MpiLink final : public Link {
 public:
  explicit MpiLink(const Context& context) : Link(can), world_(context.world), copied_(context) {}

  std::variant<std::unique_ptr<Sender>, Refusal> sender(const Endpoint& endpoint) override {
    return std::make_unique<MpiSender>(world_, copied_, endpoint);
  }

  std::variant<std::unique_ptr<Receiver>, Refusal> receiver(const Endpoint& endpoint, const Plan& plan,
                                                            std::int32_t transfers,
                                                            std::span<const std::byte>) override {
    return std::make_unique<MpiReceiver>(world_, endpoint, plan, count_blocks(plan, transfers), tags_of(endpoint.peer));
  }

  bool progress() override { return copied_.progress(); }

 private:
  static constexpr Capabilities can{.name = "mpi", .into_mapped = into_host, .into_plain = into_host};

  TagRanges& tags_of(int peer) {
    const std::lock_guard lock(mutex_);
    return tags_.try_emplace(peer, world_.tag_upper_bound()).first->second;
  }

  World& world_;
  CopiedSends copied_;
  std::mutex mutex_;
  std::map<int, TagRanges> tags_;
};

}  // namespace
}  // namespace mpi

std::unique_ptr<Link> make_mpi(const Context& context) {
  return std::make_unique<mpi::MpiLink>(context);
}

}  // namespace partita::link
