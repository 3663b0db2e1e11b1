#include "support/watchdog.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "support/job.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PARTITA_TEST_SANITIZED 1
#else
#define PARTITA_TEST_SANITIZED 0
#endif

namespace partita::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int hung_exit_code = 70;
constexpr auto time_for_the_other_ranks = std::chrono::seconds(2);

struct Watch {
  std::mutex mutex;
  std::condition_variable changed;
  std::string test_case;
  std::string step = "nothing yet";
  long steps = 0;  ///< of the case so far
  Clock::time_point step_began = Clock::now();
  std::string failures;
  Clock::time_point case_began = Clock::now();
  Clock::time_point began = Clock::now();
  std::chrono::seconds limit{};
  bool stop = false;
  int rank = 0;
  pthread_t main_thread{};
  std::thread thread;
};

// Never destroyed: a crash during exit may still ask for it.
Watch& watch() {
  static auto* instance = new Watch;
  return *instance;
}

constexpr int most_frames = 64;
void* frames[most_frames];
std::atomic<int> frame_count{0};

void write_all(const std::string& text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

std::string name_of(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return "?";
  if (info.dli_sname == nullptr) return std::string("in ") + (info.dli_fname == nullptr ? "?" : info.dli_fname);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  return status == 0 ? plain.get() : info.dli_sname;
}

/// One line per frame that says something: not the signal handler, nor what GoogleTest does around a case.
std::string describe_stack(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) {
    const std::string name = name_of(frames[i]);
    if (name.find("testing::internal::") != std::string::npos) break;
    const bool same_library = name.starts_with("in ") && text.ends_with("    " + name + "\n");
    if (!same_library && name.find("on_stack_request") == std::string::npos) text += "    " + name + "\n";
  }
  return text;
}

void on_stack_request(int) {
  frame_count = backtrace(frames, most_frames);
}

void on_crash(int signal_number) {
  signal(signal_number, SIG_DFL);
  // Not async-signal-safe, but the process is lost and the report is what helps.
  const Watch& w = watch();
  write_all("rank " + std::to_string(w.rank) + " was ended by signal " + std::to_string(signal_number) + " in " +
            w.test_case + "; its last step: " + w.step + "\n" + describe_stack(backtrace(frames, most_frames)));
  raise(signal_number);
}

std::string stack_of_main_thread(const Watch& w) {
  pthread_kill(w.main_thread, SIGUSR2);
  for (int i = 0; i < 100 && frame_count == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return frame_count == 0 ? "    (it does not answer)\n" : describe_stack(frame_count);
}

/// A case whose steps went on to the end is slow, and does not hang.
std::string describe_step(const Watch& w) {
  char age[32];
  std::snprintf(age, sizeof age, "%.2f", std::chrono::duration<double>(Clock::now() - w.step_began).count());
  return "its last step (number " + std::to_string(w.steps) + ", begun " + age + " s ago): " + w.step;
}

[[noreturn]] void report_and_end(const Watch& w) {
  const std::string who = "rank " + std::to_string(w.rank);
  std::string report = who + " is at its time limit in " + (w.test_case.empty() ? "no test case" : w.test_case) + "; " +
                       describe_step(w) + "\n";
  if (!w.failures.empty()) report += who + " had failed before:\n" + w.failures;
  write_all(report + who + ": the main thread stands in\n" + stack_of_main_thread(w));
  std::this_thread::sleep_for(time_for_the_other_ranks);
  _exit(hung_exit_code);
}

void run(Watch& w) {
  pthread_setname_np(pthread_self(), "watchdog");
  std::unique_lock lock(w.mutex);
  while (!w.stop) {
    w.changed.wait_for(lock, std::chrono::milliseconds(200));
    const auto now = Clock::now();
    const bool case_hangs = !w.test_case.empty() && now - w.case_began > w.limit / 2;
    if (!w.stop && (case_hangs || now - w.began > w.limit * 5 / 6)) report_and_end(w);
  }
}

}  // namespace

void start_watchdog(int rank, long limit_s) {
  Watch& w = watch();
  w.rank = rank;
  w.limit = std::chrono::seconds(limit_s);
  w.main_thread = pthread_self();
  void* warm_up[1];
  backtrace(warm_up, 1);  // loads what backtrace needs while allocating is still allowed
  signal(SIGUSR2, on_stack_request);
  if (!PARTITA_TEST_SANITIZED) {
    for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL}) signal(crash, on_crash);
  }
  w.thread = std::thread([&w] { run(w); });
}

void stop_watchdog() {
  Watch& w = watch();
  {
    const std::lock_guard lock(w.mutex);
    w.stop = true;
  }
  w.changed.notify_all();
  w.thread.join();
}

void watch_case(const std::string& name) {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  w.test_case = name;
  w.step = "it began";
  w.steps = 0;
  w.failures.clear();
  w.case_began = w.step_began = Clock::now();
}

void watch_failure(const std::string& sentence) {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  w.failures += sentence + "\n";
}

void step(std::string what) {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  w.step = std::move(what);
  ++w.steps;
  w.step_began = Clock::now();
}

}  // namespace partita::test
