// The program that message_fault_test.py runs for messages that are offered (PARTITA_PEER_MESSAGES), on the fake GPU:
// one of three ranks is killed, or comes to MPI_Finalize while what it has sent waits. What the ranks find they print
// as lines "probe: ...".
//
//   message_probe STAGE   STAGE: unreceived (the victim does not receive), copying (it has not copied all),
//                         staging (nor staged), or finalize (nobody is killed)
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "probe_lines.hpp"
#include "support/fake_gpu.hpp"

namespace {

using partita::test::FakeGpu;
using Clock = std::chrono::steady_clock;
constexpr int victim = 1;
constexpr int size_bytes = 100'000;

/// Its copies never run, and it dies once the first was asked for.
void strike_in_a_copy() {
  FakeGpu::instance().hold_all(true);
  std::thread([before = FakeGpu::instance().operations()] {
    while (FakeGpu::instance().operations() == before) std::this_thread::yield();
    say("pid %d strikes", static_cast<int>(getpid()));
    raise(SIGKILL);
  }).detach();
}

void pass(std::byte* memory, int from, int to) {
  if (own_rank == from) MPI_Send(memory, size_bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD);
  if (own_rank == to) MPI_Recv(memory, size_bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// Each rank sends to the next one, and comes to its end before that has received it.
void end_with_messages_under_way(std::byte* memory, int ranks) {
  MPI_Request send = MPI_REQUEST_NULL;
  memory[size_bytes - 1] = static_cast<std::byte>(own_rank + 1);
  MPI_Isend(memory, size_bytes, MPI_BYTE, (own_rank + 1) % ranks, 1, MPI_COMM_WORLD, &send);
  MPI_Request_free(&send);
  std::this_thread::sleep_for(std::chrono::milliseconds(100 * own_rank));
  std::byte* const in = FakeGpu::instance().allocate(partita::test::mapped, size_bytes);
  const int source = (own_rank + ranks - 1) % ranks;
  const int code = MPI_Recv(in, size_bytes, MPI_BYTE, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS && in[size_bytes - 1] == static_cast<std::byte>(source + 1)) say("has received");
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = begin_probe(argc, argv);
  const std::string stage = argc > 1 ? argv[1] : "";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::byte* const memory = FakeGpu::instance().allocate(partita::test::mapped, size_bytes);
  for (int from = 0; from < ranks; ++from) pass(memory, from, (from + 1) % ranks);
  if (stage == "finalize") {
    end_with_messages_under_way(memory, ranks);
    return 0;
  }
  const auto begin = Clock::now();
  int code = MPI_SUCCESS;
  if (own_rank == victim) {
    if (stage == "unreceived") {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      say("pid %d strikes", static_cast<int>(getpid()));
      raise(SIGKILL);
    }
    strike_in_a_copy();
    if (stage == "copying") MPI_Recv(memory, size_bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (stage == "staging") MPI_Ssend(memory, size_bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (own_rank == 0 && stage == "unreceived") {
    code = MPI_Ssend(memory, size_bytes, MPI_BYTE, victim, 2, MPI_COMM_WORLD);
  } else if (own_rank == 0 && stage == "copying") {
    MPI_Request send = MPI_REQUEST_NULL;
    MPI_Isend(memory, size_bytes, MPI_BYTE, victim, 2, MPI_COMM_WORLD, &send);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it is claimed, and not staged for want of that
    code = MPI_Wait(&send, MPI_STATUS_IGNORE);
  } else if (own_rank == 0) {
    std::string in(size_bytes, ' ');
    code = MPI_Recv(in.data(), size_bytes, MPI_BYTE, victim, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (own_rank == 0) say_survives(code, std::chrono::duration<double>(Clock::now() - begin).count());
  _exit(0);  // MPI_Finalize would wait for the dead
}
