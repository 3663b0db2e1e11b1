// The program that queue_fault_test.py runs on two ranks: rank 1 is killed while what rank 0 has enqueued needs it.
// What rank 0 finds it prints as lines "probe: ...". Streams, and the memory that they move, are the fake GPU's.
//
//   queue_probe MODE   MODE: WHERE_WHAT
//     WHERE: host (a queue of the host), stream (a queue of a stream, on host memory), far (the same behind work of the
//            program's, during which rank 1 dies), gpu (on GPU memory, which the stream moves by itself)
//     WHAT: receive, send (a synchronous one), allreduce, partitions (a receive of them); in GPU memory both are
//     device-driven;
//           graph (a receive that was captured, which no queue sees; in GPU memory)
#include <mpi.h>
#include <partita/partita.h>
#include <signal.h>
#include <unistd.h>
#include <partita/device.cuh>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "probe_lines.hpp"
#include "support/fake_gpu.hpp"
#include "support/fake_stream.hpp"

namespace {

using namespace std::chrono_literals;
using partita::test::FakeGpu;
using partita::test::FakeWorker;
using Clock = std::chrono::steady_clock;

constexpr int victim = 1;
constexpr int count = 1'000;  ///< of numbers
constexpr int good_epochs = 3;
constexpr auto until_all_wait = 400ms;
constexpr auto work_of_the_program = 3s;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  say("cannot %s: %s", call, sentence_of(code).c_str());
  _exit(4);
}

class Job {
 public:
  explicit Job(const std::string& mode)
      : where_(mode.substr(0, mode.find('_'))), what_(mode.substr(mode.find('_') + 1)) {
    const bool on_host = where_ == "host";
    check(Partita_Queue_init(&queue_, on_host ? PARTITA_QUEUE_HOST : PARTITA_QUEUE_CUDA, on_host ? nullptr : &native_),
          "make a queue");
    make();
    if (what_ == "graph") capture();
    for (int epoch = 0; epoch < good_epochs; ++epoch) {
      what_ == "graph" ? replay() : enqueue();
      check(end(), "run an epoch");
    }
  }

  [[noreturn]] void die() const {
    std::this_thread::sleep_for(until_all_wait);
    say("pid %d strikes", static_cast<int>(getpid()));
    raise(SIGKILL);
    _exit(5);
  }

  void survive() {
    const auto begin = Clock::now();
    if (where_ == "far") worker_.ask([] { std::this_thread::sleep_for(work_of_the_program); });
    int code = what_ == "graph" ? replay() : enqueue();
    std::atomic<bool> passed{where_ == "host"};
    if (!passed) worker_.ask([&] { passed = true; });
    if (code == MPI_SUCCESS) code = end();
    say_survives(code, std::chrono::duration<double>(Clock::now() - begin).count());
    worker_.drain();
    say("stream: %s", passed ? "goes on" : "stands");
    // What is enqueued behind the failure does not wait either.
    code = what_ == "graph" ? MPI_SUCCESS : enqueue();
    if (code == MPI_SUCCESS) code = Partita_Queue_wait(queue_);
    say("once more: class %d", class_of(code));
    const int freed = Partita_Queue_free(&queue_);
    say("frees the queue: %s", freed == MPI_SUCCESS ? "MPI_SUCCESS" : sentence_of(freed).c_str());
    if (what_ == "partitions" && is_on_gpu()) check(Partita_Prequest_free(&prequest_), "free the device request");
    const int request_freed = Partita_Request_free(&request_);
    say("frees the request: %s", request_freed == MPI_SUCCESS ? "MPI_SUCCESS" : sentence_of(request_freed).c_str());
  }

 private:
  bool is_on_gpu() const { return where_ == "gpu"; }
  bool sends() const { return (what_ == "send") == (own_rank != victim); }

  int* numbers(std::vector<int>& on_host) {
    on_host.assign(count, own_rank);
    return is_on_gpu()
               ? reinterpret_cast<int*>(FakeGpu::instance().allocate(partita::test::mapped, count * sizeof(int)))
               : on_host.data();
  }

  void make() {
    int* const data = numbers(data_);
    const int peer = 1 - own_rank;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    if (is_on_gpu()) MPI_Info_set(info, "partita_driver", "device");
    if (what_ == "allreduce") {
      check(Partita_Allreduce_init(data, numbers(more_), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &request_),
            "make it");
    } else if (what_ == "partitions") {
      check(sends() ? Partita_Psend_init(data, 1, count, MPI_INT, peer, 1, MPI_COMM_WORLD, info, &request_)
                    : Partita_Precv_init(data, 1, count, MPI_INT, peer, 1, MPI_COMM_WORLD, info, &request_),
            "make it");
    } else {
      check(sends() ? Partita_Ssend_init(data, count, MPI_INT, peer, 1, MPI_COMM_WORLD, &request_)
                    : Partita_Recv_init(data, count, MPI_INT, peer, 1, MPI_COMM_WORLD, &request_),
            "make it");
    }
    MPI_Info_free(&info);
    check(Partita_Match(&request_), "match");
    if (is_on_gpu() && what_ != "partitions" && what_ != "allreduce" && moved_by() != "stream") {
      say("has a message that the stream does not move");
      _exit(4);
    }
    if (what_ == "partitions" && is_on_gpu()) check(Partita_Prequest_create(&prequest_, request_), "make its words");
  }

  std::string moved_by() const {
    MPI_Info info = MPI_INFO_NULL;
    check(Partita_Request_get_info(request_, &info), "ask who moves it");
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    MPI_Info_get(info, "partita_moved_by", MPI_MAX_INFO_VAL, value, &found);
    MPI_Info_free(&info);
    return value;
  }

  int enqueue() {
    if (const int code = Partita_Enqueue_start(queue_, &request_); code != MPI_SUCCESS) return code;
    if (what_ == "partitions" && sends()) {
      if (is_on_gpu()) {
        worker_.ask([this] {
          if (MPIX_Pbuf_prepare(prequest_) != 0 || MPIX_Pready(0, prequest_) != 0) say("cannot mark");
        });
      } else {
        check(Partita_Pready(0, request_), "mark");
      }
    }
    return Partita_Enqueue_wait(queue_, &request_);
  }

  void capture() {
    worker_.begin_capture();
    check(enqueue(), "capture");
    graph_ = worker_.end_capture();
  }
  int replay() {
    for (const FakeWorker::Operation& node : graph_) worker_.ask(node);
    return MPI_SUCCESS;
  }
  int end() {
    if (what_ != "graph") return Partita_Queue_wait(queue_);
    worker_.drain();
    return Partita_Wait(&request_, MPI_STATUS_IGNORE);
  }

  const std::string where_, what_;
  FakeWorker worker_;
  void* native_ = &worker_;
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
  std::vector<int> data_, more_;
  Partita_Request request_ = PARTITA_REQUEST_NULL;
  Partita_Prequest prequest_{};
  std::vector<FakeWorker::Operation> graph_;
};

}  // namespace

int main(int argc, char** argv) {
  const int size = begin_probe(argc, argv);
  if (argc != 2 || size != 2) {
    std::fprintf(stderr, "probe: expected are two ranks and a mode\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  error_string = Partita_Error_string;
  if (Partita_Init(MPI_COMM_WORLD) != MPI_SUCCESS) return 3;
  Job job(argv[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  if (own_rank == victim) job.die();
  job.survive();
  _exit(0);  // MPI_Finalize would wait for the dead
}
