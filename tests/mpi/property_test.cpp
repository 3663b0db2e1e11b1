// Random transfers around a ring: every rank sends to its right neighbour and receives from its left one, itself
// if it is alone. Contents are compared byte by byte at the moment Parrived says true.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/board.hpp"
#include "support/completion.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/scenario.hpp"

namespace partita::test {
namespace {

constexpr int most_partitions = 300;

/// One call that marks partitions.
struct Marking {
  enum class Call { single, range, list } call;
  std::vector<int> partitions;
};

/// Splits the partitions into runs, gives each run to one of the calls, and puts the calls into random order.
std::vector<Marking> random_markings(Random& random, int partitions) {
  std::vector<Marking> markings;
  for (int first = 0; first < partitions;) {
    const int last = std::min(partitions, first + random.integer(1, 6));
    std::vector<int> run;
    for (int p = first; p < last; ++p) run.push_back(p);
    first = last;
    switch (random.integer(0, 2)) {
      case 0:
        for (const int p : run) markings.push_back({Marking::Call::single, {p}});
        break;
      case 1:
        markings.push_back({Marking::Call::range, run});
        break;
      default:
        random.shuffle(run);
        markings.push_back({Marking::Call::list, run});
    }
  }
  random.shuffle(markings);
  return markings;
}

/// This rank's part of one scenario per edge of the ring.
template <class Face>
class RingExchange {
 public:
  RingExchange(std::uint64_t seed, int iteration, Board* board)
      : iteration_(iteration),
        board_(board),
        to_((rank() + 1) % ranks()),
        from_((rank() + ranks() - 1) % ranks()),
        out_(scenario_of_edge(seed, rank())),
        in_(scenario_of_edge(seed, from_)),
        own_choices_(seed, stream(1000 + rank())),
        send_buffer_(out_.send.layout, out_.send.elements(), out_.send.memory),
        recv_buffer_(in_.recv.layout, in_.recv.elements(), in_.recv.memory) {}

  std::string text() const {
    return "iteration " + std::to_string(iteration_) + "; sends " + out_.text() + "; receives " + in_.text();
  }
  int epochs() const { return out_.epochs; }

  void init() {
    step("init of " + text());
    const auto init_send = [&] {
      MPI_Info info = out_.make_info();
      ASSERT_OK(Face::psend_init(send_buffer_.address(), out_.send.partitions, out_.send.count, out_.send.layout.type(),
                                 to_, out_.tag, MPI_COMM_WORLD, info, &requests_[0]));
      if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    };
    const auto init_recv = [&] {
      ASSERT_OK(Face::precv_init(recv_buffer_.address(), in_.recv.partitions, in_.recv.count, in_.recv.layout.type(),
                                 from_, in_.tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests_[1]));
    };
    const bool send_first = own_choices_.one_in(2);
    if (send_first) init_send();
    init_recv();
    if (!send_first) init_send();
  }

  void run_epoch(int epoch) {
    serial_ = static_cast<std::uint32_t>(iteration_ * 16 + epoch + 1);
    expected_ = in_.expected(serial_);
    recv_buffer_.reset();
    if (out_.send.layout.overlaps_itself(std::min<std::int64_t>(out_.send.elements(), 200))) {
      send_buffer_.write_pattern(serial_, 0, send_buffer_.packed_bytes());
    } else {
      write_when_marked_ = true;
    }
    start();
    mark_and_poll();
    if (testing::Test::HasFatalFailure()) return;
    finish();
  }

  void free() {
    for (auto& request : requests_) EXPECT_OK(Face::free(&request));
    for (auto& request : requests_) EXPECT_EQ(request, Face::null());
  }

 private:
  std::uint64_t stream(int edge) const {
    return static_cast<std::uint64_t>(iteration_) << 32 | static_cast<std::uint64_t>(edge);
  }
  Scenario scenario_of_edge(std::uint64_t seed, int sender) const {
    Random shared(seed, stream(sender));
    Scenario scenario = Scenario::random(shared);
    Random common(seed, stream(500));
    scenario.epochs = common.integer(1, 3);
    return scenario;
  }
  std::size_t word(int sender, int partition) const {
    return static_cast<std::size_t>(sender * most_partitions + partition);
  }

  void start() {
    step("start in " + text());
    switch (own_choices_.integer(0, 2)) {
      case 0:
        ASSERT_OK(Face::startall(2, requests_.data()));
        break;
      case 1:
        ASSERT_OK(Face::start(&requests_[1]));
        ASSERT_OK(Face::start(&requests_[0]));
        break;
      default:
        ASSERT_OK(Face::start(&requests_[0]));
        ASSERT_OK(Face::start(&requests_[1]));
    }
  }

  void mark_and_poll() {
    auto markings = random_markings(own_choices_, out_.send.partitions);
    std::vector<int> unseen = own_choices_.permutation(in_.recv.partitions);
    const bool until_all_arrived = own_choices_.one_in(2);
    const int marks_between_polls = own_choices_.integer(1, 8);
    while (!markings.empty() || (until_all_arrived && !unseen.empty())) {
      step("marking and polling in " + text());
      for (int i = 0; i < marks_between_polls && !markings.empty(); ++i) {
        mark(markings.back());
        markings.pop_back();
      }
      poll(unseen);
      if (testing::Test::HasFatalFailure()) return;
      sched_yield();
    }
  }

  void mark(const Marking& marking) {
    for (const int p : marking.partitions) {
      const std::int64_t bytes = out_.send.partition_bytes();
      if (write_when_marked_) send_buffer_.write_pattern(serial_, p * bytes, (p + 1) * bytes);
      if (board_ != nullptr) board_->write(word(rank(), p), serial_);
    }
    const int count = static_cast<int>(marking.partitions.size());
    switch (marking.call) {
      case Marking::Call::single:
        ASSERT_OK(Face::pready(marking.partitions[0], requests_[0]));
        break;
      case Marking::Call::range:
        ASSERT_OK(Face::pready_range(marking.partitions.front(), marking.partitions.back(), requests_[0]));
        break;
      case Marking::Call::list:
        ASSERT_OK(Face::pready_list(count, marking.partitions.data(), requests_[0]));
    }
  }

  void poll(std::vector<int>& unseen) {
    std::vector<int> still_unseen;
    for (const int r : unseen) {
      int arrived = 0;
      ASSERT_OK(Face::parrived(requests_[1], r, &arrived));
      if (arrived == 0) {
        still_unseen.push_back(r);
        continue;
      }
      check_partition(r);
      if (testing::Test::HasFatalFailure()) return;
    }
    unseen = std::move(still_unseen);
  }

  void check_partition(int r) {
    const auto [first, last] = in_.senders_of(r);
    for (int s = first; board_ != nullptr && s <= last; ++s) {
      ASSERT_GE(board_->read(word(from_, s)), serial_)  // the sender may be an epoch ahead
          << "receive partition " << r << " arrived before send partition " << s << " was marked";
    }
    ASSERT_TRUE(recv_buffer_.holds(expected_, r * in_.recv.partition_bytes(), (r + 1) * in_.recv.partition_bytes()))
        << "when receive partition " << r << " had arrived";
  }

  void finish() {
    const auto how = static_cast<Completion>(own_choices_.integer(0, completion_count - 1));
    SCOPED_TRACE(name_of(how));
    std::vector<MPI_Status> statuses;
    complete<Face>(how, requests_, statuses);
    if (testing::Test::HasFatalFailure()) return;
    send_buffer_.reset();  // a completed send's buffer is the caller's again, whatever the receiver does
    ASSERT_TRUE(recv_buffer_.holds(expected_, 0, in_.total_bytes()));
    ASSERT_TRUE(recv_buffer_.gaps_untouched());
    check_status(statuses[1]);
    check_inactive();
  }

  void check_status(const MPI_Status& status) const {
    EXPECT_EQ(status.MPI_SOURCE, from_);
    EXPECT_EQ(status.MPI_TAG, in_.tag);
    MPI_Count elements = -1;
    MPI_Get_elements_x(&status, in_.basic, &elements);
    EXPECT_EQ(elements, in_.total_bytes() / in_.basic_bytes);
    int count = -1, cancelled = -1;
    MPI_Get_count(&status, in_.recv.layout.type(), &count);
    EXPECT_EQ(count, in_.recv.elements());
    MPI_Test_cancelled(&status, &cancelled);
    EXPECT_EQ(cancelled, 0);
  }

  void check_inactive() {
    for (auto& request : requests_) {
      EXPECT_NE(request, Face::null()) << "a persistent request survives its completion";
      int flag = 0;
      EXPECT_OK(Face::test(&request, &flag, MPI_STATUS_IGNORE));
      EXPECT_EQ(flag, 1) << "an inactive request tests as complete";
    }
  }

  int iteration_;
  Board* board_;
  int to_, from_;
  Scenario out_, in_;
  Random own_choices_;
  Buffer send_buffer_, recv_buffer_;
  std::vector<typename Face::Request> requests_{Face::null(), Face::null()};
  std::vector<std::uint8_t> expected_;
  std::uint32_t serial_ = 0;
  bool write_when_marked_ = false;
};

template <class Face>
class Property : public testing::Test {};
TYPED_TEST_SUITE(Property, Faces, FaceNames);

TYPED_TEST(Property, any_partitions_types_sizes_and_orders_deliver_every_byte_in_time) {
  const std::uint64_t seed = job_seed() + TypeParam::name[0];
  const auto iterations = static_cast<int>(environment_number("PARTITEST_ITERATIONS", 60));
  const auto board = Board::make(static_cast<std::size_t>(ranks() * most_partitions));
  for (int i = 0; i < iterations; ++i) {
    RingExchange<TypeParam> exchange(seed, i, board.get());
    SCOPED_TRACE("seed " + std::to_string(job_seed()) + ", " + exchange.text());
    exchange.init();
    for (int epoch = 0; epoch < exchange.epochs() && !this->HasFailure(); ++epoch) exchange.run_epoch(epoch);
    if (this->HasFailure()) return;
    exchange.free();
  }
}

}  // namespace
}  // namespace partita::test
