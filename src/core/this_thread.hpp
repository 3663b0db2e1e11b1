// Which thread this is, in an instruction or two.
#pragma once

namespace partita {

/// Differs between threads that live at the same time.
inline const void* this_thread() noexcept {
#if __has_builtin(__builtin_thread_pointer)
  return __builtin_thread_pointer();
#else
  static thread_local const char mine = 0;
  return &mine;
#endif
}

}  // namespace partita
