// partita::halo against what follows from the places of cells in the whole grid: gather and scatter in 2 and 3
// dimensions, periodic and not, on all divisions of the grid among the ranks; in host memory, or in GPU memory where
// that is wanted.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/halo.hpp>
#include <partita/partita.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/board.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/memory.hpp"
#include "support/thrown.hpp"

namespace partita::test {
namespace {

template <std::size_t Dims>
using Place = std::array<int, Dims>;

/// A grid of whole cells on ranks[0] x ranks[1] … ranks.
template <std::size_t Dims>
struct Grid {
  Place<Dims> cells, ranks, periodic;
  int width;

  std::string told() const {
    std::string text = "width " + std::to_string(width);
    for (std::size_t d = 0; d < Dims; ++d) {
      text += ", " + std::to_string(cells[d]) + (periodic[d] != 0 ? " periodic" : "") + " cells on " +
              std::to_string(ranks[d]);
    }
    return text;
  }
};

/// A rank's block of a grid. Blocks that come first have one cell more.
template <std::size_t Dims>
struct Block {
  halo_block<Dims> shape;
  Place<Dims> first{};

  Block(const Grid<Dims>& grid, int rank) {
    shape.width = grid.width;
    for (std::size_t d = Dims; d-- > 0; rank /= grid.ranks[d]) {
      const int at = rank % grid.ranks[d], each = grid.cells[d] / grid.ranks[d], more = grid.cells[d] % grid.ranks[d];
      shape.cells[d] = each + (at < more ? 1 : 0);
      first[d] = at * each + std::min(at, more);
    }
  }
  Place<Dims> sizes() const {
    Place<Dims> all{};
    for (std::size_t d = 0; d < Dims; ++d) all[d] = shape.cells[d] + 2 * shape.width;
    return all;
  }
  bool is_own(const Place<Dims>& local) const {
    for (std::size_t d = 0; d < Dims; ++d) {
      if (local[d] < shape.width || local[d] >= shape.width + shape.cells[d]) return false;
    }
    return true;
  }
  /// The cell of the whole grid that a local one stands for; whether there is one.
  bool in_grid(const Grid<Dims>& grid, const Place<Dims>& local, Place<Dims>& place) const {
    for (std::size_t d = 0; d < Dims; ++d) {
      place[d] = first[d] + local[d] - shape.width;
      if (grid.periodic[d] != 0) place[d] = (place[d] + grid.cells[d]) % grid.cells[d];
      if (place[d] < 0 || place[d] >= grid.cells[d]) return false;
    }
    return true;
  }
};

/// Calls each(place) for all places of a box, the last dimension fastest.
template <std::size_t Dims, class Each>
void for_each_place(const Place<Dims>& sizes, Each each) {
  int places = 1;
  for (const int size : sizes) places *= size;
  for (int i = 0; i < places; ++i) {
    Place<Dims> place{};
    int rest = i;
    for (std::size_t d = Dims; d-- > 0; rest /= sizes[d]) place[d] = rest % sizes[d];
    each(place);
  }
}

template <std::size_t Dims>
int number_of(const Place<Dims>& place) {
  int number = 0;
  for (std::size_t d = 0; d < Dims; ++d) number = number * 20 + place[d];
  return number;
}

/// Elements that the host sets and asks, and that lie in a GPU's memory where that is wanted.
template <class T>
class Elements {
 public:
  void resize(std::size_t count) {
    values_.resize(count);
    if (gpu_memory_is_wanted()) on_gpu_ = Bytes(Memory::gpu, static_cast<std::int64_t>(count * sizeof(T)));
  }
  T* address() { return is_on_gpu() ? at(0) : values_.data(); }
  T& operator[](std::size_t i) { return values_[i]; }
  const T& operator[](std::size_t i) const { return values_[i]; }

  /// From here to that memory, and back; without effect where there is none.
  void write(std::size_t first, std::size_t count) const {
    if (is_on_gpu()) gpu_copy(at(first), values_.data() + first, count * sizeof(T));
  }
  void write() const { write(0, values_.size()); }
  void read() {
    if (is_on_gpu()) gpu_copy(values_.data(), at(0), values_.size() * sizeof(T));
  }

 private:
  bool is_on_gpu() const { return on_gpu_.size_bytes() > 0; }
  T* at(std::size_t i) const { return reinterpret_cast<T*>(on_gpu_.address()) + i; }

  std::vector<T> values_;
  Bytes on_gpu_;
};

/// Three fields of different elements on a block; cells are set and asked by number.
template <std::size_t Dims>
class Fields {
 public:
  explicit Fields(const Block<Dims>& block) : strides_(block.shape.strides) {
    std::ptrdiff_t dense = 1, last = 0;
    for (std::size_t d = Dims; d-- > 0; dense *= block.sizes()[d]) {
      if (block.shape.strides == std::array<std::ptrdiff_t, Dims>{}) strides_[d] = dense;
      last += (block.sizes()[d] - 1) * strides_[d];
    }
    const auto cells = static_cast<std::size_t>(last) + 1;
    scalar_.resize(cells);
    vector_.resize(3 * cells);
    small_.resize(cells);
  }
  std::vector<halo_field> views() { return {scalar_.address(), {vector_.address(), 3}, small_.address()}; }

  /// What was set is there from here on; what is asked is what is there now.
  void write() const {
    scalar_.write();
    vector_.write();
    small_.write();
  }
  void write(const Place<Dims>& place) const {
    const std::size_t at = index(place);
    scalar_.write(at, 1);
    vector_.write(3 * at, 3);
    small_.write(at, 1);
  }
  void read() {
    scalar_.read();
    vector_.read();
    small_.read();
  }

  void set(const Place<Dims>& place, int number) {
    const std::size_t at = index(place);
    scalar_[at] = number + 0.5;
    for (std::size_t c = 0; c < 3; ++c) vector_[3 * at + c] = 10 * number + static_cast<int>(c);
    small_[at] = static_cast<unsigned char>(number % 251);
  }
  /// `times` cells with numbers that add up to `sum`, modulo 251 to `small_sum`.
  bool is(const Place<Dims>& place, int sum, int times = 1, int small_sum = -1) const {
    const std::size_t at = index(place);
    bool right = scalar_[at] == sum + 0.5 * times;
    for (std::size_t c = 0; c < 3; ++c) {
      right = right && vector_[3 * at + c] == 10 * sum + static_cast<int>(c) * times;
    }
    return right && small_[at] == static_cast<unsigned char>(small_sum < 0 ? sum % 251 : small_sum);
  }

 private:
  std::size_t index(const Place<Dims>& place) const {
    std::ptrdiff_t at = 0;
    for (std::size_t d = 0; d < Dims; ++d) at += place[d] * strides_[d];
    return static_cast<std::size_t>(at);
  }

  std::array<std::ptrdiff_t, Dims> strides_;
  Elements<double> scalar_;
  Elements<int> vector_;
  Elements<unsigned char> small_;
};

template <std::size_t Dims>
class Cartesian {
 public:
  explicit Cartesian(const Grid<Dims>& grid) {
    MPI_Cart_create(MPI_COMM_WORLD, static_cast<int>(Dims), grid.ranks.data(), grid.periodic.data(), 0, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~Cartesian() { MPI_Comm_free(&comm_); }
  Cartesian(const Cartesian&) = delete;
  Cartesian& operator=(const Cartesian&) = delete;
  communicator comm() const { return communicator(comm_); }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

constexpr int untouched = 77;

template <std::size_t Dims, class Exchange>
void expect_gathered(const Grid<Dims>& grid, const Block<Dims>& block, Fields<Dims>& fields, Exchange exchange) {
  for (int round = 0; round < 2; ++round) {
    for_each_place<Dims>(block.sizes(), [&](const Place<Dims>& local) {
      Place<Dims> place{};
      block.in_grid(grid, local, place);
      fields.set(local, block.is_own(local) ? number_of<Dims>(place) + round : untouched);
    });
    fields.write();
    exchange();
    fields.read();
    int wrong = 0;
    for_each_place<Dims>(block.sizes(), [&](const Place<Dims>& local) {
      Place<Dims> place{};
      const bool exists = block.in_grid(grid, local, place);
      wrong += fields.is(local, exists ? number_of<Dims>(place) + round : untouched) ? 0 : 1;
    });
    EXPECT_EQ(0, wrong) << grid.told() << ", round " << round;
  }
}

/// What a cell of a rank's block holds before it is scattered.
template <std::size_t Dims>
int scattered(int rank, const Place<Dims>& local) {
  return number_of<Dims>(local) + 3 * rank + 1;
}

template <std::size_t Dims>
void expect_scattered(const Grid<Dims>& grid, const Block<Dims>& block, Fields<Dims>& fields, halo<Dims>& halo) {
  struct Sum {
    int sum = 0, times = 0, small = 0;
  };
  std::map<Place<Dims>, Sum> expected;
  for (int other = 0; other < ranks(); ++other) {
    const Block<Dims> there(grid, other);
    for_each_place<Dims>(there.sizes(), [&](const Place<Dims>& local) {
      Place<Dims> place{};
      if (!there.in_grid(grid, local, place)) return;
      Sum& sum = expected[place];
      sum.sum += scattered<Dims>(other, local);
      sum.times += 1;
      sum.small += scattered<Dims>(other, local) % 251;
    });
  }
  for_each_place<Dims>(block.sizes(),
                       [&](const Place<Dims>& local) { fields.set(local, scattered<Dims>(rank(), local)); });
  fields.write();
  halo.scatter();
  fields.read();
  int wrong = 0;
  for_each_place<Dims>(block.sizes(), [&](const Place<Dims>& local) {
    Place<Dims> place{};
    if (!block.is_own(local)) {
      wrong += fields.is(local, scattered<Dims>(rank(), local)) ? 0 : 1;
      return;
    }
    block.in_grid(grid, local, place);
    const Sum& sum = expected[place];
    wrong += fields.is(local, sum.sum, sum.times, sum.small) ? 0 : 1;
  });
  EXPECT_EQ(0, wrong) << grid.told();
}

/// All grids of ranks, the last dimension fastest.
template <std::size_t Dims>
std::vector<Place<Dims>> divisions() {
  std::vector<Place<Dims>> all;
  Place<Dims> box{};
  box.fill(ranks());
  for_each_place<Dims>(box, [&](Place<Dims> place) {
    int product = 1;
    for (int& each : place) product *= ++each;
    if (product == ranks()) all.push_back(place);
  });
  return all;
}

/// As few cells as the width allows, and blocks that differ.
template <std::size_t Dims>
std::vector<Grid<Dims>> grids() {
  std::vector<Grid<Dims>> all;
  int number = 0;
  for (const Place<Dims>& ranks : divisions<Dims>()) {
    for (int width = 1; width <= 3; ++width) {
      for (int periodic = 0; periodic < (1 << Dims); ++periodic) {
        // In three dimensions each division meets each width, and each way to be periodic some of them.
        if (Dims == 3 && periodic != 0 && periodic != 7 && ++number % 5 != 0) continue;
        Grid<Dims> grid{{}, ranks, {}, width};
        for (std::size_t d = 0; d < Dims; ++d) {
          grid.cells[d] = width * ranks[d] + (ranks[d] > 1 ? 1 : static_cast<int>(d));
          grid.periodic[d] = periodic >> d & 1;
        }
        all.push_back(grid);
      }
    }
  }
  return all;
}

template <std::size_t Dims>
void expect_all_grids_exchange() {
  for (const Grid<Dims>& grid : grids<Dims>()) {
    step(grid.told());
    const Cartesian<Dims> cartesian(grid);
    const Block<Dims> block(grid, rank());
    Fields<Dims> fields(block);
    halo<Dims> halo(cartesian.comm(), block.shape, fields.views());
    expect_gathered<Dims>(grid, block, fields, [&] { halo.gather(); });
    expect_scattered<Dims>(grid, block, fields, halo);
    expect_scattered<Dims>(grid, block, fields, halo);
    expect_gathered<Dims>(grid, block, fields, [&] { halo.gather(); });
  }
}

class Halo : public testing::Test {
 protected:
  /// A grid of `width` cells a rank in each of two dimensions, divided in the first.
  static Grid<2> strip(int width) { return {{width * ranks(), width}, {ranks(), 1}, {1, 1}, width}; }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  communicator world_{MPI_COMM_WORLD};
};

TEST_F(Halo, of_two_dimensions_gathers_and_scatters_on_all_grids_of_ranks) {
  expect_all_grids_exchange<2>();
}

TEST_F(Halo, of_three_dimensions_gathers_and_scatters_on_all_grids_of_ranks) {
  expect_all_grids_exchange<3>();
}

TEST_F(Halo, directions_have_opposites) {
  for (std::size_t i = 0; i < halo_directions<3>; ++i) {
    halo_offset<3> offset = halo_offset_of<3>(i), opposite = halo_offset_of<3>(halo_directions<3> - 1 - i);
    for (std::size_t d = 0; d < 3; ++d) EXPECT_EQ(0, offset[d] + opposite[d]);
  }
  EXPECT_EQ((halo_offset<2>{0, -1}), halo_offset_of<2>(3));
}

TEST_F(Halo, rows_may_lie_apart_and_columns_may_come_first) {
  for (const bool columns_first : {false, true}) {
    const Grid<2> grid = strip(2);
    const Cartesian<2> cartesian(grid);
    Block<2> block(grid, rank());
    block.shape.strides = {16, 1};
    if (columns_first) block.shape.strides = {1, block.sizes()[0] + 3};
    Fields<2> fields(block);
    halo halo(cartesian.comm(), block.shape, fields.views());
    expect_gathered<2>(grid, block, fields, [&] { halo.gather(); });
    expect_scattered<2>(grid, block, fields, halo);
  }
}

TEST_F(Halo, is_gathered_in_a_queue) {
  const Grid<2> grid = strip(3);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> fields(block);
  halo halo(cartesian.comm(), block.shape, fields.views());
  queue order = queue::host();
  expect_gathered<2>(grid, block, fields, [&] {
    halo.enqueue_gather(order);
    order.wait();
  });
  order.free();
  expect_scattered<2>(grid, block, fields, halo);
}

TEST_F(Halo, is_gathered_in_steps) {
  const Grid<2> grid = strip(3);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> fields(block);
  halo halo(cartesian.comm(), block.shape, fields.views());
  queue order = queue::host();
  expect_gathered<2>(grid, block, fields, [&] {
    halo.start_receives();
    halo.start_sends();
    halo.wait();
  });
  expect_gathered<2>(grid, block, fields, [&] {
    halo.enqueue_receives(order);
    halo.enqueue_sends(order);
    halo.enqueue_wait(order);
    order.wait();
  });
  expect_gathered<2>(grid, block, fields, [&] { halo.gather(); });
  order.free();
}

/// Sets the cells of one round, and says how many are wrong behind it.
class Round {
 public:
  Round(const Grid<2>& grid, const Block<2>& block) : grid_(grid), block_(block) {}

  void set_own(Fields<2>& fields, int round) const {
    for_each([&](const Place<2>& local, int number) {
      if (!block_.is_own(local)) return;
      fields.set(local, number + round);
      fields.write(local);
    });
  }
  int wrong(Fields<2>& fields, int round) const {
    fields.read();
    int wrong = 0;
    for_each([&](const Place<2>& local, int number) { wrong += fields.is(local, number + round) ? 0 : 1; });
    return wrong;
  }

 private:
  template <class Each>
  void for_each(Each each) const {
    for_each_place<2>(block_.sizes(), [&](const Place<2>& local) {
      Place<2> place{};
      block_.in_grid(grid_, local, place);
      each(local, number_of<2>(place));
    });
  }

  const Grid<2>& grid_;
  const Block<2>& block_;
};

/// Whoever has a neighbour's message of one round knows that its receive of the next one has started.
TEST_F(Halo, fields_that_take_turns_have_ready_sends) {
  const Grid<2> grid = strip(2);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> fields[] = {Fields<2>(block), Fields<2>(block)};
  halo first(cartesian.comm(), block.shape, fields[0].views());
  halo even(first, fields[0].views(), halo_sends::ready), odd(first, fields[1].views(), halo_sends::ready);
  const Round rounds(grid, block);
  constexpr int last = 7;
  for (int round = 0; round <= last; ++round) {
    Fields<2>& own = fields[round % 2];
    halo<2>& now = round == 0 ? first : round % 2 == 0 ? even : odd;
    rounds.set_own(own, round);
    if (round == 0) now.start_receives();
    if (round < last) (round % 2 == 0 ? odd : even).start_receives();
    now.start_sends();
    now.wait();
    EXPECT_EQ(0, rounds.wrong(own, round)) << "round " << round;
  }
  EXPECT_TRUE(throws([&] { even.gather(); }, MPI_ERR_REQUEST, {"ready", "expected are the steps"}));
  expect_scattered<2>(grid, block, fields[0], first);
}

TEST_F(Halo, others_on_its_blocks_scatter_and_gather_by_themselves) {
  const Grid<2> grid = strip(2);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> one(block), two(block);
  auto first = std::make_unique<halo<2>>(cartesian.comm(), block.shape, one.views());
  halo second(*first, two.views()), third(*first, two.views(), halo_sends::ready);
  EXPECT_EQ(first->neighbours(), second.neighbours());
  first->start_receives();
  expect_gathered<2>(grid, block, two, [&] { second.gather(); });
  first->start_sends();
  first->wait();
  expect_scattered<2>(grid, block, two, third);
  expect_scattered<2>(grid, block, one, *first);
  first.reset();
  expect_scattered<2>(grid, block, two, second);
  expect_gathered<2>(grid, block, two, [&] { second.gather(); });
}

TEST_F(Halo, others_on_its_blocks_have_their_arguments_checked) {
  const Grid<2> grid = strip(2);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> fields(block);
  halo first(cartesian.comm(), block.shape, fields.views());
  const bool last = rank() == ranks() - 1;
  std::vector<halo_field> views = fields.views();
  if (last) views[1] = halo_field(static_cast<int*>(nullptr));
  EXPECT_TRUE(throws([&] { halo(first, views); }, MPI_ERR_ARG, {"no memory for field 1"}));
  first.gather();
}

TEST_F(Halo, two_on_one_communicator_do_not_meet) {
  const Grid<2> grid = strip(2);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> one(block), other(block);
  halo first(cartesian.comm(), block.shape, one.views()), second(cartesian.comm(), block.shape, other.views());
  queue order = queue::host();
  expect_gathered<2>(grid, block, other, [&] { second.gather(); });
  expect_gathered<2>(grid, block, one, [&] { first.gather(); });
}

/// On a communicator without a topology, without the neighbours beyond corners.
TEST_F(Halo, neighbours_that_are_given_may_leave_corners_out) {
  const Grid<2> grid = strip(2);
  const Block<2> block(grid, rank());
  Fields<2> fields(block);
  halo_neighbours<2> faces{};
  for (std::size_t i = 0; i < faces.size(); ++i) {
    const halo_offset<2> offset = halo_offset_of<2>(i);
    const bool corner = offset[0] != 0 && offset[1] != 0;
    faces[i] = corner ? MPI_PROC_NULL : (rank() + offset[0] + ranks()) % ranks();
  }
  halo halo(world_, block.shape, fields.views(), faces);
  EXPECT_EQ(faces, halo.neighbours());
  for_each_place<2>(block.sizes(), [&](const Place<2>& local) { fields.set(local, untouched + block.is_own(local)); });
  fields.write();
  halo.gather();
  fields.read();
  for_each_place<2>(block.sizes(), [&](const Place<2>& local) {
    const bool corner = (local[0] < 2 || local[0] >= 4) && (local[1] < 2 || local[1] >= 4);
    EXPECT_TRUE(fields.is(local, untouched + !corner)) << local[0] << ", " << local[1];
  });
}

TEST_F(Halo, with_fewer_cells_than_the_ghost_width_is_refused_on_all_ranks) {
  const Grid<2> grid = strip(2);
  const Cartesian<2> cartesian(grid);
  Block<2> block(grid, rank());
  if (rank() == ranks() - 1) block.shape.cells[1] = 1;
  Fields<2> fields(block);
  EXPECT_TRUE(throws([&] { halo(cartesian.comm(), block.shape, fields.views()); }, MPI_ERR_ARG,
                     {"rank " + std::to_string(ranks() - 1) + " has 1 cells in dimension 1", "ghost width of 2"}));
}

TEST_F(Halo, may_have_fewer_cells_than_the_ghost_width_where_there_is_no_neighbour) {
  const Grid<2> grid{{3 * ranks(), 1}, {ranks(), 1}, {1, 0}, 3};
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> fields(block);
  halo halo(cartesian.comm(), block.shape, fields.views());
  expect_gathered<2>(grid, block, fields, [&] { halo.gather(); });
}

TEST_F(Halo, arguments_that_make_no_sense_are_told) {
  const Grid<2> grid = strip(2);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> fields(block);
  const auto told = [&](const halo_block<2>& shape, std::vector<halo_field> views, const char* words) {
    return throws([&] { halo(cartesian.comm(), shape, views); }, MPI_ERR_ARG, {"partita::halo", words});
  };
  halo_block<2> wrong = block.shape;
  wrong.width = 0;
  EXPECT_TRUE(told(wrong, fields.views(), "rank 0 has a ghost width of 0"));
  wrong = block.shape;
  wrong.cells[0] = 0;
  EXPECT_TRUE(told(wrong, fields.views(), "rank 0 has 0 cells in dimension 0"));
  wrong.cells[0] = std::numeric_limits<int>::max() - 3;
  EXPECT_TRUE(told(wrong, fields.views(), "rank 0 has 2147483648 cells in dimension 0, with those of the ghost width"));
  wrong = block.shape;
  wrong.strides = {0, 1};
  EXPECT_TRUE(told(wrong, fields.views(), "rank 0 has a stride of 0 in dimension 0"));
  EXPECT_TRUE(told(block.shape, {static_cast<int*>(nullptr)}, "no memory for field 0"));
  double cell = 0;
  EXPECT_TRUE(told(block.shape, {{&cell, 0}}, "0 components in field 0"));
}

TEST_F(Halo, a_communicator_without_its_topology_is_refused) {
  const Block<3> block({{2, 2, 2 * ranks()}, {1, 1, ranks()}, {1, 1, 1}, 1}, rank());
  Fields<3> fields(block);
  EXPECT_TRUE(throws([&] { halo(world_, block.shape, fields.views()); }, MPI_ERR_TOPOLOGY, {"no Cartesian topology"}));
  const Cartesian<2> flat(strip(1));
  EXPECT_TRUE(throws([&] { halo(flat.comm(), block.shape, fields.views()); }, MPI_ERR_TOPOLOGY,
                     {"of 2 dimensions", "expected is one of 3"}));
}

TEST_F(Halo, an_intercommunicator_is_refused) {
  if (ranks() == 1) GTEST_SKIP() << "needs two groups of ranks";
  MPI_Comm group = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, 0, &group);
  MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, 1 - rank() % 2, 0, &inter);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  const Block<2> block(strip(1), rank());
  Fields<2> fields(block);
  halo_neighbours<2> none{};
  none.fill(MPI_PROC_NULL);
  EXPECT_TRUE(throws([&] { halo(communicator(inter), block.shape, fields.views(), none); }, MPI_ERR_COMM,
                     {"intercommunicator"}));
  MPI_Comm_free(&inter);
  MPI_Comm_free(&group);
}

TEST_F(Halo, what_ranks_do_not_agree_on_is_told_on_all) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks that may disagree";
  const Grid<2> grid = strip(2);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  const bool last = rank() == ranks() - 1;
  Fields<2> fields(block);
  const auto told = [&](const halo_block<2>& shape, const std::vector<halo_field>& views,
                        const halo_neighbours<2>& neighbours, const char* words) {
    return throws([&] { halo(cartesian.comm(), shape, views, neighbours); }, MPI_ERR_ARG, {"partita::halo", words});
  };
  const auto neighbours = cartesian_neighbours<2>(cartesian.comm());
  halo_block<2> shape = block.shape;
  shape.width = last ? 1 : 2;
  EXPECT_TRUE(told(shape, fields.views(), neighbours, "has a ghost width of 1, but rank 0 one of 2"));
  std::vector<halo_field> views = fields.views();
  if (last) views.pop_back();
  EXPECT_TRUE(told(block.shape, views, neighbours, "has 2 fields, but rank 0 has 3"));
  views = fields.views();
  if (last) std::swap(views[0], views[1]);
  EXPECT_TRUE(told(block.shape, views, neighbours, "have other sizes"));
  shape = block.shape;
  shape.cells[1] += last ? 1 : 0;
  EXPECT_TRUE(told(shape, fields.views(), neighbours, "cells in dimension 1, but rank"));
  halo_neighbours<2> lonely = neighbours;
  if (last) lonely.fill(MPI_PROC_NULL);
  EXPECT_TRUE(told(block.shape, fields.views(), lonely, "in the opposite direction"));
  lonely.fill(last ? ranks() : MPI_PROC_NULL);
  EXPECT_TRUE(told(block.shape, fields.views(), lonely, "expected is MPI_PROC_NULL or a rank from 0"));
}

struct Colour {
  unsigned char red, green, blue;
  bool operator==(const Colour& other) const { return red == other.red && green == other.green && blue == other.blue; }
};

TEST_F(Halo, elements_without_a_sum_are_gathered_and_not_scattered) {
  const Grid<2> grid = strip(1);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  std::vector<Colour> picture(9, Colour{0, 0, 0});
  picture[4] = {static_cast<unsigned char>(rank()), 1, 2};
  halo halo(cartesian.comm(), block.shape, {picture.data()});
  halo.gather();
  EXPECT_EQ((Colour{static_cast<unsigned char>((rank() + 1) % ranks()), 1, 2}), picture[7]);
  EXPECT_TRUE(throws([&] { halo.scatter(); }, MPI_ERR_TYPE, {"field 0", "no sum"}));
}

/// So that memory into which neighbours write may go behind it.
TEST_F(Halo, ends_when_all_ranks_have_freed_their_requests) {
  const std::unique_ptr<Board> arrivals = Board::make(1);
  if (arrivals == nullptr) GTEST_SKIP() << "needs ranks that share memory";
  const Grid<2> grid = strip(1);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> fields(block);
  {
    halo halo(cartesian.comm(), block.shape, fields.views());
    halo.gather();
    halo.scatter();
    // Time to be missed in, for an end that waits for nobody.
    if (rank() == ranks() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    arrivals->add(0, 1);
  }
  EXPECT_EQ(static_cast<std::uint32_t>(ranks()), arrivals->read(0));
}

/// So that what a rank throws is not held up by the others.
TEST_F(Halo, is_ended_by_an_exception_on_one_rank_alone) {
  const Grid<2> grid = strip(1);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> fields(block);
  const auto exchange_and_throw = [&] {
    halo halo(cartesian.comm(), block.shape, fields.views());
    halo.gather();
    halo.scatter();
    if (rank() != 0) harness_barrier();
    throw 1;
  };
  EXPECT_THROW(exchange_and_throw(), int);
  if (rank() == 0) harness_barrier();
}

/// So that who hears of a failure from a queue is not held up by the others.
TEST_F(Halo, ends_on_one_rank_alone_that_has_left) {
  const Grid<2> grid = strip(1);
  const Cartesian<2> cartesian(grid);
  const Block<2> block(grid, rank());
  Fields<2> fields(block);
  {
    halo halo(cartesian.comm(), block.shape, fields.views());
    halo.gather();
    halo.scatter();
    halo.leave();
    if (rank() != 0) harness_barrier();
  }
  if (rank() == 0) harness_barrier();
}

}  // namespace
}  // namespace partita::test
