// What errors call the call in which they happen: as the program has made it, whatever the drop-in does inside.
#pragma once

namespace partita::dropin {

/// Lives in each call of the drop-in that reaches Partita: `const Calling calling(__func__);`. A handler or a callback
/// of the program's may make calls of its own inside, which are then named.
class Calling {
 public:
  explicit Calling(const char* name) : outer_(innermost) { innermost = name; }
  ~Calling() { innermost = outer_; }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

  /// This thread's innermost one, or null.
  static const char* current() { return innermost; }

 private:
  const char* outer_;
  // One instruction away, where the general model would call a function; a program that loads the drop-in later has
  // room for a few such words.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local const char* innermost = nullptr;
};

}  // namespace partita::dropin
