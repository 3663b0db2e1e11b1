#include "link/direct/host.hpp"

#include "link/direct/mapped.hpp"
#include "link/direct/remote_copy.hpp"
#include "link/direct/shared_copy.hpp"
#include "link/direct/slots.hpp"

namespace partita::link::direct {
namespace {

/// The size of the receiver's block.
std::size_t block_bytes(Way way, const Plan& plan) {
  switch (way) {
    case Way::slots:
      return SlotBlock::size_bytes(plan);
    case Way::mapped:
    case Way::remote_copy:
      return Flags::size_bytes(plan);
    case Way::shared_copy:
      return CopyBoard::size_bytes(plan);
  }
  return 0;
}

/// How the bytes move.
const char* describe(Way way) {
  switch (way) {
    case Way::slots:
      return "same node, small enough for slots: two copies";
    case Way::mapped:
      return "same node, the sender maps the receive buffer: one copy";
    case Way::remote_copy:
      return "same node, the sender's thread copies through the kernel: one copy";
    case Way::shared_copy:
      return "same node, the threads of both ranks copy through the kernel: one copy";
  }
  return "";
}

}  // namespace

HostSender::HostSender(const Context& context, const Endpoint& endpoint)
    : context_(context),
      endpoint_(endpoint),
      words_block_(context.host_memory, sender_words_bytes(endpoint.held_partitions)),
      current_(context.settings.first_epoch),
      previous_(context.settings.first_epoch) {
  words().credit = context.settings.first_epoch;
}

wire::Bytes HostSender::offer() {
  const Offer offer{context_.host_memory.export_to(endpoint_.peer, words_block_.address()),
                    context_.settings.first_epoch, own_probe(), endpoint_.held_partitions,
                    reinterpret_cast<std::uint64_t>(endpoint_.data)};
  return offer.pack();
}

std::variant<SenderFacts, Obstacle> HostSender::connect(const Plan& plan, std::byte* data,
                                                        std::span<const std::byte> message) {
  const auto answer = Answer::unpack(message);
  may_be_ahead_ = answer.way == Way::slots;
  if (answer.fetches && endpoint_.held_partitions == plan.send_partitions()) {
    board_ = board_behind(words(), endpoint_.held_partitions);
  }
  puts_ = make_puts(plan, data, answer);
  return SenderFacts{.hold_board = board_};
}

std::unique_ptr<Puts> HostSender::make_puts(const Plan& plan, const std::byte* data, const Answer& answer) {
  const auto mapped = [&](const memory::HostAddress& address, std::size_t size_bytes) {
    return context_.host_memory.import(endpoint_.peer, address, size_bytes);
  };
  const auto by_kernel = [&] {
    return RemoteBytes{remote_process(endpoint_.peer, answer.probe), answer.plain_address};
  };
  std::byte* const block = mapped(answer.flags, block_bytes(answer.way, plan));
  switch (answer.way) {
    case Way::slots:
      return std::make_unique<SlotPuts>(plan, data, SlotBlock(block, plan));
    case Way::mapped: {
      std::byte* const buffer = endpoint_.peer == context_.world.rank()
                                    ? reinterpret_cast<std::byte*>(answer.plain_address)
                                    : mapped(answer.data, static_cast<std::size_t>(plan.total_bytes()));
      return std::make_unique<MappedPuts>(plan, data, Flags(block), buffer);
    }
    case Way::remote_copy:
      return std::make_unique<RemotePuts>(plan, data, Flags(block), by_kernel());
    case Way::shared_copy:
      return std::make_unique<SharedPuts>(plan, data, CopyBoard(block), by_kernel(), words().pulled);
  }
  return nullptr;
}

HostReceiver::HostReceiver(const Context& context, const Endpoint& endpoint, const Plan& plan, std::int32_t transfers,
                           const Offer& offer, Way way)
    : context_(context),
      endpoint_(endpoint),
      way_(way),
      words_(*reinterpret_cast<SenderWords*>(
          context.host_memory.import(endpoint.peer, offer.words, sender_words_bytes(offer.held_partitions)))),
      block_(context.host_memory, block_bytes(way, plan)),
      arrivals_(make_arrivals(plan, offer)),
      fetching_(make_fetching(plan, transfers, offer)) {}

void HostReceiver::open_fetching(Epoch epoch) {
  fetching_->open(epoch);
  tell_opened(epoch);
}

std::unique_ptr<Arrivals> HostReceiver::make_arrivals(const Plan& plan, const Offer& offer) {
  std::byte* const block = block_.address();
  switch (way_) {
    case Way::slots:
      return std::make_unique<SlotArrivals>(SlotBlock(block, plan));
    case Way::mapped:
    case Way::remote_copy:
      return std::make_unique<ArrivalsInPlace>(Flags(block), endpoint_.data);
    case Way::shared_copy:
      return std::make_unique<SharedArrivals>(plan, endpoint_.data, CopyBoard(block),
                                              remote_process(endpoint_.peer, offer.probe), words_.pulled);
  }
  return nullptr;
}

std::unique_ptr<Fetching> HostReceiver::make_fetching(const Plan& plan, std::int32_t transfers,
                                                      const Offer& offer) const {
  if (transfers == plan.transport_partitions()) return nullptr;  // nothing waits
  // Where one side is staged, the plan is cut otherwise than the sender's partitions are.
  if (offer.held_partitions != plan.send_partitions() || endpoint_.peer == context_.world.rank()) return nullptr;
  if (!can_read(offer.probe, offer.data, plan.total_bytes())) return nullptr;
  return std::make_unique<Fetching>(plan, board_behind(words_, offer.held_partitions), endpoint_.peer, offer.probe,
                                    offer.data, arrivals_->facts().landings);
}

ReceiverAnswer HostReceiver::answer() {
  Answer answer{};
  answer.way = way_;
  answer.probe = own_probe();
  answer.plain_address = reinterpret_cast<std::uint64_t>(endpoint_.data);
  answer.flags = context_.host_memory.export_to(endpoint_.peer, block_.address());
  answer.fetches = fetching_ != nullptr;
  if (way_ == Way::mapped && endpoint_.peer != context_.world.rank()) {
    answer.data = context_.host_memory.export_to(endpoint_.peer, endpoint_.data);
  }
  ReceiverFacts facts = arrivals_->facts();
  if (facts.host_flags && fetching_ != nullptr) facts.host_flags->tell_all = false;
  return {answer.pack(), facts, describe(way_)};
}

}  // namespace partita::link::direct
