#include "core/watch.hpp"

#include "core/log.hpp"

namespace partita {

void Watch::look_at_clock(const Waiting& waiting) {
  const auto now = Clock::now();
  if (begin_ == Clock::time_point{}) {
    begin_ = now;
    next_probe_ = now + std::chrono::seconds(1);
    next_warning_s_ = settings_.warn_after_s;
    return;
  }
  const double waited_s = std::chrono::duration<double>(now - begin_).count();

  if (now >= next_probe_) {
    next_probe_ = now + std::chrono::seconds(1);
    const int peer = waiting.waits_for();
    if (peer >= 0 && peer != world_.rank() && world_.on_my_node(peer) && !world_.socket().alive(peer)) {
      throw WaitError(ErrorClass::other, "rank {} has ended (its process is gone) while this rank waited for it. {}",
                      peer, waiting.explain());
    }
  }
  if (settings_.warn_after_s > 0 && waited_s >= next_warning_s_) {
    next_warning_s_ *= 2;
    log("has waited for {:.0f} s. {}", waited_s, waiting.explain());
  }
  if (settings_.timeout_s > 0 && waited_s >= settings_.timeout_s) {
    throw WaitError(ErrorClass::other, "the wait took longer than {} s (PARTITA_TIMEOUT). {}", settings_.timeout_s,
                    waiting.explain());
  }
}

}  // namespace partita
