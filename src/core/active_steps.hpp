// The one list of what wants steps of the progress engine for a while.
#pragma once

#include <atomic>

namespace partita {

/// Something that wants steps while it is active: transfers that wait for their receiver, copies under way, a request
/// with kernels at work, a collective whose partitions go on by themselves. Costs the engine nothing while it is not.
class ActiveStep {
 public:
  ActiveStep() = default;
  ActiveStep(const ActiveStep&) = delete;
  ActiveStep& operator=(const ActiveStep&) = delete;

  enum class Outcome {
    idle,     ///< nothing is left to be done: it leaves the list, unless it was activated again meanwhile
    waiting,  ///< nothing could be done
    moved,
  };
  /// Does what can be done now. One thread at a time, under the engine's lock. It may activate itself or others,
  /// dismiss others, and even dismiss and end itself. A failure is its own: it tells whoever must know.
  virtual Outcome step() noexcept = 0;

 protected:
  ~ActiveStep() = default;

 private:
  friend class ActiveSteps;
  enum class State {
    away,
    here,
    called,  ///< since its last step began
  };

  std::atomic<State> state_{State::away};
  ActiveStep* came_before_ = nullptr;  ///< in the stack of those that came
  ActiveStep* previous_ = nullptr;     ///< in the list
  ActiveStep* next_ = nullptr;
};

/// Unless said otherwise a member is called under the engine's lock.
class ActiveSteps {
 public:
  /// `active` gets a step that begins after this. Returns whether it was away. Any thread, without a lock.
  bool activate(ActiveStep& active);
  /// It gets no more steps; nobody calls it meanwhile. Returns whether it was here.
  bool dismiss(ActiveStep& active);
  /// Whether it is here, or its last step goes on. If not, it may end. Any thread.
  static bool knows(const ActiveStep& active) {
    return active.state_.load(std::memory_order_acquire) != ActiveStep::State::away;
  }

  struct Taken {
    bool moved = false;
    int left = 0;  ///< so many went away
  };
  /// A step of each. From within a step it does nothing.
  Taken take();

 private:
  void admit();
  void link(ActiveStep& active, ActiveStep* before);
  void unlink(ActiveStep& active);
  bool goes(ActiveStep& active);

  std::atomic<ActiveStep*> newest_{nullptr};  ///< the stack of those that came
  ActiveStep* first_ = nullptr;
  ActiveStep* last_ = nullptr;
  ActiveStep* taken_ = nullptr;  ///< whose step goes on; null once it was dismissed
  ActiveStep* to_take_ = nullptr;
  bool is_taking_ = false;
};

}  // namespace partita
