// The requests of the program, from init to free.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "partitioned/request.hpp"

namespace partita {

/// Owns what the program's handles stand for. Any thread.
class Operations {
 public:
  Operations(Matcher& matcher, Progress& progress) : matcher_(matcher), progress_(progress) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  /// Takes `request` over and lets it look for its peer. Where that throws, nothing is left of it.
  void add(std::unique_ptr<Request> request);
  /// The program freed `request`; the matcher keeps it until its peer can no longer touch its memory.
  void free(Request& request);
  /// The request whose device side `view` is. Throws Error if it is of none.
  Request& request_with(const Partita_Prequest& view) const;

  /// What the program has left behind at the end.
  struct Leftovers {
    std::size_t live = 0;        ///< requests that it has not freed
    std::size_t incomplete = 0;  ///< those among them whose epoch is open and cannot be completed
    std::string explanation;     ///< of the first incomplete one
  };
  /// Frees every request that the program has not freed.
  Leftovers free_all();

 private:
  std::vector<Request*> in_order() const;
  std::shared_ptr<Request> take(Request& request);

  Matcher& matcher_;
  Progress& progress_;
  mutable std::mutex mutex_;
  std::unordered_map<const Request*, std::shared_ptr<Request>> live_;
};

}  // namespace partita
