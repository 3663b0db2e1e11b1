// For the little memory that it takes to tell of a want of memory.
#pragma once

#include <chrono>
#include <new>
#include <thread>

namespace partita {

/// Calls `body` again while it finds no memory, for a tenth of a second; then its bad_alloc goes on. Gives what it
/// returns. What `body` does a second time must do no harm. Blocks.
template <class Body>
auto insist(Body body) -> decltype(body()) {
  constexpr int most_tries = 100;
  for (int tries = 1;; ++tries) {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      if (tries == most_tries) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace partita
