// The words of a device request's host, where each first access is seen before it happens.
#pragma once

#include <partita/device/prequest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <functional>
#include <new>
#include <optional>
#include <utility>

namespace partita::test {

/// The words of a host of one partition, on two pages: the first access to one runs `look` before it happens, in the
/// thread that makes it. Others are free to come meanwhile.
class TrappingHost {
 public:
  enum Words { all, partitions };  ///< those of the request, and those of its partition

  TrappingHost() : page_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* const pages = mmap(nullptr, 2 * page_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    pages_ = static_cast<std::byte*>(pages);
    the_one = this;
    struct sigaction action{};
    action.sa_sigaction = trapped;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
  }
  ~TrappingHost() {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(pages_, 2 * page_bytes_);
  }
  TrappingHost(const TrappingHost&) = delete;
  TrappingHost& operator=(const TrappingHost&) = delete;

  Partita_Prequest_host& host() const {
    return *reinterpret_cast<Partita_Prequest_host*>(pages_ + page_bytes_ - sizeof(Partita_Prequest_host));
  }
  /// On the page of `all`.
  partita_u64& promise() const { return *reinterpret_cast<partita_u64*>(pages_); }
  /// Accesses of the thread `patient` wait for that of another one.
  void trap(Words words, std::function<void()> look, std::optional<pthread_t> patient = {}) {
    look_ = std::move(look);
    patient_ = patient;
    is_open_ = false;
    std::byte* const page = pages_ + (words == all ? 0 : page_bytes_);
    armed_ = page;
    mprotect(page, page_bytes_, PROT_NONE);
  }
  /// Since the last trap().
  bool has_trapped() const { return armed_ == nullptr; }

 private:
  static void trapped(int signal, siginfo_t* info, void*) {
    auto* const address = static_cast<std::byte*>(info->si_addr);
    if (the_one->patient_ && pthread_equal(pthread_self(), *the_one->patient_) != 0) {
      while (!the_one->is_open_) sched_yield();
      return;
    }
    std::byte* const page = the_one->armed_;
    if (page == nullptr || address < page || address >= page + the_one->page_bytes_) {
      ::signal(signal, SIG_DFL);  // a mistake, which happens again
      return;
    }
    the_one->armed_ = nullptr;
    mprotect(page, the_one->page_bytes_, PROT_READ | PROT_WRITE);
    the_one->is_open_ = true;
    the_one->look_();
  }

  static inline TrappingHost* the_one = nullptr;
  const std::size_t page_bytes_;
  std::byte* pages_ = nullptr;
  std::atomic<std::byte*> armed_{nullptr};
  std::atomic<bool> is_open_{true};
  std::optional<pthread_t> patient_;
  std::function<void()> look_;
  struct sigaction before_{};
};

}  // namespace partita::test
