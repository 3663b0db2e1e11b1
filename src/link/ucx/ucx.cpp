// Link `ucx`: puts and small messages of UCX, within a node and between nodes (docs/design/link-ucx.md). UCX itself
// starts with the first request.
#include <atomic>
#include <mutex>
#include <optional>

#include "link/registry.hpp"
#include "link/ucx/library.hpp"
#include "link/ucx/messages.hpp"
#include "link/ucx/process.hpp"
#include "link/ucx/receiver.hpp"
#include "link/ucx/sender.hpp"

namespace partita::link {
namespace ucx {
namespace {

/// Whether the UCX of this process moves GPU memory is known once it runs: sender() and receiver() refuse where it does
/// not.
constexpr Kinds all_but_managed{memory::Kind::host, memory::Kind::host_exported, memory::Kind::device};
constexpr Movement movements[] = {{all_but_managed, all_but_managed}};

class UcxLink final : public Link {
 public:
  explicit UcxLink(const link::Context& context)
      : Link(can), device_memory_(context.device_memory), progress_(context.progress) {}

  std::variant<std::unique_ptr<Sender>, Refusal> sender(const Endpoint& endpoint) override {
    std::shared_ptr<Region> gpu_region;
    if (auto reason = refusal(endpoint, gpu_region)) return Refusal{*reason};
    return std::make_unique<UcxSender>(process_, endpoint, std::move(gpu_region));
  }

  std::variant<std::unique_ptr<Receiver>, Refusal> receiver(const Endpoint& endpoint, const Plan& plan, std::int32_t,
                                                            std::span<const std::byte> offer) override {
    std::shared_ptr<Region> gpu_region;  // until the receiver has taken the same one out of the cache
    if (auto reason = refusal(endpoint, gpu_region)) return Refusal{*reason};
    const Version theirs = Offer::version_of(offer);
    if (theirs != loaded_version()) {
      return Refusal{fmt::format("rank {} runs UCX {} and this rank UCX {}, which need not understand each other",
                                 endpoint.peer, to_string(theirs), to_string(loaded_version()))};
    }
    return std::make_unique<UcxReceiver>(process_, endpoint, plan, offer);
  }

  bool progress() override {
    Process* const running = running_.load(std::memory_order_acquire);
    return running != nullptr && running->worker.progress();
  }

 private:
  static constexpr Capabilities can{.name = "ucx", .costly_to_start = true, .movements = movements};

  /// Starts UCX if need be. Why it cannot serve `endpoint`, if so; else `gpu_region` is its memory, if that is a GPU's.
  std::optional<std::string> refusal(const Endpoint& endpoint, std::shared_ptr<Region>& gpu_region) {
    const bool on_gpu = !memory::is_host(endpoint.kind);
    const std::lock_guard lock(mutex_);
    if (endpoint.device >= 0) device_memory_.make_current(endpoint.device);  // UCX looks at the context it starts in
    if (process_ == nullptr && fault_.empty()) start();
    if (!fault_.empty()) return fault_;
    return on_gpu ? gpu_refusal(endpoint, gpu_region) : std::nullopt;
  }

  std::optional<std::string> gpu_refusal(const Endpoint& endpoint, std::shared_ptr<Region>& region) {
    if (!process_->worker.context().reaches(UCS_MEMORY_TYPE_CUDA)) {
      return fmt::format(
          "the UCX in this process ({}) has no CUDA: it was built without, UCX_TLS leaves it out, or its module "
          "libuct_cuda cannot be loaded",
          to_string(loaded_version()));
    }
    process_->worker.use_gpu(endpoint.device);
    if (endpoint.size_bytes == 0) return std::nullopt;
    try {
      region = process_->regions.region({endpoint.data, static_cast<std::size_t>(endpoint.size_bytes)}, endpoint.kind);
    } catch (const Error& error) {
      return error.sentence();
    }
    // UCX would have its processor copy what it takes for host memory, whatever a caller says of it.
    if (region->type() == UCS_MEMORY_TYPE_CUDA) return std::nullopt;
    return fmt::format(
        "UCX takes the GPU memory for {} memory: it is of a pool, or UCX's hooks into CUDA are missing (its module "
        "libucm_cuda cannot be loaded)",
        ucs_memory_type_names[region->type()]);
  }

  void start() {
    fault_ = fault_of_loaded_library();
    if (!fault_.empty()) return;
    try {
      process_ = std::make_shared<Process>(progress_, device_memory_);
      running_.store(process_.get(), std::memory_order_release);
    } catch (const Error& error) {
      fault_ = error.sentence();
    }
  }

  memory::DeviceMemory& device_memory_;
  Progress& progress_;
  std::mutex mutex_;
  std::shared_ptr<Process> process_;
  std::atomic<Process*> running_{nullptr};
  std::string fault_;  ///< why UCX cannot be used at all
};

}  // namespace
}  // namespace ucx

std::unique_ptr<Link> make_ucx(const Context& context) {
  return std::make_unique<ucx::UcxLink>(context);
}

}  // namespace partita::link
