// What a sanitizer slows down tens of times. It looks at lines of code, and a race shows in few rounds as in many: what
// only makes meetings of threads likelier, or data larger, is less under it.
#pragma once

namespace partita::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool thread_sanitized = true;
#else
inline constexpr bool thread_sanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = thread_sanitized;
#endif

/// How often to repeat something, or how much to move: `plain`, or `under_sanitizer` under any of them.
template <class Number>
constexpr Number repetitions(Number plain, Number under_sanitizer) {
  return sanitized ? under_sanitizer : plain;
}

}  // namespace partita::test
