#include "memory/surely_host.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <limits>
#include <string>

namespace partita::memory {
namespace {

struct Addresses {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  bool contain(std::uintptr_t address) const { return begin <= address && address < end; }
};

/// From where on the heap grows, by proc_pid_stat(5); behind all addresses where the system does not tell.
std::uintptr_t begin_of_heap() {
  constexpr int field_of_state = 3;  // the first one behind the program's name, which may hold anything
  constexpr int field_of_start_brk = 47;
  constexpr auto nowhere = std::numeric_limits<std::uintptr_t>::max();
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return nowhere;
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return nowhere;
  std::size_t place = name_end;
  for (int field = field_of_state; field <= field_of_start_brk; ++field) {
    place = line.find(' ', place + 1);
    if (place == std::string::npos) return nowhere;
  }
  const std::uintptr_t begin = std::strtoull(line.c_str() + place, nullptr, 10);
  return begin == 0 ? nowhere : begin;
}

/// Where it ends now. sbrk(0) says so, too, but UCX puts a function of its own there, which takes as long as the driver
/// does; so the word is read that glibc keeps it in. Where there is none, the heap is taken for empty.
std::uintptr_t end_of_heap() {
  static auto* const word = static_cast<std::uintptr_t*>(::dlsym(RTLD_DEFAULT, "__curbrk"));
  return word == nullptr ? 0 : std::atomic_ref(*word).load(std::memory_order_relaxed);
}

/// The calling thread's; empty where the system does not tell.
Addresses own_stack() {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return {};
  void* lowest = nullptr;
  std::size_t size_bytes = 0;
  const bool is_told = ::pthread_attr_getstack(&attributes, &lowest, &size_bytes) == 0;
  ::pthread_attr_destroy(&attributes);
  if (!is_told) return {};
  const auto begin = reinterpret_cast<std::uintptr_t>(lowest);
  return {begin, begin + size_bytes};
}

}  // namespace

bool is_surely_host(const void* address) noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  try {
    static const std::uintptr_t heap = begin_of_heap();
    if (Addresses{heap, end_of_heap()}.contain(number)) return true;
    thread_local const Addresses stack = own_stack();
    // A program may run this on a stack of its own making, of which nothing is known.
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    return stack.contain(here) && Addresses{here, stack.end}.contain(number);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace partita::memory
