#include "bench/two_sided.hpp"

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "bench/function_calls.hpp"
#include "capi/gpu_aware.hpp"
#include "core/mpi_takes_gpu.hpp"

namespace partita::bench {

namespace {

constexpr int acknowledgement_tag = 42;

bool is_right(const Job& job, const std::string& name, const Case& c, const MessageMemory& memory,
              std::uint64_t epoch) {
  const auto mismatch = memory.find_mismatch(epoch);
  if (!mismatch) return true;
  fmt::print(stderr,
             "partita bench: wrong data: rank {} message {} offset {}: expected {:#04x}, got {:#04x}; {}, {} bytes\n",
             job.rank, mismatch->partition, mismatch->offset - c.size_bytes * mismatch->partition,
             static_cast<int>(mismatch->expected), static_cast<int>(mismatch->got), name, c.size_bytes);
  return false;
}

// ---- Round trips ----------------------------------------------------------------------------------------------------

/// Rank 0 sends, rank 1 answers.
template <class Way>
class RoundTrip final : public Measurement {
 public:
  RoundTrip(Job& job, std::string name, const Case& c, Way way, Where where, const StagingMemory* gpu)
      : job_(job),
        name_(std::move(name)),
        case_(c),
        way_(std::move(way)),
        sent_(where, static_cast<std::size_t>(c.size_bytes), 1, gpu),
        received_(where, static_cast<std::size_t>(c.size_bytes), 1, gpu) {}

  void prepare(std::uint64_t epoch) override {
    sent_.fill(epoch);
    received_.poison(epoch);
  }
  bool compare(std::uint64_t epoch) const override { return is_right(job_, name_, case_, received_, epoch); }

  double sample(const Round& round) override {
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    for (int i = 0; i < round.batch; ++i) {
      if (job_.is_first()) way_.send(sent_.message(0));
      way_.receive(received_.message(0));
      if (!job_.is_first()) way_.send(sent_.message(0));
    }
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch / 2;
  }

 private:
  Job& job_;
  std::string name_;
  Case case_;
  Way way_;
  MessageMemory sent_;
  MessageMemory received_;
};

template <class Way>
std::unique_ptr<Measurement> round_trip(Job& job, std::string name, const Case& c, Way way, Where where,
                                        const StagingMemory* gpu) {
  return std::make_unique<RoundTrip<Way>>(job, std::move(name), c, std::move(way), where, gpu);
}

/// How much longer `whole` takes than `part`, both measured for each sample, now one first and now the other.
class Difference final : public Measurement {
 public:
  Difference(Job& job, std::unique_ptr<Measurement> whole, std::unique_ptr<Measurement> part)
      : job_(job), whole_(std::move(whole)), part_(std::move(part)) {}

  void prepare(std::uint64_t epoch) override {
    whole_->prepare(epoch);
    part_->prepare(epoch);
  }
  bool compare(std::uint64_t epoch) const override { return whole_->compare(epoch) && part_->compare(epoch); }
  /// That of rank 0, which begins and ends the round trips; the larger of the ranks' counts.
  double sample(const Round& round) override {
    const bool whole_first = round.epoch % 2 == 0;
    const double first = (whole_first ? whole_ : part_)->sample(round);
    const double second = (whole_first ? part_ : whole_)->sample(round);
    return !job_.is_first() ? std::numeric_limits<double>::lowest() : whole_first ? first - second : second - first;
  }

 private:
  Job& job_;
  std::unique_ptr<Measurement> whole_;
  std::unique_ptr<Measurement> part_;
};

// ---- Windows --------------------------------------------------------------------------------------------------------

/// Rank 1 starts all receives of a window before it acknowledges the one before.
template <class Way>
class Window final : public Measurement {
 public:
  Window(Job& job, std::string name, const Case& c, Way way, Where where, const StagingMemory* gpu)
      : job_(job),
        name_(std::move(name)),
        case_(c),
        way_(std::move(way)),
        messages_(messages_in_flight(c, job.options)),
        memory_(where, static_cast<std::size_t>(c.size_bytes), messages_, gpu) {}

  void prepare(std::uint64_t epoch) override { job_.is_first() ? memory_.fill(epoch) : memory_.poison(epoch); }
  bool compare(std::uint64_t epoch) const override {
    return job_.is_first() || is_right(job_, name_, case_, memory_, epoch);
  }

  double sample(const Round& round) override {
    if (!job_.is_first()) start_receives();
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    for (int i = 0; i < round.batch; ++i) job_.is_first() ? send() : receive(i + 1 < round.batch);
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch;
  }

 private:
  void send() {
    for (int i = 0; i < messages_; ++i) way_.begin_send(i, memory_.message(i));
    for (int i = 0; i < messages_; ++i) way_.finish_send(i);
    char acknowledged = 0;
    check(own_.recv(&acknowledged, 1, MPI_CHAR, job_.peer(), acknowledgement_tag, job_.comm, MPI_STATUS_IGNORE),
          "MPI_Recv");
  }
  void receive(bool goes_on) {
    for (int i = 0; i < messages_; ++i) way_.finish_receive(i, memory_.message(i));
    if (goes_on) start_receives();
    const char acknowledge = 1;
    check(own_.send(&acknowledge, 1, MPI_CHAR, job_.peer(), acknowledgement_tag, job_.comm), "MPI_Send");
  }
  void start_receives() {
    for (int i = 0; i < messages_; ++i) way_.begin_receive(i, memory_.message(i));
  }

  Job& job_;
  std::string name_;
  Case case_;
  Way way_;
  const MessageCalls own_ = own_calls();
  int messages_;
  MessageMemory memory_;
};

template <class Way>
std::unique_ptr<Measurement> window(Job& job, std::string name, const Case& c, Way way, Where where,
                                    const StagingMemory* gpu) {
  return std::make_unique<Window<Way>>(job, std::move(name), c, std::move(way), where, gpu);
}

// ---- Who takes GPU memory -------------------------------------------------------------------------------------------

/// Whether the MPI's own functions may be handed GPU memory.
bool mpi_takes_gpu_memory(Job& job) {
  const std::optional<bool> said = mpi_takes_cuda_memory();
  const bool takes = job.on_both(said.value_or(false) || job.options.gpu_aware_mpi);
  if (!takes) {
    job.note(fmt::format("mpi-device is left out: the MPI {}; with --gpu-aware-mpi it gets GPU memory all the same",
                         !said   ? "does not say whether it takes GPU memory"
                         : *said ? "takes GPU memory on this rank alone"
                                 : "says that it takes no GPU memory"));
  }
  return takes;
}

/// Whether the calls under their standard names may be, since Partita takes it or the MPI does.
bool standard_calls_take_gpu_memory(Job& job, bool mpi_takes_it, std::string_view rows, std::string_view moved) {
  const char* why = "Partita has not been started";
  const bool partita_does = Partita_is_gpu_aware(&why) != 0;
  const bool loaded = drop_in_is_loaded();
  const bool by_partita = job.on_both(partita_does && loaded);
  const bool takes = by_partita || mpi_takes_it;
  if (!takes) {
    job.note(fmt::format("{} left out: Partita does not take GPU memory in the MPI's own calls: {}", rows,
                         loaded ? why : "libpartita_mpi is not loaded"));
  } else if (!by_partita) {
    job.note(fmt::format("{} the MPI's own way: Partita leaves GPU memory to it", moved));
  }
  return takes;
}

// ---- Contenders -----------------------------------------------------------------------------------------------------

constexpr const char* mpi_host = "mpi-host";
constexpr const char* by_hand = "by-hand";

/// Those of a figure. `plain(name, calls, where)` and `staged(name)` make measurements.
template <class Plain, class StagedByHand>
std::vector<Contender> compare(Job& job, const StagingMemory* gpu, const Plain& plain, const StagedByHand& staged) {
  std::vector<Contender> contenders;
  contenders.push_back({mpi_host, mpi_host, plain(mpi_host, own_calls(), Where::host)});
  contenders.push_back({"host", mpi_host, plain("host", standard_calls(), Where::host)});
  if (gpu == nullptr) return contenders;
  contenders.push_back({by_hand, by_hand, staged(by_hand)});
  const bool mpi_takes_it = mpi_takes_gpu_memory(job);
  if (standard_calls_take_gpu_memory(job, mpi_takes_it, "device and host-device are", "device and host-device go")) {
    contenders.push_back({"device", by_hand, plain("device", standard_calls(), Where::gpu)});
    const Where of_this_rank = job.is_first() ? Where::host : Where::gpu;
    contenders.push_back({"host-device", by_hand, plain("host-device", standard_calls(), of_this_rank)});
  }
  if (mpi_takes_it) {
    contenders.push_back({"mpi-device", by_hand, plain("mpi-device", own_calls(), Where::gpu)});
  }
  return contenders;
}

}  // namespace

std::unique_ptr<Measurement> make_round_trip(Job& job, std::string name, const Case& c, const MessageCalls& calls) {
  return round_trip(job, std::move(name), c, BlockingCalls(calls, job, c), Where::host, nullptr);
}

std::unique_ptr<Measurement> make_window(Job& job, std::string name, const Case& c, const MessageCalls& calls) {
  return window(job, std::move(name), c, WindowCalls(calls, job, c), Where::host, nullptr);
}

std::vector<Contender> compare_round_trips(Job& job, const Case& c, const StagingMemory* gpu) {
  return compare(
      job, gpu,
      [&](const char* name, const MessageCalls& calls, Where where) {
        return round_trip(job, name, c, BlockingCalls(calls, job, c), where, gpu);
      },
      [&](const char* name) {
        return round_trip(job, name, c, StagedCalls(BlockingCalls(own_calls(), job, c), c, *gpu), Where::gpu, gpu);
      });
}

std::vector<Contender> compare_windows(Job& job, const Case& c, const StagingMemory* gpu) {
  return compare(
      job, gpu,
      [&](const char* name, const MessageCalls& calls, Where where) {
        return window(job, name, c, WindowCalls(calls, job, c), where, gpu);
      },
      [&](const char* name) {
        return window(job, name, c, StagedWindowCalls(WindowCalls(own_calls(), job, c), job, c, *gpu), Where::gpu, gpu);
      });
}

std::vector<Contender> split_round_trips(Job& job, const Case& c, const StagingMemory* gpu) {
  const auto whole_on_host = [&](const char* name) {
    return round_trip(job, name, c, CApiCalls(job, c), Where::host, nullptr);
  };
  const auto within_mpi = [&](const char* name, Where where) {
    return round_trip(job, name, c, PolledCalls(own_calls(), job, c), where, gpu);
  };
  std::vector<Contender> contenders;
  contenders.push_back({"c-api", "c-api", whole_on_host("c-api")});
  contenders.push_back({"c-api:mpi", "c-api", within_mpi("c-api:mpi", Where::host)});
  contenders.push_back(
      {"c-api:own", "c-api",
       std::make_unique<Difference>(job, whole_on_host("c-api:own"), within_mpi("c-api:own", Where::host))});
  if (gpu == nullptr ||
      !standard_calls_take_gpu_memory(job, false, "device and its parts are", "device and its parts go"))
    return contenders;

  const auto whole_on_gpu = [&](const char* name) {
    return round_trip(job, name, c, BlockingCalls(standard_calls(), job, c), Where::gpu, gpu);
  };
  const auto with_copies = [&](const char* name) {
    return round_trip(job, name, c, StagedCalls(PolledCalls(own_calls(), job, c), c, *gpu), Where::gpu, gpu);
  };
  contenders.push_back({"device", "device", whole_on_gpu("device")});
  contenders.push_back({"device:mpi", "device", within_mpi("device:mpi", Where::page_locked)});
  contenders.push_back({"device:copies", "device",
                        std::make_unique<Difference>(job, with_copies("device:copies"),
                                                     within_mpi("device:copies", Where::page_locked))});
  contenders.push_back({"device:own", "device",
                        std::make_unique<Difference>(job, whole_on_gpu("device:own"), with_copies("device:own"))});
  return contenders;
}

}  // namespace partita::bench
