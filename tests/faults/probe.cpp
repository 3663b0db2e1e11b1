// The program that fault_test.py runs: an unmodified MPI-4 program, in which one rank may be killed, stopped or slow at
// a stage of its requests, or which misuses something on purpose. What it finds it prints as lines "probe: ...".
//
//   probe ring|allreduce STAGE ACTION VICTIM
//     STAGE: before_init after_init after_start mid_epoch in_wait; ACTION: kill stop slow
//   probe live_finalize | incomplete_finalize | unmatched_finalize | late_finalize | fatal | fatal_abort |
//     fatal_waitall | normal
#include <mpi.h>
#include <partita/mpix.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "probe_lines.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int partitions = 8;
constexpr int partition_bytes = 20000;
constexpr int fault_epoch = 3;
constexpr int last_epoch = 40;

int rank_count = 1;

struct Fault {
  std::string stage;
  std::string action;
  int victim = -1;

  void strike() const {
    if (action == "kill") raise(SIGKILL);
    if (action == "stop") raise(SIGSTOP);
    if (action == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(3000));
  }
  void at(const char* here) const {
    if (own_rank != victim || stage != here) return;
    say("pid %d strikes at %s", static_cast<int>(getpid()), here);
    strike();
  }
  bool is_in_wait() const { return stage == "in_wait"; }
  bool strikes_in_epochs() const { return stage != "before_init" && stage != "after_init"; }
};

/// A survivor says what it was told and ends. MPI_Finalize would wait for the dead.
[[noreturn]] void report_and_end(int code, Clock::time_point since) {
  const double waited_s = std::chrono::duration<double>(Clock::now() - since).count();
  say_survives(code, waited_s);
  _exit(0);
}

/// One epoch of all requests, the first of which is marked; the fault may strike in it.
void run_epoch(const Fault& fault, int epoch, std::vector<MPI_Request>& requests) {
  const auto begin = Clock::now();
  const bool strikes = epoch == fault_epoch;
  if (int code = MPI_Startall(static_cast<int>(requests.size()), requests.data()); code != MPI_SUCCESS) {
    report_and_end(code, begin);
  }
  if (strikes) fault.at("after_start");
  if (strikes && fault.is_in_wait() && own_rank != fault.victim) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
  }
  for (int p = 0; p < partitions; ++p) {
    if (strikes && p == partitions / 2) fault.at("mid_epoch");
    if (int code = MPI_Pready(p, requests[0]); code != MPI_SUCCESS) report_and_end(code, begin);
  }
  std::thread striker;
  if (strikes && fault.is_in_wait() && own_rank == fault.victim && fault.action != "slow") {
    striker = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      fault.at("in_wait");
    });
  } else if (strikes) {
    fault.at("in_wait");
  }
  // One by one, so that the error of each request can be told apart.
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
    if (int code = MPI_Wait(&*request, MPI_STATUS_IGNORE); code != MPI_SUCCESS) report_and_end(code, begin);
  }
  if (striker.joinable()) striker.join();
}

/// Ranks that start late are waited for, so that the time limits of others end no epoch before the fault strikes. A
/// fault that has struck by now leaves nobody to wait for.
int run_epochs(const Fault& fault, std::vector<MPI_Request>& requests) {
  fault.at("after_init");
  if (fault.strikes_in_epochs()) MPI_Barrier(MPI_COMM_WORLD);
  for (int epoch = 1; epoch <= last_epoch; ++epoch) run_epoch(fault, epoch, requests);
  for (MPI_Request& request : requests) MPI_Request_free(&request);
  say("ends well");
  return 0;
}

int allreduce(const Fault& fault) {
  std::vector<char> in(partitions * partition_bytes, 1), out(in.size());
  std::vector<MPI_Request> requests(1);
  fault.at("before_init");
  MPIX_Pallreduce_init(in.data(), out.data(), partitions, partition_bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD,
                       MPI_INFO_NULL, requests.data());
  return run_epochs(fault, requests);
}

int ring(const Fault& fault) {
  const int right = (own_rank + 1) % rank_count, left = (own_rank + rank_count - 1) % rank_count;
  std::vector<char> out(partitions * partition_bytes), in(out.size());
  std::vector<MPI_Request> requests(2);
  fault.at("before_init");
  MPI_Psend_init(out.data(), partitions, partition_bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &requests[0]);
  MPI_Precv_init(in.data(), partitions, partition_bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &requests[1]);
  return run_epochs(fault, requests);
}

MPI_Request made_send(std::vector<char>& data, int tag) {
  MPI_Request request;
  MPI_Psend_init(data.data(), 2, static_cast<MPI_Count>(data.size()) / 2, MPI_BYTE, (own_rank + 1) % rank_count, tag,
                 MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  return request;
}

int finalize_and_say() {
  const int code = MPI_Finalize();
  say("MPI_Finalize returned %s", code == MPI_SUCCESS ? "MPI_SUCCESS" : sentence_of(code).c_str());
  return 0;
}

/// MPI_Finalize with a request that was not freed, and with one that nobody completes: that is an error, and no hang.
int live_finalize(bool started) {
  static std::vector<char> data(64);
  MPI_Request request = made_send(data, 1);
  if (started) MPI_Start(&request);
  return finalize_and_say();
}

/// Requests that never met their other side are freed before MPI_Finalize, which drains them.
int unmatched_finalize() {
  std::vector<char> data(64), in(64);
  MPI_Request sends[10], recv;
  for (auto& send : sends) send = made_send(data, 1);
  MPI_Precv_init(in.data(), 1, 64, MPI_BYTE, (own_rank + rank_count - 1) % rank_count, 2, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &recv);
  for (auto& send : sends) MPI_Request_free(&send);
  MPI_Request_free(&recv);
  return finalize_and_say();
}

/// The last rank comes to MPI_Finalize later than the time limit: the others are told, and all end.
int late_finalize() {
  std::vector<char> data(64);
  MPI_Request send = made_send(data, 1);
  MPI_Request_free(&send);
  if (own_rank == rank_count - 1) std::this_thread::sleep_for(std::chrono::seconds(3));
  return finalize_and_say();
}

/// An error under MPI_ERRORS_ARE_FATAL: the sentence is printed, and the job ends.
int fatal() {
  std::vector<char> data(64);
  MPI_Request send = made_send(data, 1);
  MPI_Start(&send);
  MPI_Pready(4711, send);
  say("came back from an error that is fatal");
  return 0;
}

/// Makes the fatal error under MPI-4's MPI_ERRORS_ABORT.
int fatal_abort() {
#if MPI_VERSION >= 4
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
#endif
  return fatal();
}

/// Makes a fatal error that stands in the status of one of many requests.
int fatal_waitall() {
  std::vector<char> data(64), in(32);
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Precv_init(in.data(), 2, 16, MPI_BYTE, (own_rank + rank_count - 1) % rank_count, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &requests[2]);
  MPI_Start(&requests[2]);
  MPI_Barrier(MPI_COMM_WORLD);  // every receive is started before the send whose size differs is known
  requests[0] = made_send(data, 1);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  say("came back from an error that is fatal");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  rank_count = begin_probe(argc, argv);
  const bool keeps_fatal_handler = what.starts_with("fatal");
  if (!keeps_fatal_handler) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  if (what == "live_finalize") return live_finalize(false);
  if (what == "incomplete_finalize") return live_finalize(true);
  if (what == "unmatched_finalize") return unmatched_finalize();
  if (what == "late_finalize") return late_finalize();
  if (what == "fatal") return fatal();
  if (what == "fatal_abort") return fatal_abort();
  if (what == "fatal_waitall") return fatal_waitall();
  if (what == "normal") return MPI_Finalize();
  if ((what == "ring" || what == "allreduce") && argc == 5) {
    const Fault fault{argv[2], argv[3], std::atoi(argv[4])};
    const int code = what == "ring" ? ring(fault) : allreduce(fault);
    MPI_Finalize();
    return code;
  }
  std::fprintf(stderr, "probe: unknown arguments\n");
  MPI_Abort(MPI_COMM_WORLD, 2);
}
