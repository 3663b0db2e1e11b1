// The program that chunk_fault_test.py runs for large transfers into plain memory, which both ranks of a node copy in
// chunks: one of two ranks is killed or stopped while it holds a chunk, in the call that copies it. What the ranks find
// they print as lines "probe: ...".
//
//   chunk_probe ACTION VICTIM   ACTION: kill stop; VICTIM: 0, which sends, or 1, which receives
#include <mpi.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "probe_lines.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int partitions = 2;
constexpr int partition_bytes = 4 * 1024 * 1024;
constexpr int fault_epoch = 3;
constexpr int last_epoch = 60;
/// Chunks are not smaller; what the ranks tell each other is.
constexpr std::size_t least_chunk_bytes = 64 * 1024;

int strike_signal = SIGKILL;
std::atomic<bool> armed{false};

void maybe_strike(const iovec* own) {
  if (own->iov_len < least_chunk_bytes || !armed.exchange(false)) return;
  say("pid %d strikes within a chunk", static_cast<int>(getpid()));
  raise(strike_signal);
}

}  // namespace

// In place of the C library's: a chunk is claimed before, and counted after the call.
extern "C" __attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const iovec* own,
                                                                           unsigned long own_count, const iovec* other,
                                                                           unsigned long other_count,
                                                                           unsigned long flags) noexcept {
  maybe_strike(own);
  return syscall(SYS_process_vm_readv, pid, own, own_count, other, other_count, flags);
}

extern "C" __attribute__((visibility("default"))) ssize_t process_vm_writev(pid_t pid, const iovec* own,
                                                                            unsigned long own_count, const iovec* other,
                                                                            unsigned long other_count,
                                                                            unsigned long flags) noexcept {
  maybe_strike(own);
  return syscall(SYS_process_vm_writev, pid, own, own_count, other, other_count, flags);
}

namespace {

/// Whether the other rank's memory can be read from here.
bool reaches_other() {
  struct Word {
    std::uint64_t value = 4711, pid = 0, address = 0;
  } mine, others;
  mine.pid = static_cast<std::uint64_t>(getpid());
  mine.address = reinterpret_cast<std::uint64_t>(&mine.value);
  MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, 1 - own_rank, 0, &others, sizeof others, MPI_BYTE, 1 - own_rank, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::uint64_t seen = 0;
  const iovec here{&seen, sizeof seen};
  const iovec there{reinterpret_cast<void*>(others.address), sizeof seen};
  const bool reached = process_vm_readv(static_cast<pid_t>(others.pid), &here, 1, &there, 1, 0) == sizeof seen;
  MPI_Barrier(MPI_COMM_WORLD);
  return reached;
}

/// A survivor says what it was told, and writes its buffer, which is its own again. It lives on until
/// chunk_fault_test.py ends it: the other rank may still come to read there.
[[noreturn]] void report(int code, Clock::time_point since, std::vector<unsigned char>& data) {
  std::fill(data.begin(), data.end(), 0xee);
  const double waited_s = std::chrono::duration<double>(Clock::now() - since).count();
  say_survives(code, waited_s);
  for (;;) pause();
}

void run_epoch(int epoch, MPI_Request& request, std::vector<unsigned char>& data) {
  const auto expected = static_cast<unsigned char>(epoch);
  const bool sends = own_rank == 0;
  std::fill(data.begin(), data.end(), sends ? expected : 0);
  const auto begin = Clock::now();
  int code = MPI_Start(&request);
  if (code == MPI_SUCCESS && sends) code = MPI_Pready_range(0, partitions - 1, request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) report(code, begin, data);
  if (!sends && data != std::vector<unsigned char>(data.size(), expected)) {
    say("has wrong bytes in epoch %d", epoch);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int size = begin_probe(argc, argv);
  const std::string action = argc == 3 ? argv[1] : "";
  if (size != 2 || (action != "kill" && action != "stop")) {
    std::fprintf(stderr, "probe: expected are two ranks, kill or stop, and the rank\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  strike_signal = action == "kill" ? SIGKILL : SIGSTOP;
  const bool is_victim = own_rank == std::atoi(argv[2]);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (!reaches_other()) say("shares no copies");

  std::vector<unsigned char> data(std::size_t{partitions} * partition_bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  if (own_rank == 0) {
    MPI_Psend_init(data.data(), partitions, partition_bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  } else {
    MPI_Precv_init(data.data(), partitions, partition_bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  }
  for (int epoch = 1; epoch <= last_epoch; ++epoch) {
    if (is_victim && epoch == fault_epoch) armed.store(true);
    run_epoch(epoch, request, data);
  }
  MPI_Request_free(&request);
  say("ends well");
  return MPI_Finalize();
}
