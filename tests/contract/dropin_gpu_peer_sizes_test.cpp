// From which size on each collective of the MPI's on GPU memory goes by peer memory, by PARTITA_PEER_COLLECTIVES: a
// byte below, at it and above, as far as blocks of all ranks allow. On the fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "capi/gpu_aware.hpp"
#include "contract/gpu_aware_job.hpp"
#include "contract/peer_ways.hpp"
#include "two_sided/peer_sizes.hpp"

namespace partita::test {
namespace {

using Bytes = std::vector<unsigned char>;
using Counts = std::vector<int>;

const MPI_Datatype byte = MPI_UNSIGNED_CHAR;
const MPI_Comm world = MPI_COMM_WORLD;

/// `size_bytes` for all ranks together, of which the first has what the others cannot share evenly.
Counts shares_of(int size_bytes) {
  Counts counts(at(ranks()), size_bytes / ranks());
  counts.front() += size_bytes % ranks();
  return counts;
}
Counts places_of(const Counts& counts) {
  Counts places(counts.size());
  for (std::size_t peer = 1; peer < counts.size(); ++peer) places[peer] = places[peer - 1] + counts[peer - 1];
  return places;
}

/// A call whose larger buffer on some rank has so many bytes; no buffer has more.
using Call = void (*)(const unsigned char* in, unsigned char* out, int size_bytes);

void bcast(const unsigned char* in, unsigned char* out, int size_bytes) {
  EXPECT_OK(MPI_Bcast(rank() == 0 ? const_cast<unsigned char*>(in) : out, size_bytes, byte, 0, world));
}
void gather(const unsigned char* in, unsigned char* out, int size_bytes) {
  const int block = size_bytes / ranks();
  EXPECT_OK(MPI_Gather(in, block, byte, out, block, byte, 0, world));
}
void gatherv(const unsigned char* in, unsigned char* out, int size_bytes) {
  const Counts counts = shares_of(size_bytes);
  const Counts places = places_of(counts);
  EXPECT_OK(MPI_Gatherv(in, counts[at(rank())], byte, out, counts.data(), places.data(), byte, 0, world));
}
void scatter(const unsigned char* in, unsigned char* out, int size_bytes) {
  const int block = size_bytes / ranks();
  EXPECT_OK(MPI_Scatter(in, block, byte, out, block, byte, 0, world));
}
void scatterv(const unsigned char* in, unsigned char* out, int size_bytes) {
  const Counts counts = shares_of(size_bytes);
  const Counts places = places_of(counts);
  EXPECT_OK(MPI_Scatterv(in, counts.data(), places.data(), byte, out, counts[at(rank())], byte, 0, world));
}
void allgather(const unsigned char* in, unsigned char* out, int size_bytes) {
  const int block = size_bytes / ranks();
  EXPECT_OK(MPI_Allgather(in, block, byte, out, block, byte, world));
}
void allgatherv(const unsigned char* in, unsigned char* out, int size_bytes) {
  const Counts counts = shares_of(size_bytes);
  const Counts places = places_of(counts);
  EXPECT_OK(MPI_Allgatherv(in, counts[at(rank())], byte, out, counts.data(), places.data(), byte, world));
}
void alltoall(const unsigned char* in, unsigned char* out, int size_bytes) {
  const int block = size_bytes / ranks();
  EXPECT_OK(MPI_Alltoall(in, block, byte, out, block, byte, world));
}
/// The first rank sends all it has, and gets less.
void alltoallv(const unsigned char* in, unsigned char* out, int size_bytes) {
  const Counts of_first = shares_of(size_bytes);
  Counts sent = rank() == 0 ? of_first : Counts(at(ranks()), 1);
  Counts received(at(ranks()), 1);
  received.front() = of_first[at(rank())];
  const Counts sent_places = places_of(sent);
  const Counts received_places = places_of(received);
  EXPECT_OK(MPI_Alltoallv(in, sent.data(), sent_places.data(), byte, out, received.data(), received_places.data(), byte,
                          world));
}
void reduce(const unsigned char* in, unsigned char* out, int size_bytes) {
  EXPECT_OK(MPI_Reduce(in, out, size_bytes, byte, MPI_SUM, 0, world));
}
void allreduce(const unsigned char* in, unsigned char* out, int size_bytes) {
  EXPECT_OK(MPI_Allreduce(in, out, size_bytes, byte, MPI_SUM, world));
}
void reduce_scatter(const unsigned char* in, unsigned char* out, int size_bytes) {
  EXPECT_OK(MPI_Reduce_scatter(in, out, shares_of(size_bytes).data(), byte, MPI_SUM, world));
}
void reduce_scatter_block(const unsigned char* in, unsigned char* out, int size_bytes) {
  EXPECT_OK(MPI_Reduce_scatter_block(in, out, size_bytes / ranks(), byte, MPI_SUM, world));
}

struct Case {
  PeerCollective collective;
  Call call;
  bool is_in_blocks;  ///< of one size for all ranks
};
constexpr Case cases[] = {
    {PeerCollective::Bcast, bcast, false},
    {PeerCollective::Gather, gather, true},
    {PeerCollective::Gatherv, gatherv, false},
    {PeerCollective::Scatter, scatter, true},
    {PeerCollective::Scatterv, scatterv, false},
    {PeerCollective::Allgather, allgather, true},
    {PeerCollective::Allgatherv, allgatherv, false},
    {PeerCollective::Alltoall, alltoall, true},
    {PeerCollective::Alltoallv, alltoallv, false},
    {PeerCollective::Reduce, reduce, false},
    {PeerCollective::Allreduce, allreduce, false},
    {PeerCollective::Reduce_scatter, reduce_scatter, false},
    {PeerCollective::Reduce_scatter_block, reduce_scatter_block, true},
};

/// The value of the setting; "auto" where the job has none.
std::string setting() {
  const char* const value = std::getenv("PARTITA_PEER_COLLECTIVES");
  return value == nullptr ? "auto" : value;
}

class PeerSizesOfCollectives : public testing::TestWithParam<Case> {
 protected:
  /// What it gives on buffers of GPU memory, that way, as it does on host memory.
  static void expect(Way way, int size_bytes) {
    SCOPED_TRACE(std::to_string(size_bytes) + " bytes");
    Bytes own(at(size_bytes));
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<unsigned char>((7 * i + 31 * at(rank())) % 60);
    Bytes expected(own.size(), 0xee);
    GetParam().call(own.data(), expected.data(), size_bytes);
    const FakeGpuBuffer in(mapped, own.size());
    const FakeGpuBuffer out(mapped, own.size());
    std::ranges::copy(own, reinterpret_cast<unsigned char*>(in.data()));
    std::ranges::fill_n(reinterpret_cast<unsigned char*>(out.data()), size_bytes, 0xee);
    expect_way(way, [&] {
      GetParam().call(reinterpret_cast<const unsigned char*>(in.data()), reinterpret_cast<unsigned char*>(out.data()),
                      size_bytes);
    });
    EXPECT_TRUE(std::ranges::equal(expected, Bytes(reinterpret_cast<const unsigned char*>(out.data()),
                                                   reinterpret_cast<const unsigned char*>(out.data()) + size_bytes)));
  }
};

TEST_P(PeerSizesOfCollectives, begin_where_the_setting_says) {
  if (is_off()) GTEST_SKIP() << "the fake GPU's memory is the MPI's";
  const auto& line = measured_peer_sizes()[static_cast<std::size_t>(GetParam().collective)];
  std::int64_t from_bytes = line.bytes;  // no job of tests has more ranks than were measured
  if (setting() == "off") from_bytes = -1;
  if (setting() != "off" && setting() != "auto") from_bytes = std::stoll(setting());
  const char* why = "";
  EXPECT_EQ(Partita_Peers_from_bytes(GetParam().collective, ranks(), &why), from_bytes);
  if (setting() == "off") {
    EXPECT_STREQ(why, "a rank has PARTITA_PEER_COLLECTIVES off");
    return expect(Way::host, 1 << 20);
  }
  EXPECT_STREQ(why, "");
  const int step = GetParam().is_in_blocks ? ranks() : 1;
  const int below = static_cast<int>((from_bytes - 1) / step * step);
  expect(Way::host, below);
  expect(Way::peers, below + step);
  expect(Way::peers, below + 2 * step);
  expect(Way::host, ranks());
}

TEST(PeerSizesOfTheMpi, are_none) {
  if (!is_off()) GTEST_SKIP() << "Partita takes GPU memory";
  const char* why = "";
  for (const Case& each : cases) EXPECT_EQ(Partita_Peers_from_bytes(each.collective, ranks(), &why), -1);
  EXPECT_STREQ(why, "Partita takes no GPU memory in MPI's own calls");
}

INSTANTIATE_TEST_SUITE_P(All, PeerSizesOfCollectives, testing::ValuesIn(cases), [](const auto& info) {
  return std::string(measured_peer_sizes()[static_cast<std::size_t>(info.param.collective)].name);
});

}  // namespace
}  // namespace partita::test
