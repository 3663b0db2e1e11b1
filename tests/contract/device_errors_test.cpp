// What kernels and their hosts do wrong, with threads for kernels, on memory that stands for a GPU's; and a GPU that no
// longer works.
#include "support/device_mistakes.hpp"

#include <chrono>
#include <thread>

#include "support/fake_gpu.hpp"

namespace partita::test {
namespace {

struct Threads {
  static constexpr bool kernels_copy = true;
  static std::byte* allocate(std::size_t size_bytes) { return FakeGpu::instance().allocate(mapped, size_bytes); }
  static void free(std::byte* memory) { FakeGpu::instance().free(memory); }
  static int call(const Commit& commit) {
    int code = -1;
    std::thread([&] { code = commit(); }).join();
    return code;
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(OnThreads, DeviceMistakes, Threads);

/// No kernel will mark any more, and the host has no other way to learn it.
class BrokenGpu : public DeviceMistakes<Threads> {};

TEST_F(BrokenGpu, a_wait_for_its_kernels_ends_with_what_is_wrong) {
  make(nullptr);
  if (rank() == sender()) {
    Partita_Prequest device{};
    ASSERT_EQ(Partita_Prequest_create(&device, send_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
    FakeGpu::instance().fail(mapped);
    // These words, and not those of the time limit.
    expect_error(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_ERR_OTHER,
                 "a kernel of GPU 4 has made an illegal access");
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    FakeGpu::instance().mend(mapped);
  }
  free_both();
}

/// The epochs of its kernels can no longer be read: nothing goes on behind them.
TEST_F(BrokenGpu, its_device_request_can_be_freed_and_no_other_is_made) {
  make("partita_driver=device");
  if (rank() == sender()) {
    Partita_Prequest device{};
    ASSERT_EQ(Partita_Prequest_create(&device, send_), MPI_SUCCESS);
    FakeGpu::instance().fail(mapped);
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    FakeGpu::instance().mend(mapped);
    expect_error(Partita_Prequest_create(&device, send_), MPI_ERR_OTHER,
                 "a kernel of GPU 4 has made an illegal access");
  }
  free_both();
}

}  // namespace
}  // namespace partita::test
