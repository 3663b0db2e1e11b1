#include "link/mpi/mpi.hpp"

#include <atomic>
#include <limits>
#include <map>
#include <mutex>

#include "core/mpi_check.hpp"
#include "link/mpi/messages.hpp"
#include "link/mpi/tag_ranges.hpp"

namespace partita::link {
namespace {

/// A datatype of any number of bytes, since a count is an int.
class ByteSpan {
 public:
  explicit ByteSpan(std::int64_t size_bytes) {
    if (size_bytes <= std::numeric_limits<int>::max()) {
      count_ = static_cast<int>(size_bytes);
      return;
    }
    const int chunk = 1 << 30;
    int lengths[2] = {static_cast<int>(size_bytes / chunk), static_cast<int>(size_bytes % chunk)};
    MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(size_bytes / chunk) * chunk};
    MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_BYTE};
    PARTITA_MPI(Type_contiguous(chunk, MPI_BYTE, &types[0]));
    PARTITA_MPI(Type_create_struct(2, lengths, offsets, types, &type_));
    PARTITA_MPI(Type_commit(&type_));
    PARTITA_MPI(Type_free(&types[0]));
    count_ = 1;
  }
  ~ByteSpan() {
    if (type_ != MPI_BYTE) native::Type_free(&type_);
  }
  ByteSpan(const ByteSpan&) = delete;
  ByteSpan& operator=(const ByteSpan&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
};

/// Persistent requests of the MPI, one a transport partition.
class Requests {
 public:
  /// `peer`: the world rank at the other end, for errors.
  explicit Requests(int peer) : peer_(peer) {}
  ~Requests() {
    for (MPI_Request& request : requests_) native::Request_free(&request);
  }

  /// `init(bytes, count, type, tag, request)` makes each of them.
  template <class Init>
  void create(const Plan& plan, std::byte* data, int first_tag, Init init) {
    requests_.reserve(static_cast<std::size_t>(plan.transport_partitions()));
    for (std::int32_t t = 0; t < plan.transport_partitions(); ++t) {
      const Range bytes = plan.bytes(t);
      const ByteSpan span(bytes.size());
      MPI_Request request = MPI_REQUEST_NULL;
      init(data + bytes.begin, span.count(), span.type(), first_tag + t, &request);
      requests_.push_back(request);
    }
  }

  void start(std::int32_t t) {
    naming_peer([&] { PARTITA_MPI(Start(&requests_[static_cast<std::size_t>(t)])); });
  }
  void start_all() {
    naming_peer([&] { PARTITA_MPI(Startall(size(), requests_.data())); });
  }

  bool test(std::int32_t t) {
    int done = 0;
    naming_peer([&] { PARTITA_MPI(Test(&requests_[static_cast<std::size_t>(t)], &done, MPI_STATUS_IGNORE)); });
    return done != 0;
  }
  bool test_all() {
    if (requests_.size() == 1) return test(0);
    int done = 0;
    naming_peer([&] { PARTITA_MPI(Testall(size(), requests_.data(), &done, MPI_STATUSES_IGNORE)); });
    return done != 0;
  }

 private:
  /// The MPI's text does not say with whom a transfer failed.
  template <class Call>
  void naming_peer(Call call) const {
    try {
      call();
    } catch (const Error& error) {
      throw Error(error.error_class(), "the transfer with rank {} failed: {}", peer_, error.sentence());
    }
  }
  int size() const { return static_cast<int>(requests_.size()); }

  int peer_;
  std::vector<MPI_Request> requests_;
};

class MpiSender final : public Sender {
 public:
  MpiSender(const Context& context, const Endpoint& endpoint)
      : context_(context), endpoint_(endpoint), sends_(endpoint.peer) {}

  wire::Bytes offer() override { return {}; }

  void connect(const Plan& plan, std::byte* data, std::span<const std::byte> message) override {
    const int first_tag =
        mpi::Answer::unpack(message, plan.transport_partitions(), context_.world.tag_upper_bound()).first_tag;
    sends_.create(plan, data, first_tag,
                  [this](std::byte* bytes, int count, MPI_Datatype type, int tag, MPI_Request* request) {
                    PARTITA_MPI(Send_init(bytes, count, type, endpoint_.peer, tag, context_.world.data(), request));
                  });
  }

  void start(Epoch) override {}
  // The MPI keeps messages that come before their receive, and keeps them in order.
  bool ready(Epoch) const override { return true; }
  bool prepared(Epoch) const override { return true; }
  void put(Range run, Epoch) override {
    for (std::int64_t t = run.begin; t < run.end; ++t) sends_.start(static_cast<std::int32_t>(t));
  }
  bool finished() override { return sends_.test_all(); }

 private:
  Context context_;
  Endpoint endpoint_;
  Requests sends_;
};

class MpiReceiver final : public Receiver {
 public:
  MpiReceiver(const Context& context, const Endpoint& endpoint, const Plan& plan, std::mutex& mutex, TagRanges& tags)
      : endpoint_(endpoint),
        mutex_(mutex),
        tags_(tags),
        states_(static_cast<std::size_t>(plan.transport_partitions())),
        receives_(endpoint.peer) {
    {
      const std::lock_guard lock(mutex_);
      first_tag_ = tags_.take(plan.transport_partitions());
    }
    receives_.create(plan, endpoint.data, first_tag_,
                     [&](std::byte* bytes, int count, MPI_Datatype type, int tag, MPI_Request* request) {
                       PARTITA_MPI(Recv_init(bytes, count, type, endpoint.peer, tag, context.world.data(), request));
                     });
  }
  ~MpiReceiver() override {
    const std::lock_guard lock(mutex_);
    tags_.give_back(first_tag_);
  }

  wire::Bytes answer() override { return mpi::Answer{first_tag_}.pack(); }

  void open(Epoch) override { receives_.start_all(); }

  bool arrived(std::int32_t t, Epoch epoch) override {
    State& state = states_[static_cast<std::size_t>(t)];
    if (state.arrived.load(std::memory_order_acquire) == epoch) return true;
    // One thread tests; another that comes meanwhile sees the outcome at its next look.
    if (state.testing.exchange(true, std::memory_order_acquire)) return false;
    try {
      bool done = state.arrived.load(std::memory_order_relaxed) == epoch;
      if (!done && receives_.test(t)) {
        state.arrived.store(epoch, std::memory_order_release);
        done = true;
      }
      state.testing.store(false, std::memory_order_release);
      return done;
    } catch (...) {
      state.testing.store(false, std::memory_order_release);
      throw;
    }
  }

  const std::byte* landing(Epoch) const override { return endpoint_.data; }

 private:
  struct State {
    std::atomic<Epoch> arrived{no_epoch};
    std::atomic<bool> testing{false};
  };

  Endpoint endpoint_;
  std::mutex& mutex_;
  TagRanges& tags_;
  int first_tag_ = 0;
  std::vector<State> states_;
  Requests receives_;
};

class Mpi final : public Link {
 public:
  explicit Mpi(const Context& context) : context_(context) {}

  std::string_view name() const override { return "mpi"; }

  std::int64_t transfer_bytes(const Endpoint& receiver, bool in_gpu_memory) const override {
    return in_gpu_memory ? gpu_transfer_bytes(receiver) : 64 * 1024;
  }

  std::variant<std::unique_ptr<Sender>, Refusal> sender(const Endpoint& endpoint) override {
    return std::make_unique<MpiSender>(context_, endpoint);
  }

  std::variant<std::unique_ptr<Receiver>, Refusal> receiver(const Endpoint& endpoint, const Plan& plan,
                                                            std::span<const std::byte>) override {
    return std::make_unique<MpiReceiver>(context_, endpoint, plan, mutex_, tags_of(endpoint.peer));
  }

  std::string describe(const Receiver&) const override { return "internal messages of the MPI"; }

 private:
  TagRanges& tags_of(int peer) {
    const std::lock_guard lock(mutex_);
    return tags_.try_emplace(peer, context_.world.tag_upper_bound()).first->second;
  }

  Context context_;
  std::mutex mutex_;
  std::map<int, TagRanges> tags_;
};

}  // namespace

std::unique_ptr<Link> make_mpi(const Context& context) {
  return std::make_unique<Mpi>(context);
}

}  // namespace partita::link
