#include "link/ucx/ucx.hpp"

#include <atomic>
#include <mutex>
#include <optional>

#include "link/ucx/library.hpp"
#include "link/ucx/messages.hpp"
#include "link/ucx/process.hpp"
#include "link/ucx/receiver.hpp"
#include "link/ucx/sender.hpp"

namespace partita::link {
namespace ucx {
namespace {

class UcxLink final : public Link {
 public:
  explicit UcxLink(Progress& progress) : progress_(progress) {}

  std::string_view name() const override { return "ucx"; }
  bool costly_to_start() const override { return true; }

  std::variant<std::unique_ptr<Sender>, Refusal> sender(const Endpoint& endpoint) override {
    if (auto reason = refusal(endpoint)) return Refusal{*reason};
    return std::make_unique<UcxSender>(process_, endpoint);
  }

  std::variant<std::unique_ptr<Receiver>, Refusal> receiver(const Endpoint& endpoint, const Plan& plan,
                                                            std::span<const std::byte> offer) override {
    if (auto reason = refusal(endpoint)) return Refusal{*reason};
    const Version theirs = Offer::version_of(offer);
    if (theirs != loaded_version()) {
      return Refusal{fmt::format("rank {} runs UCX {} and this rank UCX {}, which need not understand each other",
                                 endpoint.peer, to_string(theirs), to_string(loaded_version()))};
    }
    return std::make_unique<UcxReceiver>(process_, endpoint, plan, offer);
  }

  std::string describe(const Receiver&) const override {
    return fmt::format(
        "UCX {}: transfers up to {} bytes as one message with their flag, larger ones as a put and, when "
        "that lies at the target, a put of the flag",
        to_string(loaded_version()), eager_limit_bytes);
  }

  bool progress() override {
    Process* const running = running_.load(std::memory_order_acquire);
    return running != nullptr && running->worker.progress();
  }

 private:
  /// Starts UCX if need be. Why it cannot serve `endpoint`, if so.
  std::optional<std::string> refusal(const Endpoint& endpoint) {
    const std::lock_guard lock(mutex_);
    if (process_ == nullptr && fault_.empty()) start();
    if (!fault_.empty()) return fault_;
    const bool on_gpu = endpoint.kind == memory::Kind::device || endpoint.kind == memory::Kind::managed;
    if (on_gpu && !process_->worker.context().reaches(UCS_MEMORY_TYPE_CUDA)) {
      return fmt::format("the UCX in this process ({}) was built without CUDA", to_string(loaded_version()));
    }
    return std::nullopt;
  }

  void start() {
    fault_ = fault_of_loaded_library();
    if (!fault_.empty()) return;
    try {
      process_ = std::make_shared<Process>(progress_);
      running_.store(process_.get(), std::memory_order_release);
    } catch (const Error& error) {
      fault_ = error.sentence();
    }
  }

  Progress& progress_;
  std::mutex mutex_;
  std::shared_ptr<Process> process_;
  std::atomic<Process*> running_{nullptr};
  std::string fault_;  ///< why UCX cannot be used at all
};

}  // namespace
}  // namespace ucx

std::unique_ptr<Link> make_ucx(const Context& context) {
  return std::make_unique<ucx::UcxLink>(context.progress);
}

}  // namespace partita::link
