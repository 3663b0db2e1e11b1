// The operations of the program, from init to free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/look_budget.hpp"
#include "core/progress.hpp"
#include "partitioned/operation.hpp"
#include "transfer/matcher.hpp"

namespace partita {

/// Owns what the program's handles stand for. Any thread.
class Operations {
 public:
  Operations(Matcher& matcher, Progress& progress) : matcher_(matcher), progress_(progress) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  /// Takes `operation` over and lets it look for its peers. Where that throws, the operation is freed: the matcher may
  /// keep it for peers that know of some of its halves.
  void add(std::unique_ptr<Operation> operation);
  /// The program freed `operation`. It stays while it lingers; from then on the matcher keeps it until its peers can no
  /// longer touch its memory.
  void free(Operation& operation);
  /// A step of the progress engine, which takes a time that does not grow with what lingers: frees one that lingers no
  /// more. Returns whether there was one.
  bool free_what_lingered();
  /// No rank waits for what lingers any more: it is freed.
  void end_lingering();
  /// Whose device request `view` is: one that kernels can use. Throws Error if it is nobody's.
  const Operation& operation_with(const Partita_Prequest& view) const;

  /// What the program has left behind at the end.
  struct Leftovers {
    std::size_t live = 0;        ///< operations that it has not freed
    std::size_t incomplete = 0;  ///< those among them whose epoch is open and cannot be completed
    std::string explanation;     ///< of the first incomplete one
  };
  /// Frees every operation that the program has not freed, in the order in which they were made.
  Leftovers free_all();

 private:
  struct Owned {
    std::shared_ptr<Operation> operation;
    std::uint64_t place;  ///< among all that were ever made
  };

  std::vector<Operation*> in_order() const;
  bool is_complete_after_steps(Operation& operation, std::string& why);
  std::shared_ptr<Operation> take(Operation& operation);
  void free_halves(const std::shared_ptr<Operation>& freed, const std::vector<Half*>& halves);
  void stop_lingering(const std::shared_ptr<Operation>& freed);

  Matcher& matcher_;
  Progress& progress_;
  mutable std::mutex mutex_;
  std::uint64_t made_ = 0;
  std::unordered_map<const Operation*, Owned> live_;
  /// The program has freed them. Each is a reason for steps. Under the engine's lock.
  std::vector<std::shared_ptr<Operation>> lingering_;
  LookBudget looks_;           ///< at them, as the next one
  std::size_t next_look_ = 0;  ///< about
};

}  // namespace partita
