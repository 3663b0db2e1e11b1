// The persistent collectives of both faces beside the MPI's own blocking ones of the same arguments.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <functional>
#include <utility>
#include <vector>

#include "support/job.hpp"

namespace partita::test {

/// An array as both the MPI, which takes int, and Partita, which takes Wide, want it.
template <class Wide>
class Numbers {
 public:
  void add(int number) {
    narrow_.push_back(number);
    wide_.push_back(number);
  }
  operator const int*() const { return narrow_.data(); }
  operator const Wide*() const { return wide_.data(); }

 private:
  std::vector<int> narrow_;
  std::vector<Wide> wide_;
};

/// Blocks of integers with a gap behind each.
struct Blocks {
  explicit Blocks(const std::vector<int>& sizes) {
    for (const int size : sizes) {
      counts.add(size);
      places.add(ints);
      byte_places.add(ints * static_cast<int>(sizeof(int)));
      ints += size + 1;
    }
  }

  Numbers<MPI_Count> counts;
  Numbers<MPI_Aint> places, byte_places;
  int ints = 0;
};

/// 0, n or 2 n in turn, from the `first`-th on.
inline std::vector<int> various(int n, int first) {
  std::vector<int> sizes;
  for (int block = 0; block < ranks(); ++block) sizes.push_back((first + block) % 3 * n);
  return sizes;
}

/// Every rank's left neighbour and itself send to it; its right one and itself hear from it.
class RingOfNeighbours {
 public:
  RingOfNeighbours() {
    const int left = (rank() + ranks() - 1) % ranks(), right = (rank() + 1) % ranks(), me = rank();
    const int sources[] = {left, me}, destinations[] = {right, me};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2, destinations, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &comm_);
  }
  ~RingOfNeighbours() { MPI_Comm_free(&comm_); }
  RingOfNeighbours(const RingOfNeighbours&) = delete;
  RingOfNeighbours& operator=(const RingOfNeighbours&) = delete;
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// The arguments of a collective but for its buffers.
struct Terms {
  int n;
  int root;
  MPI_Comm ring;
  MPI_Info info = MPI_INFO_NULL;
  int me = rank();
  int size = ranks();
  int own = various(n, 1)[static_cast<std::size_t>(me)];
  Blocks all = Blocks(various(n, 1));        ///< alike on all ranks; that of rank 0 is not empty
  Blocks crossing = Blocks(various(n, me));  ///< what i sends to j is as long as what j sends to i
  Blocks two = Blocks({2 * n, n});           ///< for the two neighbours
  Blocks same_two = Blocks({n, n});
  std::vector<MPI_Datatype> types = std::vector<MPI_Datatype>(static_cast<std::size_t>(size) + 2, MPI_INT);
};

/// Which ranks may give MPI_IN_PLACE.
enum class InPlace { none, all, sending_root, receiving_root };

template <class Request>
struct Made {
  InPlace in_place = InPlace::none;
  int sent = 0;      ///< integers
  int received = 0;  ///< likewise
  int result = -1;   ///< so many of them are defined in the end; -1: all
  bool has_one_buffer = false;
  std::function<int(const void* sendbuf, void* recvbuf, Request*)> init = {};
  std::function<int(const void* sendbuf, void* recvbuf)> reference = {};
};

/// `pass` gives either call the arguments that both have, and then the rest.
template <class Request, class Pass, class Init, class Reference>
Made<Request> made(Made<Request> shape, MPI_Info info, Pass pass, Init init, Reference reference) {
  shape.init = [=](const void* s, void* r, Request* request) { return pass(init, s, r, info, request); };
  shape.reference = [=](const void* s, void* r) { return pass(reference, s, r); };
  return shape;
}

template <class Request>
struct Collective {
  const char* name;
  Made<Request> (*make)(const Terms& t);
};

/// An entry for a line of persistent_collective_cases.inc, of the face that has REQUEST and the call INIT.
#define PERSISTENT_COLLECTIVE(REQUEST, NAME, INIT, SHAPE, ...)                                                         \
  {#NAME, [](const Terms& t) {                                                                                         \
     return made<REQUEST>(                                                                                             \
         Made<REQUEST>{PARTITEST_LIST SHAPE}, t.info,                                                                  \
         [=](auto call, [[maybe_unused]] const void* s, void* r, auto... rest) { return call(__VA_ARGS__, rest...); }, \
         INIT, PMPI_##NAME);                                                                                           \
   }}
#define PARTITEST_LIST(...) __VA_ARGS__

/// What the MPI's own does, epoch after epoch, before Partita's: it would keep the ranks together.
struct Epoch {
  std::vector<int> sent, before, expected;
};

template <class Request>
std::vector<Epoch> reference_epochs(const Made<Request>& made, bool sends_in_place, bool receives_in_place) {
  std::vector<Epoch> epochs;
  for (int number = 0; number < 4; ++number) {
    Epoch epoch;
    const auto fill = [&](std::vector<int>& with, int ints) {
      for (int i = 0; i <= ints; ++i) with.push_back(rank() * 1009 + i * 31 + number * 7);
    };
    fill(epoch.sent, made.sent);
    epoch.before.assign(static_cast<std::size_t>(made.received) + 1, -1);
    if (sends_in_place || made.has_one_buffer) {
      epoch.before.clear();
      fill(epoch.before, made.received);
    }
    epoch.expected = epoch.before;
    EXPECT_EQ(MPI_SUCCESS, made.reference(sends_in_place ? MPI_IN_PLACE : epoch.sent.data(),
                                          receives_in_place ? MPI_IN_PLACE : epoch.expected.data()));
    epochs.push_back(std::move(epoch));
  }
  return epochs;
}

struct Places {
  bool sends_in_place;
  bool receives_in_place;

  Places(InPlace in_place, int root)
      : sends_in_place(in_place == InPlace::all || (in_place == InPlace::sending_root && rank() == root)),
        receives_in_place(in_place == InPlace::receiving_root && rank() == root) {}
};

}  // namespace partita::test
