#include "contract/job_links.hpp"

#include <fmt/ranges.h>
#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>

#include "core/world.hpp"
#include "link/names.hpp"
#include "link/registry.hpp"
#include "memory/host.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"

namespace partita::test {
namespace {

constexpr int setup_tag = 7;

/// Shared by all JobLinks: one world is all that a job needs.
struct Shared {
  World world{MPI_COMM_WORLD};
  memory::HostMemory host_memory{world};
  std::unique_ptr<memory::DeviceMemory> device_memory = memory::make_device_memory(world, host_memory);
  Progress progress{world.spare_cores()};  ///< without a thread
};
std::unique_ptr<Shared> shared;

/// Ends the world after the last case, while MPI still runs. Collective.
class SharedEnd final : public testing::Environment {
  void TearDown() override { shared.reset(); }
};
[[maybe_unused]] const testing::Environment* const shared_end = testing::AddGlobalTestEnvironment(new SharedEnd);

void send_bytes(const wire::Bytes& bytes, int to) {
  PMPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, setup_tag, harness_comm());
}

wire::Bytes receive_bytes(int from) {
  MPI_Status status;
  PMPI_Probe(from, setup_tag, harness_comm(), &status);
  int size_bytes = 0;
  PMPI_Get_count(&status, MPI_BYTE, &size_bytes);
  wire::Bytes bytes(static_cast<std::size_t>(size_bytes));
  PMPI_Recv(bytes.data(), size_bytes, MPI_BYTE, from, setup_tag, harness_comm(), MPI_STATUS_IGNORE);
  return bytes;
}

/// An offer or an answer, or why there is none.
wire::Bytes message(bool accepted, const wire::Bytes& content, const std::string& reason) {
  return wire::Writer().put(accepted).put_bytes(content).put_string(reason).take();
}

struct Message {
  explicit Message(const wire::Bytes& bytes) {
    wire::Reader reader(bytes);
    accepted = reader.get<bool>();
    content = reader.get_bytes();
    reason = reader.get_string();
  }
  bool accepted;
  wire::Bytes content;
  std::string reason;
};

}  // namespace

std::vector<std::string> links_under_test() {
  const char* wanted = std::getenv("PARTITA_LINK");
  if (wanted != nullptr && std::string(wanted) != "auto") return {wanted};
  return {std::begin(link::names), std::end(link::names)};
}

JobLinks::JobLinks(Epoch first_epoch, Progress* progress) {
  if (shared == nullptr) shared = std::make_unique<Shared>();
  settings_.first_epoch = first_epoch;
  context_ = std::make_unique<link::Context>(link::Context{settings_, shared->world, shared->host_memory,
                                                           *shared->device_memory,
                                                           progress != nullptr ? *progress : shared->progress});
  links_ = link::make_links(*context_);
}

link::Link& JobLinks::named(const std::string& name) {
  for (const auto& link : links_) {
    if (link->name() == name) return *link;
  }
  throw Error(ErrorClass::arg, "PARTITA_LINK is '{}', which is no link of this build", name);
}

memory::HostMemory& JobLinks::host_memory() {
  return shared->host_memory;
}

Buffer::Buffer(JobLinks& links, MemoryKind kind, std::int64_t size_bytes)
    : links_(links), kind_(kind), size_bytes_(size_bytes) {
  const std::int64_t allocated_bytes = std::max<std::int64_t>(size_bytes, 1);
  if (kind == MemoryKind::exported) {
    data_ = links.host_memory().allocate(static_cast<std::size_t>(allocated_bytes));
    return;
  }
  bytes_ = Bytes(kind == MemoryKind::gpu ? Memory::gpu : Memory::plain, allocated_bytes);
  data_ = reinterpret_cast<std::byte*>(bytes_.address());
}

Buffer::~Buffer() {
  if (kind_ == MemoryKind::exported) links_.host_memory().free(data_);
}

link::Endpoint Buffer::endpoint(int peer) const {
  link::Endpoint endpoint{.peer = peer, .data = data_, .size_bytes = size_bytes_};
  if (kind_ == MemoryKind::gpu) {
    endpoint.kind = memory::Kind::device;
    endpoint.device = own_gpu();
  } else {
    endpoint.kind =
        links_.host_memory().kind_of(data_, static_cast<std::size_t>(std::max<std::int64_t>(size_bytes_, 1)));
  }
  return endpoint;
}

void Buffer::fill(Epoch epoch, link::Range range) const {
  if (kind_ == MemoryKind::exported) return write_pattern(data_ + range.begin, epoch, range.begin, range.end);
  bytes_.write(range.begin, range.end,
               [&](std::uint8_t* bytes) { write_pattern(bytes, epoch, range.begin, range.end); });
}

void Buffer::overwrite(link::Range range) const {
  const auto overwrite_at = [&](void* bytes) { std::memset(bytes, 0x5a, static_cast<std::size_t>(range.size())); };
  if (kind_ == MemoryKind::exported) return overwrite_at(data_ + range.begin);
  bytes_.write(range.begin, range.end, overwrite_at);
}

std::pair<std::int64_t, int> Buffer::first_wrong(const std::byte* landed, Epoch epoch, link::Range range) const {
  std::vector<std::byte> copy;
  const std::byte* bytes = landed + range.begin;
  if (kind_ == MemoryKind::gpu) {
    copy.resize(static_cast<std::size_t>(range.size()));
    gpu_copy(copy.data(), bytes, copy.size());
    bytes = copy.data();
  }
  const std::int64_t wrong = first_off_pattern(bytes, epoch, range.begin, range.end);
  return {wrong, wrong == range.end ? 0 : static_cast<int>(bytes[wrong - range.begin])};
}

std::string to_string(const Shape& shape) {
  return fmt::format("{} send, {} receive, {} transport partitions, {} transfers, {} bytes{}", shape.send_partitions,
                     shape.recv_partitions, shape.transport_partitions, shape.transfers_or_all(), shape.total_bytes,
                     shape.send_sizes.empty() ? "" : fmt::format(", sent as {}", fmt::join(shape.send_sizes, " + ")));
}

Pair::Pair(JobLinks& links, const std::string& link_name, const Shape& shape, Kinds kinds, int from, int to)
    : link_(links.named(link_name)),
      plan_(shape.plan()),
      transfers_(shape.transfers_or_all()),
      buffer_(std::make_unique<Buffer>(links, rank() == from ? kinds.send : kinds.recv, shape.total_bytes)) {
  if (from == to && rank() == from) {
    self_buffer_ = std::make_unique<Buffer>(links, kinds.recv, shape.total_bytes);
    match_self();
  } else if (rank() == from) {
    match_sender(to);
  } else if (rank() == to) {
    match_receiver(from);
  }
}

/// As the layers above: the links let go of the memory before it is freed.
Pair::~Pair() {
  if (sender != nullptr) sender->release_memory();
  if (receiver != nullptr) receiver->release_memory();
  sender.reset();
  receiver.reset();
}

void Pair::match_sender(int to) {
  auto made = link_.sender(buffer_->endpoint(to));
  if (auto* refused = std::get_if<link::Refusal>(&made)) {
    refusal_ = refused->reason;
    return send_bytes(message(false, {}, refused->reason), to);
  }
  sender = std::move(std::get<std::unique_ptr<link::Sender>>(made));
  send_bytes(message(true, sender->offer(), ""), to);
  const Message answer(receive_bytes(to));
  if (answer.accepted) {
    return connect(answer.content);
  }
  refusal_ = answer.reason;
  sender.reset();
}

void Pair::match_receiver(int from) {
  const Message offer(receive_bytes(from));
  if (!offer.accepted) {
    refusal_ = offer.reason;
    return;
  }
  auto made = link_.receiver(buffer_->endpoint(from), plan_, transfers_, offer.content);
  if (auto* refused = std::get_if<link::Refusal>(&made)) {
    refusal_ = refused->reason;
    return send_bytes(message(false, {}, refused->reason), from);
  }
  receiver = std::move(std::get<std::unique_ptr<link::Receiver>>(made));
  send_bytes(message(true, answer(), ""), from);
}

void Pair::match_self() {
  auto sending = link_.sender(buffer_->endpoint(rank()));
  if (auto* refused = std::get_if<link::Refusal>(&sending)) {
    refusal_ = refused->reason;
    return;
  }
  sender = std::move(std::get<std::unique_ptr<link::Sender>>(sending));
  auto receiving = link_.receiver(self_buffer_->endpoint(rank()), plan_, transfers_, sender->offer());
  if (auto* refused = std::get_if<link::Refusal>(&receiving)) {
    refusal_ = refused->reason;
    return sender.reset();
  }
  receiver = std::move(std::get<std::unique_ptr<link::Receiver>>(receiving));
  connect(answer());
}

void Pair::connect(std::span<const std::byte> answer) {
  const auto connected = sender->connect(plan_, buffer_->data(), answer);
  ASSERT_TRUE(std::holds_alternative<link::SenderFacts>(connected));
  sender_facts = std::get<link::SenderFacts>(connected);
}

wire::Bytes Pair::answer() {
  link::ReceiverAnswer answer = receiver->answer();
  receiver_facts = answer.facts;
  way = std::move(answer.way);
  return std::move(answer.bytes);
}

void Pair::put(Epoch epoch, std::vector<std::int32_t> order) {
  if (order.empty()) {
    order.resize(static_cast<std::size_t>(transports()));
    std::iota(order.begin(), order.end(), 0);
  }
  std::vector<link::Range> runs;
  for (const std::int32_t t : order) runs.push_back({t, t + 1});
  put_runs(epoch, runs);
}

void Pair::put_runs(Epoch epoch, const std::vector<link::Range>& runs) {
  if (!until(link_, "the receiver is ready", [&] { return sender->ready(epoch); })) return;
  for (const link::Range& run : runs) {
    buffer_->fill(epoch, link::bytes_of(plan_, run));
    sender->put(run, epoch);
  }
}

void Pair::finish() {
  if (!until(link_, "the sender has finished", [&] { return sender->finished(); })) return;
  buffer_->overwrite({0, plan_.total_bytes()});
}

void Pair::expect_arrival(std::int32_t t, Epoch epoch) {
  const auto arrived = [&] { return receiver->arrived(t, epoch); };
  if (!until(link_, fmt::format("transport partition {} of epoch {} has arrived", t, epoch), arrived)) return;
  const Buffer& landed_in = self_buffer_ == nullptr ? *buffer_ : *self_buffer_;
  const link::Range range = plan_.bytes(t);
  const auto [wrong, got] = landed_in.first_wrong(receiver_facts.landing(epoch), epoch, range);
  if (wrong == range.end) return;
  ADD_FAILURE() << "transport partition " << t << " of epoch " << epoch << " arrived with byte " << wrong << " being "
                << got << " instead of " << int{pattern(epoch, wrong)};
}

void Pair::expect_all(Epoch epoch) {
  for (std::int32_t t = 0; t < transports(); ++t) expect_arrival(t, epoch);
}

void Pair::round(Epoch epoch) {
  if (receives()) receiver->open(epoch);
  if (sends()) {
    sender->start(epoch);
    put(epoch);
  }
  if (receives()) expect_all(epoch);
  if (sends()) finish();
}

}  // namespace partita::test
