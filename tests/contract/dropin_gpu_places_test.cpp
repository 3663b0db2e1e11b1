// The MPI's own calls where the buffers of one call lie in the memory of two GPUs of a process, and where a buffer is
// no GPU memory any more. On the fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

/// Each rank has so many, which are enough for a collective by peer memory.
constexpr int part = 1000;

/// Integers in one of the GPUs, which are host memory in truth.
class IntsOf {
 public:
  IntsOf(Gpu gpu, const Ints& values)
      : size_(values.size()),
        data_(reinterpret_cast<int*>(
            FakeGpu::instance().allocate(gpu, std::max(values.size() * sizeof(int), least_bytes)))) {
    set(values);
  }
  ~IntsOf() { free(); }
  IntsOf(const IntsOf&) = delete;
  IntsOf& operator=(const IntsOf&) = delete;

  int* data() const { return data_; }
  Ints get() const { return {data_, data_ + size_}; }
  void set(const Ints& values) { std::ranges::copy(values, data_); }
  /// It is host memory, and nobody's.
  void free() {
    if (!is_freed_) FakeGpu::instance().free(reinterpret_cast<std::byte*>(data_));
    is_freed_ = true;
  }

 private:
  /// As memory of GPUs, no two of which share a large page.
  static constexpr std::size_t least_bytes = std::size_t{4} << 20;

  std::size_t size_;
  int* data_;
  bool is_freed_ = false;
};

/// What one rank sends lies in one of two GPUs, and what it receives in the other; of some ranks in one.
class TwoGpus : public testing::TestWithParam<std::array<Gpu, 2>> {
 protected:
  int all = part * ranks();
  IntsOf out{GetParam()[0], counting(all, 1000 * rank())};
  IntsOf in{rank() == 0 ? GetParam()[1] : mapped, Ints(static_cast<std::size_t>(all), -1)};

  /// The part of this rank, of each.
  Ints parts(int own_first) const {
    Ints expected;
    for (int peer = 0; peer < ranks(); ++peer) {
      const Ints theirs = counting(part, 1000 * peer + own_first);
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    return expected;
  }
  Ints sums(int count) const {
    Ints expected(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      expected[static_cast<std::size_t>(i)] = ranks() * i + 1000 * (ranks() * (ranks() - 1) / 2);
    return expected;
  }
};

TEST_P(TwoGpus, exchange_messages) {
  ASSERT_OK(MPI_Sendrecv(out.data(), all, MPI_INT, right(), 1, in.data(), all, MPI_INT, left(), 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
  EXPECT_EQ(in.get(), counting(all, 1000 * left()));
#if MPI_VERSION >= 4
  in.set(Ints(static_cast<std::size_t>(all), -1));
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Isendrecv(out.data(), all, MPI_INT, right(), 1, in.data(), all, MPI_INT, left(), 1, MPI_COMM_WORLD,
                          &request));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(in.get(), counting(all, 1000 * left()));
#endif
}

TEST_P(TwoGpus, move_in_collectives) {
  ASSERT_OK(MPI_Alltoall(out.data(), part, MPI_INT, in.data(), part, MPI_INT, MPI_COMM_WORLD));
  EXPECT_EQ(in.get(), parts(part * rank()));
  in.set(Ints(static_cast<std::size_t>(all), -1));
  ASSERT_OK(MPI_Allgather(out.data(), part, MPI_INT, in.data(), part, MPI_INT, MPI_COMM_WORLD));
  EXPECT_EQ(in.get(), parts(0));
  in.set(Ints(static_cast<std::size_t>(all), -1));
  ASSERT_OK(MPI_Gather(out.data(), part, MPI_INT, in.data(), part, MPI_INT, 0, MPI_COMM_WORLD));
  if (rank() == 0) {
    EXPECT_EQ(in.get(), parts(0));
  }
  in.set(Ints(static_cast<std::size_t>(all), -1));
  ASSERT_OK(MPI_Scatter(out.data(), part, MPI_INT, in.data(), part, MPI_INT, 0, MPI_COMM_WORLD));
  Ints scattered = counting(part, part * rank());
  scattered.resize(static_cast<std::size_t>(all), -1);
  EXPECT_EQ(in.get(), scattered);
}

TEST_P(TwoGpus, reduce_in_collectives) {
  ASSERT_OK(MPI_Allreduce(out.data(), in.data(), all, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  EXPECT_EQ(in.get(), sums(all));
  in.set(Ints(static_cast<std::size_t>(all), -1));
  ASSERT_OK(MPI_Reduce(out.data(), in.data(), all, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
  if (rank() == 0) {
    EXPECT_EQ(in.get(), sums(all));
  }
  in.set(Ints(static_cast<std::size_t>(all), -1));
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Iallreduce(out.data(), in.data(), all, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(in.get(), sums(all));
}

INSTANTIATE_TEST_SUITE_P(All, TwoGpus,
                         testing::Values(std::array{mapped, mapped_too}, std::array{mapped_too, mapped},
                                         std::array{mapped_too, mapped_too}, std::array{mapped, nothing}),
                         [](const auto& info) {
                           return std::to_string(info.param[0]) + "_to_" + std::to_string(info.param[1]);
                         });

std::string gpu_text(Gpu gpu) {
  return "GPU " + std::to_string(gpu);
}

/// One buffer, MPI_BOTTOM, of which the datatype says where its elements lie: in two GPUs, or in a GPU and on the host.
class Scattered : public testing::Test {
 protected:
  Scattered() {
    MPI_Aint addresses[3];
    const int lengths[3] = {1, 1, 1};
    const MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    EXPECT_OK(MPI_Get_address(first.data(), &addresses[0]));
    EXPECT_OK(MPI_Get_address(other.data(), &addresses[1]));
    EXPECT_OK(MPI_Get_address(first.data() + 2, &addresses[2]));
    EXPECT_OK(MPI_Type_create_struct(3, lengths, addresses, types, &in_two));
    EXPECT_OK(MPI_Type_commit(&in_two));
    EXPECT_OK(MPI_Get_address(host.data(), &addresses[1]));
    EXPECT_OK(MPI_Type_create_struct(3, lengths, addresses, types, &with_host));
    EXPECT_OK(MPI_Type_commit(&with_host));
  }
  ~Scattered() override {
    EXPECT_OK(MPI_Type_free(&in_two));
    EXPECT_OK(MPI_Type_free(&with_host));
  }

  void expect_refused(const std::function<int(MPI_Datatype)>& call, const char* name) {
    const ErrorsReturn errors_return(MPI_COMM_WORLD);
    EXPECT_ERROR(call(in_two), MPI_ERR_BUFFER, name, gpu_text(mapped), gpu_text(mapped_too), "expected");
    EXPECT_ERROR(call(with_host), MPI_ERR_BUFFER, name, gpu_text(mapped), "host memory", "expected");
    harness_barrier();
  }

  IntsOf first{mapped, counting(4, 10)};
  IntsOf other{mapped_too, counting(4, 20)};
  Ints host = counting(4, 30);
  MPI_Datatype in_two = MPI_DATATYPE_NULL;
  MPI_Datatype with_host = MPI_DATATYPE_NULL;
};

TEST_F(Scattered, elements_of_a_message_are_an_error) {
  expect_refused([](MPI_Datatype type) { return MPI_Send(MPI_BOTTOM, 1, type, right(), 1, MPI_COMM_WORLD); },
                 "MPI_Send");
  expect_refused(
      [](MPI_Datatype type) { return MPI_Recv(MPI_BOTTOM, 1, type, left(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); },
      "MPI_Recv");
}

TEST_F(Scattered, elements_of_a_collective_are_an_error) {
  expect_refused([](MPI_Datatype type) { return MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD); }, "MPI_Bcast");
  expect_refused(
      [](MPI_Datatype type) {
        MPI_Request request = MPI_REQUEST_NULL;
        return MPI_Ibcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD, &request);
      },
      "MPI_Ibcast");
}

/// Each block has a place of its own.
TEST_F(Scattered, blocks_of_a_collective_are_an_error) {
  if (ranks() == 1) GTEST_SKIP() << "has one block only";
  const ErrorsReturn errors_return(MPI_COMM_WORLD);
  const Ints counts(static_cast<std::size_t>(ranks()), 1);
  Ints places(static_cast<std::size_t>(ranks()), 0);
  std::vector<MPI_Datatype> types(static_cast<std::size_t>(ranks()));
  for (std::size_t i = 0; i < types.size(); ++i) {
    MPI_Aint address = 0;
    const int length = 1;
    const MPI_Datatype number = MPI_INT;
    EXPECT_OK(MPI_Get_address(i == 1 ? other.data() : first.data(), &address));
    EXPECT_OK(MPI_Type_create_struct(1, &length, &address, &number, &types[i]));
    EXPECT_OK(MPI_Type_commit(&types[i]));
  }
  IntsOf got(mapped, Ints(static_cast<std::size_t>(ranks()), -1));
  Ints got_places;
  for (int i = 0; i < ranks(); ++i) got_places.push_back(i * static_cast<int>(sizeof(int)));
  const std::vector<MPI_Datatype> ints(static_cast<std::size_t>(ranks()), MPI_INT);
  EXPECT_ERROR(MPI_Alltoallw(MPI_BOTTOM, counts.data(), places.data(), types.data(), got.data(), counts.data(),
                             got_places.data(), ints.data(), MPI_COMM_WORLD),
               MPI_ERR_BUFFER, "MPI_Alltoallw", gpu_text(mapped), gpu_text(mapped_too), "expected");
  for (MPI_Datatype& type : types) EXPECT_OK(MPI_Type_free(&type));
}

/// A message out of that memory is not offered, and tells why.
void expect_staged_since(const void* memory) {
  const bool has_offers = std::getenv("PARTITA_PEER_MESSAGES") != nullptr;
  Ints got(part, -1);
  MPI_Request receive = MPI_REQUEST_NULL;
  MPI_Request send = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv(got.data(), part, MPI_INT, left(), 2, MPI_COMM_WORLD, &receive));
  ASSERT_OK(MPI_Isend(memory, part, MPI_INT, right(), 2, MPI_COMM_WORLD, &send));
  MPI_Info info = MPI_INFO_NULL;
  ASSERT_OK(Partita_mpi_Request_get_info(send, &info));
  const auto value_of = [info](const char* key) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    EXPECT_OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found));
    return std::string(found != 0 ? value : "none");
  };
  EXPECT_EQ(value_of("partita_memory"), "device");
  EXPECT_EQ(value_of("partita_reason"),
            has_offers
                ? "staged in host memory, and not offered to its receiver: cuIpcGetMemHandle fails: invalid argument"
                : "staged in host memory");
  ASSERT_OK(MPI_Info_free(&info));
  ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
}

/// Memory of the left one's GPU that this program has mapped by itself: a GPU's as any other, which no peer maps again.
TEST(MappedMemory, of_another_process_is_taken_as_a_gpus) {
  if (ranks() == 1) GTEST_SKIP() << "has no other process";
  FakeGpu& fake = FakeGpu::instance();
  const std::size_t bytes = part * sizeof(int);
  const IntsOf shown(mapped, counting(part, 1000 * rank()));
  auto exported = fake.export_to(right(), shown.data(), bytes);
  ASSERT_TRUE(std::holds_alternative<memory::DeviceExport>(exported));
  memory::DevicePiece piece = std::get<memory::DeviceExport>(exported).front();
  memory::DevicePiece theirs;
  PMPI_Sendrecv(&piece, sizeof piece, MPI_BYTE, right(), 0, &theirs, sizeof theirs, MPI_BYTE, left(), 0, harness_comm(),
                MPI_STATUS_IGNORE);
  auto imported = fake.import(left(), {theirs}, mapped, memory::Closing::all);
  ASSERT_TRUE(std::holds_alternative<std::shared_ptr<std::byte>>(imported));
  const auto memory = std::get<std::shared_ptr<std::byte>>(imported);

  IntsOf in(mapped, Ints(static_cast<std::size_t>(part * ranks()), -1));
  expect_staged_since(memory.get());
  ASSERT_OK(MPI_Sendrecv(memory.get(), part, MPI_INT, right(), 1, in.data(), part, MPI_INT, left(), 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
  const int of_two_left = 1000 * ((left() + ranks() - 1) % ranks());
  Ints got = in.get();
  got.resize(part);
  EXPECT_EQ(got, counting(part, of_two_left));
  harness_barrier();
  ASSERT_OK(MPI_Allgather(memory.get(), part, MPI_INT, in.data(), part, MPI_INT, MPI_COMM_WORLD));
  Ints expected;
  for (int peer = 0; peer < ranks(); ++peer) {
    const Ints each = counting(part, 1000 * ((peer + ranks() - 1) % ranks()));
    expected.insert(expected.end(), each.begin(), each.end());
  }
  EXPECT_EQ(in.get(), expected);
  harness_barrier();
  ASSERT_OK(MPI_Bcast(memory.get(), part, MPI_INT, 0, MPI_COMM_WORLD));
  harness_barrier();
  EXPECT_EQ(shown.get(), counting(part, 1000 * (ranks() - 1))) << "what the root has mapped is the last one's";
  harness_barrier();
}

/// What the program has freed while a request has it.
class Freed : public testing::Test {
 protected:
  static constexpr int count = 1000;
  IntsOf out{mapped, counting(count, rank())};
  IntsOf in{mapped, Ints(count, -1)};
  ErrorsReturn errors_return{MPI_COMM_WORLD};

  static void expect_gone(int code, const char* call) {
    EXPECT_ERROR(code, MPI_ERR_BUFFER, call, gpu_text(mapped), "was it freed");
  }
  /// The message of `begin_send(request)` comes when the memory of its receive is gone.
  void expect_gone_receive(const std::function<int(MPI_Request*)>& begin_send) {
    MPI_Request receive = MPI_REQUEST_NULL;
    ASSERT_OK(MPI_Irecv(in.data(), count, MPI_INT, left(), 1, MPI_COMM_WORLD, &receive));
    in.free();
    harness_barrier();
    MPI_Request send = MPI_REQUEST_NULL;
    ASSERT_OK(begin_send(&send));
    expect_gone(MPI_Wait(&receive, MPI_STATUS_IGNORE), "MPI_Wait");
    ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    harness_barrier();
  }
};

TEST_F(Freed, memory_of_a_persistent_send_is_an_error_of_its_start) {
  MPI_Request send = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Send_init(out.data(), count, MPI_INT, right(), 1, MPI_COMM_WORLD, &send));
  out.free();
  expect_gone(MPI_Start(&send), "MPI_Start");
  EXPECT_OK(MPI_Request_free(&send));
}

TEST_F(Freed, memory_of_a_receive_is_an_error_of_its_completion) {
  const Ints sent = counting(count, rank());
  expect_gone_receive(
      [&](MPI_Request* send) { return MPI_Isend(sent.data(), count, MPI_INT, right(), 1, MPI_COMM_WORLD, send); });
}

/// The sender, which may have offered its memory, goes on.
TEST_F(Freed, memory_of_a_receive_is_an_error_where_a_gpu_sends_too) {
  expect_gone_receive(
      [&](MPI_Request* send) { return MPI_Issend(out.data(), count, MPI_INT, right(), 1, MPI_COMM_WORLD, send); });
}

TEST_F(Freed, memory_of_a_nonblocking_collective_is_an_error_of_its_completion) {
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Iallreduce(out.data(), in.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
  in.free();
  expect_gone(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  harness_barrier();
}

#if MPI_VERSION >= 4
TEST_F(Freed, memory_of_a_persistent_collective_is_an_error_of_its_start) {
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(
      MPI_Allreduce_init(out.data(), in.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  out.free();
  expect_gone(MPI_Start(&request), "MPI_Start");
  EXPECT_OK(MPI_Request_free(&request));
}
#endif

}  // namespace
}  // namespace partita::test
