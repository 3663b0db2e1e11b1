// The MPI's blocking collectives by peer memory: which go so, that they move what the MPI moves and touch nothing else,
// and that all ranks take the same way whatever each of them has. On the fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contract/peer_ways.hpp"
#include "core/which_mpi.hpp"
#include "dropin/native.hpp"
#include "support/placed_ints.hpp"
#include "two_sided/peer_mappings.hpp"

namespace partita::test {
namespace {

/// Counts and places of blocks in a buffer, an entry a rank, with holes between them and at both ends.
struct Blocks {
  Ints counts;
  Ints places;
  int size = 0;

  /// In an order of its own where `order` is given.
  Blocks(Ints block_counts, std::mt19937& random) : counts(std::move(block_counts)), places(counts.size()) {
    Ints order(counts.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (const int block : order) {
      size += static_cast<int>(random() % 5);
      places[at(block)] = size;
      size += counts[at(block)];
    }
    size += 3;
  }

  /// The buffer that has value(from(rank), to(rank), i) in the blocks of `ranks`, and nothing else.
  Ints filled(const std::function<int(int rank, int i)>& content) const {
    Ints all(at(size), untouched);
    for (int block = 0; block < static_cast<int>(counts.size()); ++block) {
      for (int i = 0; i < counts[at(block)]; ++i) all[at(places[at(block)] + i)] = content(block, i);
    }
    return all;
  }
};

/// Each rank has its number in `in`, and gets all of them.
void expect_allgather(Way way, PlacedInts& in, PlacedInts& out) {
  out.set(Ints(at(plenty * ranks()), untouched));
  expect_way(
      way, [&] { EXPECT_OK(MPI_Allgather(in.data(), plenty, MPI_INT, out.data(), plenty, MPI_INT, MPI_COMM_WORLD)); });
  Ints expected;
  for (int peer = 0; peer < ranks(); ++peer) expected.insert(expected.end(), plenty, peer);
  EXPECT_EQ(out.get(), expected);
}

TEST(DropinGpuPeers, alltoall) {
  Ints in;
  Ints expected;
  for (int peer = 0; peer < ranks(); ++peer) {
    for (int i = 0; i < plenty; ++i) {
      in.push_back(value(rank(), peer, i));
      expected.push_back(value(peer, rank(), i));
    }
  }
  PlacedInts from(Memory::gpu, in);
  PlacedInts to(Memory::gpu, Ints(in.size(), untouched));
  expect_way(Way::peers, [&] {
    EXPECT_OK(MPI_Alltoall(from.data(), plenty, MPI_INT, to.data(), plenty, MPI_INT, MPI_COMM_WORLD));
  });
  EXPECT_EQ(to.get(), expected);
  EXPECT_EQ(from.get(), in);
  expect_way(Way::peers, [&] {
    EXPECT_OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, from.data(), plenty, MPI_INT, MPI_COMM_WORLD));
  });
  EXPECT_EQ(from.get(), expected);
}

/// A message around the ring, by requests that end with it.
void exchange_by_requests(PlacedInts& from, PlacedInts& to) {
  const std::size_t before = FakeGpu::instance().allocations();
  Partita_Request requests[2];
  ASSERT_OK(
      Partita_Psend_init(from.data(), 1, plenty, MPI_INT, right(), 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
  ASSERT_OK(Partita_Precv_init(to.data(), 1, plenty, MPI_INT, left(), 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  ASSERT_OK(Partita_Startall(2, requests));
  ASSERT_OK(Partita_Pready(0, requests[0]));
  ASSERT_OK(Partita_Waitall(2, requests, MPI_STATUSES_IGNORE));
  EXPECT_EQ(to.get().front(), left());
  for (Partita_Request& request : requests) EXPECT_OK(Partita_Request_free(&request));
  // What they had of the GPU goes once the neighbours have freed theirs, too.
  for (int looks = 0; FakeGpu::instance().allocations() > before && looks < 5000; ++looks) {
    int pending = 0;
    EXPECT_OK(Partita_Progress(&pending));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Mappings of calls that have ended are kept for the next ones, but not where one is in the way of a request's.
TEST(DropinGpuPeers, keep_no_place_from_a_request) {
  PlacedInts from(Memory::gpu, Ints(at(plenty * ranks()), rank()));
  PlacedInts to(Memory::gpu, Ints(at(plenty * ranks()), untouched));
  expect_way(Way::peers, [&] {
    EXPECT_OK(MPI_Alltoall(from.data(), plenty, MPI_INT, to.data(), plenty, MPI_INT, MPI_COMM_WORLD));
  });
  FakeGpu::instance().tell_places_apart(true);
  FakeGpu::instance().replace(reinterpret_cast<const std::byte*>(to.data()));
  exchange_by_requests(from, to);
  FakeGpu::instance().tell_places_apart(false);
}

/// What is swapped in several pieces, and the last is a small one.
TEST(DropinGpuPeers, alltoall_in_place_of_large_blocks) {
  constexpr int large = 2 * (1 << 18) + 5;
  Ints in;
  Ints expected;
  for (int peer = 0; peer < ranks(); ++peer) {
    for (int i = 0; i < large; ++i) {
      in.push_back(value(rank(), peer, i));
      expected.push_back(value(peer, rank(), i));
    }
  }
  PlacedInts buffer(Memory::gpu, in);
  expect_way(Way::peers, [&] {
    EXPECT_OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer.data(), large, MPI_INT, MPI_COMM_WORLD));
  });
  EXPECT_TRUE(buffer.get() == expected);
}

TEST(DropinGpuPeers, bcast_from_every_root) {
  for (int root = 0; root < ranks(); ++root) {
    PlacedInts buffer(Memory::gpu, rank() == root ? counting(plenty, root) : Ints(plenty, untouched));
    expect_way(Way::peers, [&] { EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, root, MPI_COMM_WORLD)); });
    EXPECT_EQ(buffer.get(), counting(plenty, root));
  }
}

/// Blocks that follow one another, in place and not.
TEST(DropinGpuPeers, gather_scatter_allgather) {
  Ints all;
  for (int peer = 0; peer < ranks(); ++peer) {
    for (int i = 0; i < plenty; ++i) all.push_back(value(peer, 0, i));
  }
  const auto* const own_begin = all.data() + rank() * plenty;
  const Ints own(own_begin, own_begin + plenty);
  Ints only_own(all.size(), untouched);
  std::ranges::copy(own, only_own.begin() + rank() * plenty);
  for (const bool in_place : {false, true}) {
    const int root = ranks() - 1;
    const bool is_root = rank() == root;
    PlacedInts one(Memory::gpu, own);
    PlacedInts gathered(Memory::gpu, in_place ? only_own : Ints(all.size(), untouched));
    const void* const in = in_place ? MPI_IN_PLACE : one.data();
    expect_way(Way::peers, [&] {
      EXPECT_OK(MPI_Allgather(in, plenty, MPI_INT, gathered.data(), plenty, MPI_INT, MPI_COMM_WORLD));
    });
    EXPECT_EQ(gathered.get(), all);

    gathered.set(in_place ? only_own : Ints(all.size(), untouched));
    const Ints before = gathered.get();
    expect_way(Way::peers, [&] {
      EXPECT_OK(MPI_Gather(is_root ? in : one.data(), plenty, MPI_INT, gathered.data(), plenty, MPI_INT, root,
                           MPI_COMM_WORLD));
    });
    EXPECT_EQ(gathered.get(), is_root ? all : before);

    PlacedInts whole(Memory::gpu, is_root ? all : Ints(all.size(), untouched));
    one.set(Ints(plenty, untouched));
    void* const out = in_place && is_root ? MPI_IN_PLACE : one.data();
    expect_way(Way::peers, [&] {
      EXPECT_OK(MPI_Scatter(whole.data(), plenty, MPI_INT, out, plenty, MPI_INT, root, MPI_COMM_WORLD));
    });
    EXPECT_EQ(one.get(), in_place && is_root ? Ints(plenty, untouched) : own);
  }
}

/// Any counts, some of them 0, and any places: what lies between the blocks stays as it is.
TEST(DropinGpuPeers, calls_with_a_count_a_rank) {
  std::mt19937 random = common_random();
  for (int round = 0; round < 10; ++round) {
    std::vector<Ints> counts(at(ranks()), Ints(at(ranks())));
    for (Ints& row : counts) {
      for (int& count : row) count = random() % 4 == 0 ? 0 : 300 + static_cast<int>(random() % 500);
    }
    counts[at(round % ranks())][at((round + 1) % ranks())] = 400;  // some data, on some rank
    std::mt19937 own_random(static_cast<unsigned>(round * 1000 + rank()));
    Ints to_me;
    for (const Ints& row : counts) to_me.push_back(row[at(rank())]);
    const Blocks sent(counts[at(rank())], own_random);
    const Blocks received(to_me, own_random);

    PlacedInts in(Memory::gpu, sent.filled([](int peer, int i) { return value(rank(), peer, i); }));
    PlacedInts out(Memory::gpu, Ints(at(received.size), untouched));
    expect_way(Way::peers, [&] {
      EXPECT_OK(MPI_Alltoallv(in.data(), sent.counts.data(), sent.places.data(), MPI_INT, out.data(),
                              received.counts.data(), received.places.data(), MPI_INT, MPI_COMM_WORLD));
    });
    EXPECT_EQ(out.get(), received.filled([](int peer, int i) { return value(peer, rank(), i); }));

    const int root = round % ranks();
    const Blocks of_all(counts[at(root)], random);
    const int own_count = of_all.counts[at(rank())];
    const auto content = [](int peer, int i) { return value(peer, 0, i); };
    Ints own(at(own_count));
    for (int i = 0; i < own_count; ++i) own[at(i)] = content(rank(), i);
    PlacedInts one(Memory::gpu, own.empty() ? Ints{untouched} : own);
    PlacedInts all(Memory::gpu, Ints(at(of_all.size), untouched));
    expect_way(Way::peers, [&] {
      EXPECT_OK(MPI_Allgatherv(one.data(), own_count, MPI_INT, all.data(), of_all.counts.data(), of_all.places.data(),
                               MPI_INT, MPI_COMM_WORLD));
    });
    EXPECT_EQ(all.get(), of_all.filled(content));

    all.set(Ints(at(of_all.size), untouched));
    const bool is_root = rank() == root;
    expect_way(Way::peers, [&] {
      EXPECT_OK(MPI_Gatherv(one.data(), own_count, MPI_INT, is_root ? all.data() : nullptr,
                            is_root ? of_all.counts.data() : nullptr, is_root ? of_all.places.data() : nullptr, MPI_INT,
                            root, MPI_COMM_WORLD));
    });
    EXPECT_EQ(all.get(), is_root ? of_all.filled(content) : Ints(at(of_all.size), untouched));

    one.set(Ints(std::max<std::size_t>(own.size(), 1), untouched));
    expect_way(Way::peers, [&] {
      EXPECT_OK(MPI_Scatterv(is_root ? all.data() : nullptr, is_root ? of_all.counts.data() : nullptr,
                             is_root ? of_all.places.data() : nullptr, MPI_INT, one.data(), own_count, MPI_INT, root,
                             MPI_COMM_WORLD));
    });
    EXPECT_EQ(one.get(), own.empty() ? Ints{untouched} : own);
  }
}

/// Any two ranks send each other as much as they receive.
TEST(DropinGpuPeers, alltoallv_in_place) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  std::mt19937 random = common_random();
  std::vector<Ints> counts(at(ranks()), Ints(at(ranks())));
  for (int one = 0; one < ranks(); ++one) {
    for (int other = 0; other <= one; ++other)
      counts[at(one)][at(other)] = counts[at(other)][at(one)] = 300 + static_cast<int>(random() % 500);
  }
  std::mt19937 own_random(static_cast<unsigned>(rank()));
  const Blocks blocks(counts[at(rank())], own_random);
  PlacedInts buffer(Memory::gpu, blocks.filled([](int peer, int i) { return value(rank(), peer, i); }));
  expect_way(Way::peers, [&] {
    EXPECT_OK(MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_DATATYPE_NULL, buffer.data(), blocks.counts.data(),
                            blocks.places.data(), MPI_INT, MPI_COMM_WORLD));
  });
  EXPECT_EQ(buffer.get(), blocks.filled([](int peer, int i) { return value(peer, rank(), i); }));
}

TEST(DropinGpuPeers, small_calls_go_through_host_memory) {
  PlacedInts buffer(Memory::gpu, Ints(10, rank()));
  expect_way(Way::host, [&] { EXPECT_OK(MPI_Bcast(buffer.data(), 10, MPI_INT, 0, MPI_COMM_WORLD)); });
  EXPECT_EQ(buffer.get(), Ints(10, 0));
  const Ints ones(at(ranks()), 1);
  const Ints places = counting(ranks(), 0);
  PlacedInts in(Memory::gpu, Ints(at(ranks()), rank()));
  PlacedInts out(Memory::gpu, Ints(at(ranks()), untouched));
  expect_way(Way::host, [&] {
    EXPECT_OK(MPI_Alltoallv(in.data(), ones.data(), places.data(), MPI_INT, out.data(), ones.data(), places.data(),
                            MPI_INT, MPI_COMM_WORLD));
  });
  EXPECT_EQ(out.get(), places);
}

/// A gap on one rank is a reason for all of them.
TEST(DropinGpuPeers, datatypes_with_gaps_go_through_host_memory) {
  MPI_Datatype gapped = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped));
  ASSERT_OK(MPI_Type_commit(&gapped));
  const bool has_gaps = rank() == ranks() - 1;
  const int spread = has_gaps ? 2 : 1;
  PlacedInts buffer(Memory::gpu, Ints(at(plenty * spread), rank() == 0 ? 5 : untouched));
  const auto broadcast = [&] {
    EXPECT_OK(MPI_Bcast(buffer.data(), plenty, has_gaps ? gapped : MPI_INT, 0, MPI_COMM_WORLD));
  };
  if (has_gaps) {
    broadcast();  // kernels pack, and count as no copies
  } else {
    expect_way(Way::host, broadcast);
  }
  Ints expected(at(plenty * spread), 5);
  for (int i = 1; has_gaps && rank() != 0 && i < plenty * spread; i += 2) expected[at(i)] = untouched;
  EXPECT_EQ(buffer.get(), expected);
  ASSERT_OK(MPI_Type_free(&gapped));
}

/// One without gaps need not be predefined.
TEST(DropinGpuPeers, datatypes_without_gaps_go_by_peers) {
  MPI_Datatype ten = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_contiguous(10, MPI_INT, &ten));
  ASSERT_OK(MPI_Type_commit(&ten));
  PlacedInts buffer(Memory::gpu, rank() == 0 ? counting(plenty, 0) : Ints(plenty, untouched));
  expect_way(Way::peers, [&] {
    EXPECT_OK(
        MPI_Bcast(buffer.data(), rank() == 0 ? plenty : plenty / 10, rank() == 0 ? MPI_INT : ten, 0, MPI_COMM_WORLD));
  });
  EXPECT_EQ(buffer.get(), counting(plenty, 0));
  ASSERT_OK(MPI_Type_free(&ten));
}

/// Which ranks have host memory changes from call to call, and each call has one way on all of them.
TEST(DropinGpuPeers, a_rank_with_host_memory_decides_for_all) {
  for (int call = 0; call < 20; ++call) {
    const bool one_is_on_host = call % 3 != 0;
    const Memory memory = one_is_on_host && rank() == call % ranks() ? Memory::host : Memory::gpu;
    PlacedInts in(memory, Ints(at(plenty * ranks()), 100 * rank() + call));
    PlacedInts out(memory, Ints(at(plenty * ranks()), untouched));
    const auto alltoall = [&] {
      EXPECT_OK(MPI_Alltoall(in.data(), plenty, MPI_INT, out.data(), plenty, MPI_INT, MPI_COMM_WORLD));
    };
    if (memory == Memory::host) {
      alltoall();
    } else {
      expect_way(one_is_on_host ? Way::host : Way::peers, alltoall);
    }
    Ints expected;
    for (int peer = 0; peer < ranks(); ++peer) expected.insert(expected.end(), plenty, 100 * peer + call);
    EXPECT_EQ(out.get(), expected);
  }
}

/// Memory that nobody else can map, and a GPU that does not reach its peer's: in the agreement, and after it. That GPU
/// is one that other tests do not use, since who could not map several times tries no more.
TEST(DropinGpuPeers, memory_that_peers_do_not_reach_goes_through_host_memory) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  for (const Gpu gpu : {blocks_only, unreached_peer}) {
    for (int call = 0; call < 3; ++call) {
      const FakeGpuBuffer in(blocks_mapped, plenty);
      const FakeGpuBuffer out(rank() == 1 ? gpu : mapped, at(plenty * ranks()));
      std::memset(in.data(), 'a' + rank(), plenty);
      expect_way(Way::host, [&] {
        EXPECT_OK(MPI_Allgather(in.data(), plenty, MPI_BYTE, out.data(), plenty, MPI_BYTE, MPI_COMM_WORLD));
      });
      for (int peer = 0; peer < ranks(); ++peer) EXPECT_EQ(static_cast<char>(out.data()[peer * plenty]), 'a' + peer);
    }
  }
}

TEST(DropinGpuPeers, who_cannot_map_again_and_again_tries_no_more) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  const FakeGpuBuffer in(many_handles, plenty);  // of a GPU that no other test maps for
  const FakeGpuBuffer out(unreached_peer, at(plenty * ranks()));
  const std::uint64_t imports_before = FakeGpu::instance().imports();
  const std::uint64_t declined_before = FakeGpu::instance().declined();
  for (int call = 0; call < 10; ++call) {
    expect_way(Way::host, [&] {
      EXPECT_OK(MPI_Allgather(in.data(), plenty, MPI_BYTE, out.data(), plenty, MPI_BYTE, MPI_COMM_WORLD));
    });
  }
  const std::uint64_t tried = FakeGpu::instance().imports() - imports_before;
  EXPECT_LE(tried, 3U) << "once in a call";
  EXPECT_EQ(FakeGpu::instance().declined() - declined_before, tried * at(ranks() - 2)) << "what all others passed";
}

/// Nothing is passed that nobody would take.
TEST(DropinGpuPeers, memory_of_several_handles_goes_through_host_memory) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  const FakeGpuBuffer in(mapped, plenty);
  const FakeGpuBuffer out(rank() == 1 ? many_handles : mapped, at(plenty * ranks()));
  std::memset(in.data(), 'a' + rank(), plenty);
  const std::uint64_t before = FakeGpu::instance().exports();
  expect_way(Way::host, [&] {
    EXPECT_OK(MPI_Allgather(in.data(), plenty, MPI_BYTE, out.data(), plenty, MPI_BYTE, MPI_COMM_WORLD));
  });
  EXPECT_EQ(FakeGpu::instance().exports(), before);
  for (int peer = 0; peer < ranks(); ++peer) EXPECT_EQ(static_cast<char>(out.data()[peer * plenty]), 'a' + peer);
}

/// The driver would wait for kernels, which may wait for this process: a mapping in the way stays until a request needs
/// its place, also where communicators are freed, and meanwhile calls go through host memory.
TEST(DropinGpuPeers, no_call_closes_what_the_driver_waits_for) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  PlacedInts in(Memory::gpu, Ints(plenty, rank()));
  PlacedInts out(Memory::gpu, Ints(at(plenty * ranks()), untouched));
  expect_allgather(Way::peers, in, out);
  if (rank() == 1) FakeGpu::instance().occupy();
  FakeGpu::instance().take_trimmed();
  expect_allgather(Way::host, in, out);
  expect_allgather(Way::host, in, out);
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  PlacedInts buffer(Memory::gpu, Ints(plenty, rank()));
  EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm));
  ASSERT_OK(MPI_Comm_free(&comm));
  expect_allgather(Way::host, in, out);
  EXPECT_EQ(std::ranges::count(FakeGpu::instance().take_trimmed(), memory::Closing::all), 0);
  exchange_by_requests(in, out);
  expect_allgather(Way::peers, in, out);
}

/// What is mapped counts, whether or not its call was made; and what is mapped already takes no room.
TEST(DropinGpuPeers, a_rank_that_has_mapped_enough_maps_no_more) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  PlacedInts in(Memory::gpu, Ints(plenty, rank()));
  PlacedInts out(Memory::gpu, Ints(at(plenty * ranks()), untouched));
  PlacedInts others(Memory::gpu, Ints(at(plenty * ranks()), untouched));
  expect_allgather(Way::peers, in, out);
  // What the driver maps at least for each buffer, where this one is mapped already.
  if (rank() == 1) FakeGpu::instance().set_memory_bytes(PeerMappings::mapped_at_most_part * (std::uint64_t{2} << 20));
  for (int call = 0; call < 3; ++call) {
    expect_allgather(Way::host, in, others);
    expect_allgather(Way::peers, in, out);
  }
  FakeGpu::instance().set_memory_bytes(FakeGpu::all_memory_bytes);
  expect_allgather(Way::peers, in, others);
}

/// The first byte of the data says where memory is, and the address of the buffer nothing.
TEST(DropinGpuPeers, data_at_absolute_addresses_go_by_peers) {
  PlacedInts buffer(Memory::gpu, rank() == 0 ? counting(plenty, 0) : Ints(plenty, untouched));
  MPI_Aint address = 0;
  MPI_Datatype there = MPI_DATATYPE_NULL;
  const int count = plenty;
  ASSERT_OK(MPI_Get_address(buffer.data(), &address));
  ASSERT_OK(MPI_Type_create_hindexed(1, &count, &address, MPI_INT, &there));
  ASSERT_OK(MPI_Type_commit(&there));
  expect_way(Way::peers, [&] { EXPECT_OK(MPI_Bcast(MPI_BOTTOM, 1, there, 0, MPI_COMM_WORLD)); });
  EXPECT_EQ(buffer.get(), counting(plenty, 0));
  ASSERT_OK(MPI_Type_free(&there));
}

/// Host memory is no reason that would be worth telling, whatever its datatype: that is not looked at. PARTITA_VERBOSE
/// is 1 here.
TEST(DropinGpuPeers, of_host_memory_only_the_place_is_asked) {
  static bool is_told = false;
  if (std::exchange(is_told, true)) GTEST_SKIP() << "each reason is told once in a process";
  MPI_Datatype gapped = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped));
  ASSERT_OK(MPI_Type_commit(&gapped));
  for (const Memory memory : {Memory::host, Memory::gpu}) {
    PlacedInts in(memory, Ints(2 * at(plenty), rank()));
    PlacedInts out(memory, Ints(at(plenty * ranks()), untouched));
    testing::internal::CaptureStderr();
    EXPECT_OK(MPI_Allgather(in.data(), plenty, gapped, out.data(), plenty, MPI_INT, MPI_COMM_WORLD));
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_EQ(told.find("MPI_Allgather on GPU memory goes through host memory") != std::string::npos,
              memory == Memory::gpu)
        << told;
  }
  ASSERT_OK(MPI_Type_free(&gapped));
}

/// A rank on which the driver or the system fails before it has answered, for want of memory or descriptors: all ranks
/// go through host memory, and the next call does not.
TEST(DropinGpuPeers, what_fails_before_an_answer_sends_all_ranks_to_the_mpi) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  using Step = FakeGpu::Step;
  for (const Step step :
       {Step::place_of, Step::why_not_exported, Step::export_to, Step::import, Step::allocate_block}) {
    SCOPED_TRACE(static_cast<int>(step));
    // Where two ranks swap, the second one moves both ways, in what the first one shows.
    const int victim = step == Step::why_not_exported || step == Step::export_to ? 0 : 1;
    for (const Way way : {Way::host, Way::peers}) {
      Ints in;
      Ints expected;
      for (int peer = 0; peer < ranks(); ++peer) {
        in.insert(in.end(), plenty, value(rank(), peer, 0));
        expected.insert(expected.end(), plenty, value(peer, rank(), 0));
      }
      PlacedInts buffer(Memory::gpu, in);
      if (way == Way::host && rank() == victim) FakeGpu::instance().fail_next(step);
      expect_way(way, [&] {
        EXPECT_OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer.data(), plenty, MPI_INT, MPI_COMM_WORLD));
      });
      EXPECT_EQ(buffer.get(), expected);
      EXPECT_TRUE(FakeGpu::instance().has_failed());
    }
  }
}

/// Copies that were asked for before a stream failed may still come, and nothing tells when: what they need stays.
TEST(DropinGpuPeers, what_a_failing_gpu_may_still_use_stays) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  {
    const ErrorsReturn returned(comm);
    PlacedInts buffer(Memory::gpu, Ints(at(plenty * ranks()), rank()));
    const auto swap = [&] {
      return MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer.data(), plenty, MPI_INT, comm);
    };
    EXPECT_OK(swap());
    harness_barrier();
    const std::size_t before = FakeGpu::instance().allocations();
    const int victim = 1;  // moves both ways between it and the first rank
    if (rank() == victim) {
      FakeGpu::instance().hold_all(true);
      FakeGpu::instance().limit_copies(1);
      EXPECT_ERROR(swap(), MPI_ERR_OTHER, "takes no more copies");
    } else {
      EXPECT_ERROR(swap(), MPI_ERR_OTHER, "could not do its part");
    }
    EXPECT_EQ(FakeGpu::instance().allocations() - before, rank() == victim ? 1U : 0U);
    FakeGpu::instance().limit_copies(FakeGpu::no_limit);
    FakeGpu::instance().hold_all(false);
    harness_barrier();
    EXPECT_OK(swap());
    harness_barrier();
  }
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// Freed memory is taken again, for buffers of other sizes at other places.
TEST(DropinGpuPeers, buffers_come_and_go_between_calls) {
  for (int call = 0; call < 30; ++call) {
    const int count = 300 << (call * 7 % 5);
    auto in = std::make_unique<PlacedInts>(Memory::gpu, Ints(at(count), 100 * rank() + call));
    PlacedInts out(Memory::gpu, Ints(at(count * ranks()), untouched));
    expect_way(Way::peers, [&] {
      EXPECT_OK(MPI_Allgather(in->data(), count, MPI_INT, out.data(), count, MPI_INT, MPI_COMM_WORLD));
    });
    in.reset();
    Ints expected;
    for (int peer = 0; peer < ranks(); ++peer) expected.insert(expected.end(), at(count), 100 * peer + call);
    EXPECT_EQ(out.get(), expected);
  }
}

TEST(DropinGpuPeers, threads_have_a_communicator_each) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  constexpr int threads = 2;
  MPI_Comm comms[threads];
  for (MPI_Comm& comm : comms) ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      for (int call = 0; call < 30; ++call) {
        const int count = 300 + 100 * (call % 3) + thread;
        PlacedInts in(Memory::gpu, Ints(at(count), 1000 * thread + rank()));
        PlacedInts out(Memory::gpu, Ints(at(count * ranks()), untouched));
        EXPECT_OK(MPI_Allgather(in.data(), count, MPI_INT, out.data(), count, MPI_INT, comms[thread]));
        Ints expected;
        for (int peer = 0; peer < ranks(); ++peer) expected.insert(expected.end(), at(count), 1000 * thread + peer);
        EXPECT_EQ(out.get(), expected);
      }
    });
  }
  for (std::thread& each : running) each.join();
  for (MPI_Comm& comm : comms) ASSERT_OK(MPI_Comm_free(&comm));
}

/// Boards of freed communicators serve again, whose ranks have left them at different times.
TEST(DropinGpuPeers, communicators_come_and_go) {
  for (int each = 0; each < 50; ++each) {
    MPI_Comm comm = MPI_COMM_NULL;
    ASSERT_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, each % 2 == 0 ? rank() : -rank(), &comm));
    PlacedInts buffer(Memory::gpu, Ints(plenty, rank()));
    const int root = each % ranks();
    expect_way(Way::peers, [&] { EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, root, comm)); });
    EXPECT_EQ(buffer.get(), Ints(plenty, each % 2 == 0 ? root : ranks() - 1 - root));
    ASSERT_OK(MPI_Comm_free(&comm));
  }
}

/// Nobody has what a slow copy brings before that has landed.
TEST(DropinGpuPeers, end_with_the_last_copy) {
  PlacedInts buffer(Memory::gpu, rank() == 0 ? counting(plenty, 1) : Ints(plenty, untouched));
  std::thread late;
  if (rank() == 0) {
    const std::uint64_t before = FakeGpu::instance().operations();
    FakeGpu::instance().hold_all(true);
    late = std::thread([before] {
      while (ranks() > 1 && FakeGpu::instance().operations() == before) std::this_thread::yield();
      for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
      FakeGpu::instance().hold_all(false);
    });
  }
  EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, MPI_COMM_WORLD));
  EXPECT_EQ(buffer.get(), counting(plenty, 1));
  if (late.joinable()) late.join();
}

/// Who has made a mistake makes the call again, where the others wait in the MPI. Those that follow are the MPI's, too.
TEST(DropinGpuPeers, a_mistake_on_one_rank_is_the_mpis_to_find) {
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  {
    ErrorsReturn returned(comm);
    PlacedInts buffer(Memory::gpu, rank() == 0 ? counting(plenty, 0) : Ints(plenty, untouched));
    if (rank() == ranks() - 1) {
      if (ranks() > 1) {  // an MPI finds these where it has to move something
        MPI_Datatype uncommitted = MPI_DATATYPE_NULL;
        ASSERT_OK(MPI_Type_contiguous(plenty, MPI_INT, &uncommitted));
        EXPECT_EQ(class_of(MPI_Bcast(buffer.data(), 1, uncommitted, 0, comm)), MPI_ERR_TYPE);
        ASSERT_OK(MPI_Type_free(&uncommitted));
        if (built_for == MpiFamily::mpich) {
          EXPECT_EQ(class_of(MPI_Bcast(nullptr, plenty, MPI_INT, 0, comm)), MPI_ERR_BUFFER);
        }
      }
      EXPECT_EQ(class_of(MPI_Bcast(buffer.data(), plenty, MPI_INT, ranks(), comm)), MPI_ERR_ROOT);
      EXPECT_EQ(class_of(MPI_Bcast(buffer.data(), -1, MPI_INT, 0, comm)), MPI_ERR_COUNT);
      EXPECT_EQ(class_of(MPI_Bcast(buffer.data(), plenty, MPI_DATATYPE_NULL, 0, comm)), MPI_ERR_TYPE);
      EXPECT_EQ(class_of(MPI_Allreduce(MPI_IN_PLACE, buffer.data(), plenty, MPI_FLOAT, MPI_BAND, comm)), MPI_ERR_OP);
      EXPECT_EQ(class_of(MPI_Gatherv(buffer.data(), 1, MPI_INT, buffer.data(), nullptr, nullptr, MPI_INT, 99, comm)),
                MPI_ERR_ROOT);
    }
    expect_way(Way::host, [&] { EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm)); });
    EXPECT_EQ(buffer.get(), counting(plenty, 0));
    expect_way(Way::host, [&] { EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm)); });
    PlacedInts of_all(Memory::gpu, Ints(plenty, rank()));
    expect_way(Way::peers, [&] { EXPECT_OK(MPI_Bcast(of_all.data(), plenty, MPI_INT, 0, MPI_COMM_WORLD)); });
  }
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// An MPI whose broadcast takes part and then says, on this rank, that arguments are wrong; so does its twin, where a
/// wait makes progress.
class LateErrors {
 public:
  LateErrors() : native_(std::exchange(dropin::internal::native_calls, failing())) { the_mpi_ = &native_; }
  ~LateErrors() { dropin::internal::native_calls = native_; }
  LateErrors(const LateErrors&) = delete;
  LateErrors& operator=(const LateErrors&) = delete;

 private:
  static dropin::Native failing() {
    dropin::Native native = dropin::native();
    native.Bcast = [](void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
      EXPECT_OK(the_mpi_->Bcast(buffer, count, type, root, comm));
      return MPI_ERR_COUNT;
    };
    native.Ibcast = [](void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
      EXPECT_OK(the_mpi_->Ibcast(buffer, count, type, root, comm, request));
      EXPECT_OK(the_mpi_->Wait(request, MPI_STATUS_IGNORE));
      return MPI_ERR_COUNT;
    };
    return native;
  }

  static inline const dropin::Native* the_mpi_ = nullptr;
  const dropin::Native native_;
};

/// Nobody can tell by an error whether a rank has made its call: the ranks stay in step all the same.
TEST(DropinGpuPeers, an_error_behind_a_call_leaves_the_ranks_in_step) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  for (const int mistaken : {0, ranks() - 1}) {
    MPI_Comm comm = MPI_COMM_NULL;
    ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    const auto broadcast = [&](Memory memory, int content) {
      PlacedInts buffer(memory, rank() == 0 ? counting(plenty, content) : Ints(plenty, untouched));
      const int code = MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm);
      EXPECT_EQ(buffer.get(), counting(plenty, content));
      return code;
    };
    EXPECT_EQ(broadcast(Memory::gpu, 1), MPI_SUCCESS);
    if (rank() == mistaken) {
      const LateErrors late;
      EXPECT_NE(broadcast(Memory::host, 2), MPI_SUCCESS);
    } else {
      EXPECT_EQ(broadcast(Memory::gpu, 2), MPI_SUCCESS);
    }
    for (int call = 3; call < 10; ++call) EXPECT_EQ(broadcast(Memory::gpu, call), MPI_SUCCESS);
    ASSERT_OK(MPI_Comm_free(&comm));
  }
}

/// A handler of the program's that makes the call again, at once.
struct CallsAgain {
  static inline int* buffer = nullptr;
  static inline int called = 0;

  static void call_again(MPI_Comm* comm, int*, ...) {  // NOLINT(cert-dcl50-cpp): the MPI's form
    ++called;
    EXPECT_OK(MPI_Bcast(buffer, plenty, MPI_INT, 0, *comm));
  }
};

/// What it calls takes the place of the call that has failed.
TEST(DropinGpuPeers, a_collective_that_an_error_handler_makes_at_once_is_in_step) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  ASSERT_OK(MPI_Comm_create_errhandler(CallsAgain::call_again, &handler));
  for (const Memory memory : {Memory::gpu, Memory::host}) {
    MPI_Comm comm = MPI_COMM_NULL;
    ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    ASSERT_OK(MPI_Comm_set_errhandler(comm, handler));
    PlacedInts first(Memory::gpu, Ints(plenty, rank()));
    expect_way(Way::peers, [&] { EXPECT_OK(MPI_Bcast(first.data(), plenty, MPI_INT, 0, comm)); });
    PlacedInts buffer(memory, rank() == 0 ? counting(plenty, 1) : Ints(plenty, untouched));
    CallsAgain::buffer = buffer.data();
    CallsAgain::called = 0;
    const bool is_mistaken = rank() == ranks() - 1;
    if (is_mistaken) {  // what it returns is the MPI's to say, since the handler has returned
      MPI_Bcast(first.data(), plenty, MPI_INT, ranks(), comm);
    } else {
      EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm));
    }
    EXPECT_EQ(CallsAgain::called, is_mistaken ? 1 : 0);
    EXPECT_EQ(buffer.get(), counting(plenty, 1));
    for (int call = 2; call < 5; ++call) {
      buffer.set(rank() == 0 ? counting(plenty, call) : Ints(plenty, untouched));
      EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm));
      EXPECT_EQ(buffer.get(), counting(plenty, call));
    }
    ASSERT_OK(MPI_Comm_free(&comm));
  }
  ASSERT_OK(MPI_Errhandler_free(&handler));
}

/// A receiver that expects less than its peer sends gets what it gets on host memory: an error, where the MPI looks.
TEST(DropinGpuPeers, counts_that_differ_are_the_mpis_to_find) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  Ints counts(at(ranks()), plenty);
  counts.back() = plenty / 2;
  Ints places;
  for (int peer = 0; peer < ranks(); ++peer) places.push_back(peer * plenty);
  const auto gathered = [&](Memory memory) {
    MPI_Comm comm = MPI_COMM_NULL;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    int code = MPI_SUCCESS;
    {
      const ErrorsReturn returned(comm);
      PlacedInts in(memory, Ints(plenty, 1));
      PlacedInts out(memory, Ints(at(plenty * ranks()), untouched));
      code = MPI_Gatherv(in.data(), plenty, MPI_INT, out.data(), counts.data(), places.data(), MPI_INT, 0, comm);
      EXPECT_EQ(out.get().back(), untouched);
    }
    harness_barrier();
    EXPECT_OK(MPI_Comm_free(&comm));
    return class_of(code);
  };
  const int on_host = gathered(Memory::host);
  EXPECT_EQ(gathered(Memory::gpu), on_host);
}

/// A root that expects less than is worth it, by mistake: the other does not wait for it longer than the MPI does. In a
/// communicator of two, and with the root's own part in place, where MPIs end such a call.
TEST(DropinGpuPeers, ranks_that_disagree_about_the_size_meet_in_the_mpi) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  const bool is_in = rank() < 2;
  const auto gathered = [&](Memory memory) {
    MPI_Comm comm = MPI_COMM_NULL;
    EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, is_in ? 0 : MPI_UNDEFINED, 0, &comm));
    int code = MPI_SUCCESS;
    if (is_in) {
      const ErrorsReturn returned(comm);
      PlacedInts in(memory, Ints(plenty, 1));
      PlacedInts out(memory, Ints(2 * at(plenty), untouched));
      const void* const sent = rank() == 0 ? MPI_IN_PLACE : in.data();
      code = MPI_Gather(sent, plenty, MPI_INT, out.data(), 10, MPI_INT, 0, comm);
      EXPECT_EQ(out.get().back(), untouched);
    }
    harness_barrier();
    if (is_in) {
      PlacedInts buffer(Memory::gpu, rank() == 0 ? counting(plenty, 0) : Ints(plenty, untouched));
      EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm));
      EXPECT_EQ(buffer.get(), counting(plenty, 0));
      EXPECT_OK(MPI_Comm_free(&comm));
    }
    return class_of(code);
  };
  const int on_host = gathered(Memory::host);
  EXPECT_EQ(gathered(Memory::gpu), on_host);
}

/// Datatypes of one signature are no disagreement, whatever they are.
TEST(DropinGpuPeers, datatypes_of_one_signature_go_by_peers) {
  constexpr int pieces = 10;
  MPI_Datatype own = MPI_DATATYPE_NULL;
  const int piece = 300 * (rank() + 1);
  ASSERT_OK(MPI_Type_contiguous(piece, MPI_INT, &own));
  ASSERT_OK(MPI_Type_commit(&own));
  int count = 300 * pieces;
  for (int peer = 1; peer <= ranks(); ++peer) count = std::lcm(count, 300 * peer);
  PlacedInts in(Memory::gpu, counting(count, rank()));
  PlacedInts out(Memory::gpu, Ints(at(count * ranks()), untouched));
  expect_way(Way::peers, [&] {
    EXPECT_OK(MPI_Allgather(in.data(), count / piece, own, out.data(), count, MPI_INT, MPI_COMM_WORLD));
  });
  Ints expected;
  for (int peer = 0; peer < ranks(); ++peer) {
    const Ints theirs = counting(count, peer);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  EXPECT_EQ(out.get(), expected);
  ASSERT_OK(MPI_Type_free(&own));
}

/// PARTITA_TIMEOUT is 3 here. Who does not come is named, and the communicator stays given up.
TEST(DropinGpuPeersTimeout, names_the_rank_that_does_not_come) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  {
    ErrorsReturn returned(comm);
    PlacedInts buffer(Memory::gpu, Ints(plenty, rank()));
    EXPECT_OK(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm));
    if (rank() != 0) {
      harness_barrier();
      EXPECT_ERROR(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm), MPI_ERR_OTHER, "MPI_Bcast", "rank 0",
                   "given up");
    } else {
      EXPECT_ERROR(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm), MPI_ERR_OTHER, "MPI_Bcast",
                   "waits for rank 1 to enter it", "PARTITA_TIMEOUT");
      harness_barrier();
    }
  }
  harness_barrier();
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// Before there is a board, all ranks get an error, in that call and in those that follow: none goes to the MPI alone.
TEST(DropinGpuPeersTimeout, who_cannot_make_a_board_makes_no_collective) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  {
    ErrorsReturn returned(comm);
    PlacedInts buffer(Memory::host, Ints(plenty, rank()));
    const auto broadcast = [&] { return MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm); };
    if (rank() != 0) harness_barrier();
    EXPECT_ERROR(broadcast(), MPI_ERR_OTHER, "until all its ranks have made it", "PARTITA_TIMEOUT");
    if (rank() == 0) harness_barrier();
    EXPECT_ERROR(broadcast(), MPI_ERR_OTHER, "an earlier collective on the communicator has failed");
    harness_barrier();
    // The MPI still has what the others have begun, and would wait for it.
    std::uint64_t own[5]{};
    std::uint64_t all[5]{};
    if (rank() == 0) {
      MPI_Request request = MPI_REQUEST_NULL;
      ASSERT_OK(PMPI_Iallreduce(own, all, 5, MPI_UINT64_T, MPI_MAX, comm, &request));
      ASSERT_OK(PMPI_Wait(&request, MPI_STATUS_IGNORE));
    }
  }
  harness_barrier();
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// Neither does a GPU that does not come to its copies let anybody wait without a word.
TEST(DropinGpuPeersTimeout, names_the_gpu_that_does_not_copy) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  {
    ErrorsReturn returned(comm);
    PlacedInts buffer(Memory::gpu, rank() == 0 ? counting(plenty, 0) : Ints(plenty, untouched));
    if (rank() == 0) {
      FakeGpu::instance().hold_all(true);
      EXPECT_ERROR(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm), MPI_ERR_OTHER, "MPI_Bcast",
                   "of this rank to copy what it sends", "PARTITA_TIMEOUT");
    } else {
      EXPECT_ERROR(MPI_Bcast(buffer.data(), plenty, MPI_INT, 0, comm), MPI_ERR_OTHER, "MPI_Bcast", "rank 0");
    }
    harness_barrier();
    if (rank() == 0) FakeGpu::instance().hold_all(false);
    while (buffer.get() != counting(plenty, 0)) std::this_thread::yield();  // what was held comes late
    harness_barrier();
  }
  ASSERT_OK(MPI_Comm_free(&comm));
}

}  // namespace
}  // namespace partita::test
