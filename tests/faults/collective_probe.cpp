// The program that collective_fault_test.py runs for collectives that go from GPU to GPU, on the fake GPU: one of three
// ranks is killed. What the ranks find they print as lines "probe: ...".
//
//   collective_probe STAGE FORM   STAGE: before (the victim does not come to the call), within (it has not copied all)
//                                 FORM: blocking, or nonblocking, where the others wait for a request
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
constexpr int block_bytes = 100'000;
constexpr int good_calls = 3;

[[noreturn]] void strike() {
  say("pid %d strikes", static_cast<int>(getpid()));
  raise(SIGKILL);
  _exit(5);
}

/// Its copies never run, and it dies once they were asked for.
void strike_within() {
  FakeGpu::instance().hold_all(true);
  std::thread([before = FakeGpu::instance().operations()] {
    while (FakeGpu::instance().operations() == before) std::this_thread::yield();
    strike();
  }).detach();
}

/// The collective; two of them are under way in the nonblocking form, of which the second is waited for first.
int exchange(bool is_nonblocking, const std::byte* in, std::byte* out, std::byte* out_too) {
  if (!is_nonblocking) return MPI_Alltoall(in, block_bytes, MPI_BYTE, out, block_bytes, MPI_BYTE, MPI_COMM_WORLD);
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::byte* const to[2] = {out, out_too};
  for (int each = 0; each < 2; ++each) {
    const int code =
        MPI_Ialltoall(in, block_bytes, MPI_BYTE, to[each], block_bytes, MPI_BYTE, MPI_COMM_WORLD, &requests[each]);
    if (code != MPI_SUCCESS) return code;
  }
  const int code = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  return code != MPI_SUCCESS ? code : MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = begin_probe(argc, argv);
  const std::string stage = argc > 1 ? argv[1] : "";
  const bool is_nonblocking = argc > 2 && std::string(argv[2]) == "nonblocking";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const auto room = static_cast<std::size_t>(block_bytes) * static_cast<std::size_t>(ranks);
  std::byte* const in = FakeGpu::instance().allocate(partita::test::mapped, room);
  std::byte* const out = FakeGpu::instance().allocate(partita::test::mapped, room);
  std::byte* const out_too = FakeGpu::instance().allocate(partita::test::mapped, room);
  exchange(false, in, out, out_too);  // nonblocking ones go by peers behind it
  for (int call = 0; call <= good_calls; ++call) {
    const bool is_last = call == good_calls;
    if (is_last && own_rank == victim && stage == "before") strike();
    if (is_last && own_rank == victim && stage == "within") strike_within();
    const auto begin = Clock::now();
    const std::uint64_t before = FakeGpu::instance().copies_with_host();
    const int code = exchange(is_nonblocking, in, out, out_too);
    if (FakeGpu::instance().copies_with_host() != before) say("went through host memory");
    if (code == MPI_SUCCESS && !is_last) continue;
    say_survives(code, std::chrono::duration<double>(Clock::now() - begin).count());
    _exit(0);  // MPI_Finalize would wait for the dead
  }
}
