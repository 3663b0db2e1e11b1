// Counts beyond 2^31 through both faces: MPI_Count, not int.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/mman.h>

#include <fstream>
#include <new>
#include <string>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

constexpr MPI_Count two_to_31 = MPI_Count{1} << 31;
constexpr std::int64_t gib = std::int64_t{1} << 30;

std::int64_t available_bytes() {
  std::ifstream lines("/proc/meminfo");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(13)) * 1024;
  }
  return 0;
}

/// Words in large pages, where the system has them: in pages of 4 KiB it takes a second to bring a GiB.
class Words {
 public:
  explicit Words(std::int64_t count) : size_bytes_(static_cast<std::size_t>(count) * sizeof(std::uint64_t)) {
    if (count == 0) return;
    void* const place = ::mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    ::madvise(place, size_bytes_, MADV_HUGEPAGE);
    words_ = static_cast<std::uint64_t*>(place);
  }
  ~Words() {
    if (words_ != nullptr) ::munmap(words_, size_bytes_);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  std::uint64_t* get() const { return words_; }
  std::uint64_t& operator[](std::int64_t position) const { return words_[position]; }

 private:
  std::size_t size_bytes_;
  std::uint64_t* words_ = nullptr;
};

/// The word at `position` of the data that fills the whole buffer.
std::uint64_t word(std::int64_t position) {
  return static_cast<std::uint64_t>(position) * 0x9e3779b97f4a7c15U + 1;
}

template <class Face>
class LargeCount : public testing::Test {
 protected:
  /// Rank 0 sends to the last rank, which may be itself.
  static bool sends() { return rank() == 0; }
  static bool receives() { return rank() == ranks() - 1; }

  /// One epoch of one partition. `received` is set where this rank receives.
  void transfer(const void* out, void* in, MPI_Count count, MPI_Datatype type, MPI_Status& received) {
    const MPI_Comm comm = MPI_COMM_WORLD;
    typename Face::Request send = Face::null(), recv = Face::null();
    step("completing requests of large counts");
    if (receives()) {
      ASSERT_OK(Face::precv_init(in, 1, count, type, 0, 3, comm, MPI_INFO_NULL, &recv));
      ASSERT_OK(Face::start(&recv));
    }
    if (sends()) {
      ASSERT_OK(Face::psend_init(out, 1, count, type, ranks() - 1, 3, comm, MPI_INFO_NULL, &send));
      ASSERT_OK(Face::start(&send));
      ASSERT_OK(Face::pready(0, send));
    }
    if (receives()) {
      ASSERT_OK(Face::wait(&recv, &received));
      ASSERT_OK(Face::free(&recv));
    }
    if (sends()) {
      ASSERT_OK(Face::wait(&send, MPI_STATUS_IGNORE));
      ASSERT_OK(Face::free(&send));
    }
  }
};

TYPED_TEST_SUITE(LargeCount, Faces, FaceNames);

TYPED_TEST(LargeCount, elements_without_bytes_may_be_any_number) {
  MPI_Datatype empty = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  char nothing = 0;
  MPI_Status status;
  this->transfer(&nothing, &nothing, 1000 * two_to_31 + 3, empty, status);
  if (this->receives()) {
    int elements = -1;
    MPI_Get_count(&status, empty, &elements);
    EXPECT_EQ(elements, 0);
  }
  MPI_Type_free(&empty);
}

TYPED_TEST(LargeCount, a_send_to_nobody_may_have_any_count) {
  typename TypeParam::Request send = TypeParam::null();
  char unread = 0;
  ASSERT_OK(TypeParam::psend_init(&unread, 2, 1000 * two_to_31, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD,
                                  MPI_INFO_NULL, &send));
  ASSERT_OK(TypeParam::start(&send));
  ASSERT_OK(TypeParam::pready_range(0, 1, send));
  ASSERT_OK(TypeParam::wait(&send, MPI_STATUS_IGNORE));
  ASSERT_OK(TypeParam::free(&send));
}

TYPED_TEST(LargeCount, bytes_beyond_two_to_31_arrive) {
  constexpr std::int64_t bytes = two_to_31 + 16, words = bytes / 8, needed = 2 * bytes + 4 * gib;
  const auto available = static_cast<std::int64_t>(from_rank_zero(static_cast<unsigned long long>(available_bytes())));
  if (available < needed) {
    GTEST_SKIP() << "needs " << needed / gib + 1 << " GiB of free memory, this machine has " << available / gib;
  }
  const Words out(this->sends() ? words : 0), in(this->receives() ? words : 0);
  for (std::int64_t i = 0; this->sends() && i < words; ++i) out[i] = word(i);
  MPI_Status status;
  this->transfer(out.get(), in.get(), bytes, MPI_BYTE, status);
  RETURN_IF_FAILED();
  if (!this->receives()) return;
  std::int64_t right = 0;
  while (right < words && in[right] == word(right)) ++right;
  ASSERT_EQ(right, words) << "word " << right << " is wrong";
  MPI_Count elements = -1;
  MPI_Get_elements_x(&status, MPI_BYTE, &elements);
  EXPECT_EQ(elements, bytes);
  int as_int = 0;
  MPI_Get_count(&status, MPI_BYTE, &as_int);
  EXPECT_EQ(as_int, MPI_UNDEFINED) << "more than an int can hold";
}

}  // namespace
}  // namespace partita::test
