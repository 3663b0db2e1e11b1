// The device request of an operation: made, served by the host's threads, freed.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/epoch.hpp"
#include "core/error.hpp"
#include "core/mail.hpp"
#include "partitioned/facets.hpp"
#include "partitioned/gpu/device_side.hpp"
#include "partitioned/gpu/prequest.hpp"
#include "partitioned/gpu/served_request.hpp"
#include "partitioned/request_services.hpp"

namespace partita {

/// Each operation that kernels can use has one of these, most of which never exist: then kernels do not use it, and a
/// look at exists() is all it costs. Unless said otherwise a member is called by one thread at a time. Members throw
/// Error.
class DeviceRequest final : public KernelUsable, private ServedRequest, private ActiveStep {
 public:
  /// The operation that it belongs to.
  class Owner {
   public:
    /// What kernels may do: PARTITA_PREQUEST_SEND, PARTITA_PREQUEST_RECV, or both.
    virtual partita_u32 sides() const = 0;
    virtual link::Driver driver() const = 0;
    /// Where the program's data lie.
    virtual memory::Place place() const = 0;
    /// Whether its peer is MPI_PROC_NULL: then it is asked for no terms, and has no steps.
    virtual bool is_to_nobody() const = 0;
    /// Whether prequest_terms() can be told by now. Throws Error if they never can be.
    virtual bool knows_prequest_terms() const = 0;
    /// Throws Error where kernels cannot use it.
    virtual PrequestTerms prequest_terms() = 0;
    /// Why kernels cannot use a receive that is matched: one clause without a full stop, empty where they can.
    virtual std::string why_no_kernels() const { return {}; }
    /// A step of the progress engine while an epoch is open, of the host's, or of kernels' where these are served: what
    /// kernels have left to the host, and what it tells them. Returns whether something moved.
    virtual bool device_step() = 0;
    /// Whether a kernel that waits now would wait for something of a peer's that has not come. Any thread.
    virtual bool kernels_can_wait() const = 0;
    /// Why that will not come any more, where a peer has ended: by the watch, which must not ask links.
    virtual std::optional<Error> why_peers_are_lost(KernelFindings& findings) = 0;

    /// Whether an epoch of the host's is open. Any thread.
    virtual bool active() const = 0;
    /// The newest one.
    virtual Epoch epoch() const = 0;
    /// Which operation it is; how sentences begin.
    virtual std::string name() const = 0;
    /// How far it has come; a sentence.
    virtual std::string explain() const = 0;

    /// Whether it can never complete. Any thread.
    virtual bool failed() const = 0;
    /// Whether an epoch ended with an error, and none opens any more.
    virtual bool given_up() const = 0;
    /// Throws Error where it has failed, or was given up.
    virtual void throw_if_over() const = 0;
    /// It fails, and its peers hear of it. Any thread.
    virtual void fail_for_kernels(const Error& error, Mail::Caller caller) = 0;

    /// These are asked of a device-driven one only. Its device request was made while the host has an epoch open.
    virtual void join_epoch() {}
    /// Whether steps are taken as long as its device request exists: kernels open epochs that need them.
    virtual bool serves_epochs_of_kernels() const { return false; }
    /// Its device request is about to go: what follows goes on behind the epochs that kernels have opened. Throws Error
    /// where the GPU works no longer.
    virtual void take_over_epochs() {}
    /// How far its kernels had come when end_kernels() released them; none where the GPU works no longer, or says
    /// nothing in time. In a step of the progress engine, or with none running.
    virtual void hear_last_epoch(const std::optional<DeviceSide::LastEpoch>&) {}
    /// It was made: so is what the reductions of what marks push need, which kernels of the library's do. No step makes
    /// anything on the GPU while kernels of the program's may wait there. Throws Error.
    virtual void set_up_reductions() {}
    /// Its words go: the library's own kernels have done with them when this returns.
    virtual void end_own_kernels() noexcept {}
    /// It fails, and nobody else hears of it.
    virtual void fail_alone(const Error&) {}
    /// Whether a caller has heard of its failure.
    virtual bool failure_is_told() const { return true; }

   protected:
    ~Owner() = default;
  };

  /// `owner` may be made later than this.
  DeviceRequest(const RequestServices& services, Owner& owner) : services_(services), owner_(owner) {}
  DeviceRequest(const DeviceRequest&) = delete;
  DeviceRequest& operator=(const DeviceRequest&) = delete;

  bool can_make_device_request() override;
  const Partita_Prequest& make_device_request() override;
  std::optional<Error> free_device_request() override;
  bool has_device_request() const override { return exists(); }
  bool has_device_request(const Partita_Prequest& view) const override {
    return view.life != 0 && life_.load(std::memory_order_relaxed) == view.life;
  }
  std::optional<Error> untold_mistake() const override;
  /// The device request that there is, or, where the program has made none, a new one of the library's own: the next
  /// make_device_request() gives the program that. Any thread, as make_device_request().
  const Partita_Prequest& for_own_kernels();
  /// As free_device_request() where the request goes, whose kernels lose what they had of it.
  void drop();

  /// Whether kernels use the request; to MPI_PROC_NULL they never do.
  bool exists() const { return side_ != nullptr; }
  /// Whether it was made, for nobody as well. Any thread, while another one may be making it: who sees that it was
  /// finds all that making it does done. Nobody opens an epoch meanwhile.
  bool was_made() const { return life_.load(std::memory_order_acquire) != 0; }
  /// What its kernels read and write; it exists.
  DeviceSide& side() const { return *side_; }
  /// As StreamRunnable::words_on_gpu().
  std::span<const std::byte> words_on_gpu() const {
    if (!exists()) return {};
    static_assert(sizeof(Partita_Prequest_state) <= StreamRunnable::most_words_bytes);
    return std::as_bytes(std::span(side_->view().state, 1));
  }
  /// As StreamRunnable::held().
  std::optional<StreamRunnable::Held> held() const;
  /// Throws Error if a kernel found something wrong. Costs a load until then.
  void check() const;
  /// Whether nobody was told yet that kernels, or what they wait for, have failed.
  bool has_news() const;

  /// Releases the kernels of a device-driven request, which exists, for good; the first call does. How far they had
  /// come its owner hears later, in a step of the progress engine, or before the device request goes: the GPU may have
  /// work in front of what it is asked here, and no step of the engine's thread waits for that. Under the engine's
  /// lock.
  void end_kernels();
  /// Behind that, without other locks: where the engine has no thread, which would take that step, the owner hears it
  /// here, if the GPU answers within 100 ms, or else that there is no answer.
  void answer_without_thread();

  /// Whether kernels may store into the peer's memory, of a send whose peer has freed its request when all of its
  /// epochs were complete. Any thread.
  bool kernels_may_use_peer() const;

  /// The host has opened an epoch, which kernels have heard of: its steps are taken, and its kernels watched.
  void enter_epoch() noexcept;
  /// The host has seen that the receiver may be sent the open epoch: kernels that have not marked yet need not look.
  void tell_ready();
  /// The epoch is closed.
  void leave_epoch() {
    if (is_served_.load(std::memory_order_relaxed)) end_service();
  }

 private:
  bool device_driven() const override { return owner_.driver() == link::Driver::device; }
  bool kernels_may_wait() const override;
  Outcome step() noexcept override;
  Outcome take_answer();
  void hear(const std::optional<DeviceSide::LastEpoch>& last);
  void end_steps();
  void watch_kernels(KernelFindings& findings) override;

  const Partita_Prequest& make_for_nobody();
  const Partita_Prequest& make();
  void check_can_be_made() const;
  void fail_kernels(const Error& error, Mail::Caller caller);
  std::optional<Error> why_in_vain(KernelFindings& findings);
  void take_over_epochs();
  void end_service();
  void fail_in_step() noexcept;
  void release();
  void change_side(std::unique_ptr<DeviceSide> side);

  const RequestServices& services_;
  Owner& owner_;
  mutable std::mutex side_mutex_;                      ///< of changes of the next, and of looks by other threads
  std::unique_ptr<DeviceSide> side_;                   ///< while there is a device request, but to MPI_PROC_NULL
  std::mutex made_mutex_;                              ///< a match may be seen by several threads, which make it then
  std::unique_ptr<const Partita_Prequest> to_nobody_;  ///< while there is one to MPI_PROC_NULL
  std::atomic<partita_u32> life_{0};                   ///< of the device request, which is found by that
  bool is_own_ = false;                                ///< the program has not asked for the one that exists
  Epoch told_ready_ = no_epoch;                        ///< the newest epoch of which tell_ready() has told
  bool are_ended_ = false;                             ///< end_kernels() was called
  bool awaits_answer_ = false;                         ///< the owner is to hear of the last epoch
  std::recursive_mutex step_mutex_;                    ///< held by a step, which may close the epoch itself
  std::atomic<bool> is_served_ = false;                ///< an epoch of the host's is open: it is active, and watched
  int looks_in_vain_ = 0;                              ///< by the watch
};

}  // namespace partita
