// The program that kernel_fault_test.py runs on two ranks: rank 1 is killed while a kernel of rank 0 waits for it. What
// rank 0 finds it prints as lines "probe: ...". gpu_probe.cu runs it on GPUs, thread_probe.cpp on CPU threads.
//
//   PROBE MODE BYTES
//
//   device-driven, until rank 1 dies, when the kernel of rank 0 is in
//     wait               MPIX_Pwait of a receive
//     partition          MPIX_Pwait_partition
//     ask                a loop that asks MPIX_Parrived
//     prepare            MPIX_Pbuf_prepare of a send
//     exchange           any call, both ways at once
//   host-driven, from rank 1 to rank 0, the second half of the partitions never comes; the kernel is in
//     host_wait          MPIX_Pwait, and its host makes no call
//     host_partition     MPIX_Pwait_partition, and its host makes no call
//     host_ask           a loop that asks MPIX_Parrived, and its host makes no call
//     host_ask_in_wait   the same, and its host is in MPI_Wait
//     host_bcast         MPIX_Pwait of a partitioned bcast, and its host makes no call
//     host_all           MPIX_Pwait, begun after the death; all partitions had come
//   host-driven, from rank 0 to rank 1
//     host_mark          marks that nobody takes any more
#pragma once

#include <mpi.h>
#include <partita/partita.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>
#include <partita/device.cuh>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "probe_lines.hpp"

constexpr int victim = 1;
constexpr int partitions = 4;
constexpr int good_rounds = 5;
constexpr int endless = 1 << 30;
/// Longer than kernel_fault_test.py lets a wait take; a loop that nobody ended ends by itself.
constexpr partita_u64 kernel_limit_ns = 40'000'000'000;
constexpr auto host_limit = std::chrono::seconds(45);
/// Several times what the library takes to notice a death.
constexpr auto time_to_notice = std::chrono::seconds(3);

[[noreturn]] inline void strike() {
  say("pid %d strikes", static_cast<int>(getpid()));
  raise(SIGKILL);
  _exit(5);
}

// ---- The kernel: one block --------------------------------------------------------------------------------------

enum class Await { all, each, asking };

struct Outcome {
  int code;
  int rounds;
};

struct Work {
  bool device_driven;
  bool sends;
  bool receives;
  Await await;
  MPIX_Prequest send;
  MPIX_Prequest recv;
  unsigned char* out;
  int bytes;
  int rounds;
  Outcome* outcome;
};

/// A loop that a program may write; thread 0 asks.
MPIX_Device inline int ask_until_all_have_arrived(const MPIX_Prequest& recv, partita_u64 begin) {
  using namespace partita::device;
  int code = 0;
  if (block_rank() == 0) {
    for (int p = 0; p < partitions && code == 0;) {
      int flag = 0;
      code = MPIX_Parrived(recv, p, &flag);
      if (flag != 0) ++p;
      if (now_ns() - begin > kernel_limit_ns) code = -1;
    }
  }
  return block_any(code != 0) ? static_cast<int>(block_broadcast(static_cast<partita_u32>(code))) : 0;
}

MPIX_Device inline int await(const Work& work, partita_u64 begin) {
  if (work.await == Await::asking) {
    const int code = ask_until_all_have_arrived(work.recv, begin);
    if (code != 0 || !work.device_driven) return code;
  }
  for (int p = 0; work.await == Await::each && p < partitions; ++p) {
    if (const int code = MPIX_Pwait_partition(p, work.recv)) return code;
  }
  return MPIX_Pwait(work.recv);
}

MPIX_Device inline int device_driven_round(const Work& work, int round, partita_u64 begin) {
  using namespace partita::device;
  int code = 0;
  if (work.receives) code = MPIX_Pstart(work.recv);
  if (work.sends && code == 0) code = MPIX_Pstart(work.send);
  if (work.sends && code == 0) {
    for (partita_u32 i = block_rank(); i < static_cast<partita_u32>(work.bytes); i += block_threads()) {
      work.out[i] = static_cast<unsigned char>(round);
    }
    code = MPIX_Pbuf_prepare(work.send);
  }
  for (int p = 0; work.sends && p < partitions && code == 0; ++p) code = MPIX_Pready_block(p, work.send);
  if (work.sends && code == 0) code = MPIX_Pwait(work.send);
  if (work.receives && code == 0) code = await(work, begin);
  return code;
}

/// Device-driven epochs until a call fails; of a host-driven request its part of one epoch.
MPIX_Device inline void perform(const Work& work) {
  using namespace partita::device;
  const partita_u64 begin = now_ns();
  int code = 0;
  int round = 0;
  while (round < work.rounds && code == 0 && !block_any(now_ns() - begin > kernel_limit_ns)) {
    if (work.device_driven) {
      code = device_driven_round(work, round, begin);
    } else if (work.receives) {
      code = await(work, begin);
    } else {
      for (int p = 0; p < partitions && code == 0; ++p) code = MPIX_Pready_block(p, work.send);
    }
    if (code == 0) ++round;
  }
  if (block_rank() == 0) *work.outcome = {code, round};
}

// ---- The two ranks ----------------------------------------------------------------------------------------------

/// `Gpu` has: until_all_wait, in which a kernel is launched on a crowded machine; static void choose(int);
/// unsigned char* allocate(size_bytes); Outcome* outcome(); void launch(Work); bool ended(); int twelve_squared();
/// void synchronize().
template <class Gpu>
class Job {
 public:
  Job(const std::string& mode, int bytes) : mode_(mode), bytes_(bytes) { make(); }

  [[noreturn]] void die();
  void survive();

 private:
  bool is(const char* mode) const { return mode_ == mode; }
  bool device_driven() const { return mode_.rfind("host_", 0) != 0; }
  bool towards_victim() const { return is("prepare") || is("host_mark"); }
  bool sends() const { return is("exchange") || (own_rank == victim) != towards_victim(); }
  bool receives() const { return is("exchange") || !sends(); }
  Await how() const {
    if (mode_.find("ask") != std::string::npos) return Await::asking;
    return mode_.find("partition") != std::string::npos ? Await::each : Await::all;
  }

  void make();
  void launch(int rounds) {
    gpu_.launch(
        {device_driven(), sends(), receives(), how(), device_[0], device_[1], out_, bytes_, rounds, gpu_.outcome()});
  }
  bool kernel_ends();
  int first_error();

  std::string mode_;
  int bytes_;
  Gpu gpu_;
  unsigned char* out_ = nullptr;
  unsigned char* in_ = nullptr;
  Partita_Request requests_[2] = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};  ///< send, receive
  MPIX_Prequest device_[2] = {};
};

template <class Gpu>
void Job<Gpu>::make() {
  out_ = gpu_.allocate(static_cast<std::size_t>(bytes_));
  in_ = gpu_.allocate(static_cast<std::size_t>(bytes_));
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  if (device_driven()) MPI_Info_set(info, "partita_driver", "device");
  const int peer = 1 - own_rank;
  const int each = bytes_ / partitions;
  if (is("host_bcast")) {
    Partita_Pbcast_init(sends() ? out_ : in_, partitions, each, MPI_BYTE, victim, MPI_COMM_WORLD, info,
                        &requests_[sends() ? 0 : 1]);
  } else {
    if (sends()) Partita_Psend_init(out_, partitions, each, MPI_BYTE, peer, 1, MPI_COMM_WORLD, info, &requests_[0]);
    if (receives()) Partita_Precv_init(in_, partitions, each, MPI_BYTE, peer, 1, MPI_COMM_WORLD, info, &requests_[1]);
  }
  MPI_Info_free(&info);
  const bool needed = device_driven() || own_rank != victim;
  for (int i = 0; i < 2 && needed; ++i) {
    if (requests_[i] == PARTITA_REQUEST_NULL) continue;
    if (const int code = Partita_Prequest_create(&device_[i], requests_[i]); code != MPI_SUCCESS) {
      say("has no device request: %s", sentence_of(code).c_str());
      _exit(4);
    }
  }
  gpu_.synchronize();
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Whether the kernel has ended, once it has or the limit is over. Meanwhile this host makes no call of Partita's.
template <class Gpu>
bool Job<Gpu>::kernel_ends() {
  const auto deadline = std::chrono::steady_clock::now() + host_limit;
  while (std::chrono::steady_clock::now() < deadline) {
    if (gpu_.ended()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

template <class Gpu>
void Job<Gpu>::die() {
  if (device_driven()) {
    launch(is("exchange") ? endless : good_rounds);
    if (!is("exchange") && kernel_ends()) say("ran %d rounds: code %d", gpu_.outcome()->rounds, gpu_.outcome()->code);
  } else if (sends()) {
    Partita_Start(&requests_[0]);
    const int marked = is("host_all") ? partitions : partitions / 2;
    Partita_Pready_range(0, marked - 1, requests_[0]);
    if (is("host_all")) Partita_Wait(&requests_[0], MPI_STATUS_IGNORE);
  }
  std::this_thread::sleep_for(Gpu::until_all_wait);
  strike();
}

/// What the host is told: by its wait for a host-driven request, and after the kernel's end for a device-driven one.
template <class Gpu>
int Job<Gpu>::first_error() {
  for (const int i : {1, 0}) {
    if (requests_[i] == PARTITA_REQUEST_NULL) continue;
    if (const int code = Partita_Wait(&requests_[i], MPI_STATUS_IGNORE); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

template <class Gpu>
void Job<Gpu>::survive() {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  int code = MPI_SUCCESS;
  if (!device_driven()) code = Partita_Start(&requests_[receives() ? 1 : 0]);
  if (is("host_all")) std::this_thread::sleep_for(time_to_notice);
  launch(device_driven() ? endless : 1);
  if (is("host_mark") || is("host_ask_in_wait")) code = code == MPI_SUCCESS ? first_error() : code;
  if (!kernel_ends()) {
    say("has a kernel that does not end");
    _exit(4);
  }
  say("kernel ended: code %d after %.1f s and %d rounds", gpu_.outcome()->code, seconds(), gpu_.outcome()->rounds);
  if (code == MPI_SUCCESS) code = first_error();
  say_survives(code, seconds());
  say("computes %d", gpu_.twelve_squared());
  int freed = MPI_SUCCESS;
  for (int i = 0; i < 2; ++i) {
    if (requests_[i] == PARTITA_REQUEST_NULL) continue;
    for (const int result : {Partita_Prequest_free(&device_[i]), Partita_Request_free(&requests_[i])}) {
      if (result != MPI_SUCCESS) freed = result;
    }
  }
  say("frees: %s", freed == MPI_SUCCESS ? "MPI_SUCCESS" : sentence_of(freed).c_str());
}

template <class Gpu>
int run_probe(int argc, char** argv) {
  const int size = begin_probe(argc, argv);
  if (argc != 3 || size != 2 || std::atoi(argv[2]) < partitions) {
    std::fprintf(stderr, "probe: expected are two ranks, a mode and a number of bytes\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  Gpu::choose(own_rank);
  error_string = Partita_Error_string;
  if (Partita_Init(MPI_COMM_WORLD) != MPI_SUCCESS) return 3;
  Job<Gpu> job(argv[1], std::atoi(argv[2]));
  if (own_rank == victim) job.die();
  job.survive();
  _exit(0);  // MPI_Finalize would wait for the dead
}
