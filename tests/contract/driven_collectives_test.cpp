// Collectives by kernels of the library's, on CUDA and on the fake GPU: every type of element and every operation
// against a reference in double precision and bit by bit, any place of the data, sizes around which another algorithm
// is taken, a rank that comes late, long series of different ones, and two communicators at once.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "collective/small_float.hpp"
#include "collective/tuning.hpp"
#include "contract/driven_collective.hpp"
#include "contract/program_line.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

Bytes run_once(const DrivenShape& shape, const Bytes& contents) {
  DrivenCollective collective(shape);
  ProgramLine line;
  collective.write(contents);
  line.run(collective.request);
  line.finish();
  return collective.read();
}

// ---- Elements and operations ---------------------------------------------------------------------------------------

enum class Number { f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64 };
constexpr Number numbers[] = {Number::f64, Number::f32, Number::f16, Number::bf16, Number::i8,  Number::i16,
                              Number::i32, Number::i64, Number::u8,  Number::u16,  Number::u32, Number::u64};
const char* name_of(Number number) {
  constexpr const char* names[] = {"f64", "f32", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
  return names[static_cast<int>(number)];
}
bool is_float(Number number) {
  return number <= Number::bf16;
}
std::size_t bytes_of(Number number) {
  constexpr std::size_t bytes[] = {8, 4, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8};
  return bytes[static_cast<int>(number)];
}
/// Two of them are made by Partita_Init.
MPI_Datatype datatype_of(Number number) {
  const MPI_Datatype datatypes[] = {MPI_DOUBLE,  MPI_FLOAT,    Partita_FLOAT16, Partita_BFLOAT16,
                                    MPI_INT8_T,  MPI_INT16_T,  MPI_INT32_T,     MPI_INT64_T,
                                    MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T,    MPI_UINT64_T};
  return datatypes[static_cast<int>(number)];
}

enum class By { sum, prod, min, max, land, lor, lxor, band, bor, bxor };
const char* name_of(By by) {
  constexpr const char* names[] = {"sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor"};
  return names[static_cast<int>(by)];
}
MPI_Op op_of(By by) {
  const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
  return ops[static_cast<int>(by)];
}

template <class T>
void append(Bytes& bytes, T value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}
template <class T>
T element(const Bytes& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

double decoded(Number number, const Bytes& bytes, std::size_t i) {
  switch (number) {
    case Number::f64:
      return element<double>(bytes, i);
    case Number::f32:
      return element<float>(bytes, i);
    case Number::f16:
      return collective::Float16::value(element<std::uint16_t>(bytes, i));
    default:
      return collective::BFloat16::value(element<std::uint16_t>(bytes, i));
  }
}

/// As the type holds it. Floating-point numbers are about 1, with as many bits as the type has, of both signs; what is
/// multiplied lies near 1.
void append_float(Bytes& bytes, Number number, By by, int rank, std::size_t i) {
  const auto mixed = static_cast<double>((i * 7919 + static_cast<std::size_t>(rank) * 104729 + 31) % 10007);
  double value = by == By::prod ? 0.75 + mixed / 20014 : (mixed - 5003) / 4999;
  if (by == By::prod && (i + static_cast<std::size_t>(rank)) % 5 == 0) value = -value;
  switch (number) {
    case Number::f64:
      return append(bytes, value);
    case Number::f32:
      return append(bytes, static_cast<float>(value));
    case Number::f16:
      return append(bytes, collective::Float16::bits(static_cast<float>(value)));
    default:
      return append(bytes, collective::BFloat16::bits(static_cast<float>(value)));
  }
}

/// Small numbers, 0 and negative ones among them.
std::int64_t integer_of(int rank, std::size_t i) {
  return static_cast<std::int64_t>((i * 31 + static_cast<std::size_t>(rank) * 17) % 9) - 3;
}
void append_integer(Bytes& bytes, Number number, std::int64_t value) {
  switch (bytes_of(number)) {
    case 1:
      return append(bytes, static_cast<std::uint8_t>(value));
    case 2:
      return append(bytes, static_cast<std::uint16_t>(value));
    case 4:
      return append(bytes, static_cast<std::uint32_t>(value));
    default:
      return append(bytes, static_cast<std::uint64_t>(value));
  }
}

template <class T>
T combined(By by, T a, T b) {
  switch (by) {
    case By::sum:
      return a + b;
    case By::prod:
      return a * b;
    case By::min:
      return std::min(a, b);
    case By::max:
      return std::max(a, b);
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (by) {
      case By::land:
        return a != 0 && b != 0;
      case By::lor:
        return a != 0 || b != 0;
      case By::lxor:
        return (a != 0) != (b != 0);
      case By::band:
        return a & b;
      case By::bor:
        return a | b;
      default:
        return a ^ b;
    }
  }
  return a;
}

/// What the type makes of an integer, by which minima of unsigned ones go.
std::int64_t as_held(Number number, std::int64_t value) {
  if (number < Number::u8) return value;
  const std::size_t bits = 8 * bytes_of(number);
  return bits == 64 ? value : value & static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
}
/// So small are those of 64 bits that they are not negative.
std::int64_t held_integer(Number number, int rank, std::size_t i) {
  const std::int64_t value = integer_of(rank, i);
  return as_held(number, number == Number::u64 ? value + 3 : value);
}

Bytes contents_of(Number number, By by, int rank, std::size_t count) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i) {
    is_float(number) ? append_float(bytes, number, by, rank, i)
                     : append_integer(bytes, number, held_integer(number, rank, i));
  }
  return bytes;
}

/// Exactly.
Bytes reduced_integers(Number number, By by, std::size_t count) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t result = held_integer(number, 0, i);
    for (int r = 1; r < ranks(); ++r) result = combined(by, result, held_integer(number, r, i));
    append_integer(bytes, number, result);
  }
  return bytes;
}

/// Beside what doubles give for the same numbers: each step rounds once, and 16 bits once more, at the end.
std::string far_from_doubles(Number number, By by, const Bytes& found, std::size_t count) {
  std::vector<Bytes> of_ranks;
  for (int r = 0; r < ranks(); ++r) of_ranks.push_back(contents_of(number, by, r, count));
  const double step =
      number == Number::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const double end = number == Number::f16 ? std::ldexp(1, -11) : number == Number::bf16 ? std::ldexp(1, -8) : 0;
  const double least = number == Number::f16 ? std::ldexp(1, -25) : 0;  // half of a subnormal's last bit
  for (std::size_t i = 0; i < count; ++i) {
    double wanted = decoded(number, of_ranks[0], i);
    double magnitude = std::fabs(wanted);
    for (int r = 1; r < ranks(); ++r) {
      const double next = decoded(number, of_ranks[static_cast<std::size_t>(r)], i);
      wanted = combined(by, wanted, next);
      magnitude = by == By::sum ? magnitude + std::fabs(next) : std::fabs(wanted);
    }
    const bool exact = by == By::min || by == By::max || ranks() == 1;
    const double most = exact
                            ? 0
                            : ranks() * step * magnitude +
                                  end * (1 + ranks() * step) * (std::fabs(wanted) + ranks() * step * magnitude) + least;
    const double got = decoded(number, found, i);
    if (std::fabs(got - wanted) <= most) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(got) + ", expected " + std::to_string(wanted);
  }
  return {};
}

class DrivenReductions : public testing::TestWithParam<Number> {
 protected:
  DrivenReductions() { choose_gpu(); }

  /// An allreduce of all blocks and a reduce_scatter of the same ones, by all algorithms.
  static void expect_both(Number number, By by, MPI_Count count, bool in_place, bool shifted) {
    SCOPED_TRACE(std::string(name_of(by)) + " of " + std::to_string(count) + (in_place ? ", in place" : "") +
                 (shifted ? ", not aligned" : ""));
    const std::size_t all = static_cast<std::size_t>(count) * static_cast<std::size_t>(ranks());
    DrivenShape shape;
    shape.element_bytes = bytes_of(number);
    shape.datatype = datatype_of(number);
    shape.op = op_of(by);
    shape.in_place = in_place;
    shape.shift_bytes = shifted ? shape.element_bytes : 0;
    const Bytes contents = contents_of(number, by, rank(), all);
    Bytes whole;
    for (const char* const algorithm : algorithms_of(Kind::allreduce)) {
      shape.kind = Kind::allreduce;
      shape.count = static_cast<MPI_Count>(all);
      shape.algorithm = algorithm;
      const Bytes found = run_once(shape, contents);
      if (whole.empty()) whole = found;
      EXPECT_EQ(first_difference(found, whole), "") << "allreduce in " << algorithm << " and in packets";
    }
    if (is_float(number)) {
      EXPECT_EQ(far_from_doubles(number, by, whole, all), "");
    } else {
      EXPECT_EQ(first_difference(whole, reduced_integers(number, by, all)), "");
    }
    Bytes of_rank_zero = whole;
    PMPI_Bcast(of_rank_zero.data(), static_cast<int>(of_rank_zero.size()), MPI_BYTE, 0, harness_comm());
    EXPECT_EQ(first_difference(whole, of_rank_zero), "") << "bits of this rank and of rank 0";
    for (const char* const algorithm : algorithms_of(Kind::reduce_scatter_block)) {
      shape.kind = Kind::reduce_scatter_block;
      shape.count = count;
      shape.algorithm = algorithm;
      const std::size_t begin = static_cast<std::size_t>(rank()) * shape.block_bytes();
      const Bytes own(whole.begin() + static_cast<std::ptrdiff_t>(begin),
                      whole.begin() + static_cast<std::ptrdiff_t>(begin + shape.block_bytes()));
      EXPECT_EQ(first_difference(run_once(shape, contents), own), "") << "reduce_scatter in " << algorithm;
    }
  }
};

TEST_P(DrivenReductions, are_right_and_have_the_same_bits_on_all_ranks_and_by_all_algorithms) {
  const Number number = GetParam();
  unsigned turn = 0;
  const auto expect = [&](By by, MPI_Count count) {
    expect_both(number, by, count, turn % 2 == 1, turn / 2 % 2 == 1);
    ++turn;
  };
  for (const By by : {By::sum, By::prod, By::min, By::max}) {
    for (const MPI_Count count : {1, 7, 1003}) expect(by, count);
  }
  expect(By::sum, repetitions(20011, 3001));
  if (is_float(number)) return;
  for (const By by : {By::land, By::lor, By::lxor, By::band, By::bor, By::bxor}) expect(by, 515);
}

INSTANTIATE_TEST_SUITE_P(All, DrivenReductions, testing::ValuesIn(numbers),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// ---- Places and sizes ----------------------------------------------------------------------------------------------

class DrivenCollectives : public testing::TestWithParam<Kind> {
 protected:
  DrivenCollectives() { choose_gpu(); }

  static void expect_epochs(const DrivenShape& shape, int epochs, const std::string& algorithm = {}) {
    DrivenCollective collective(shape);
    if (!algorithm.empty()) {
      EXPECT_EQ(told(collective.request, "partita_algorithm"), algorithm);
    }
    ProgramLine line;
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      collective.write(driven_contents(shape, static_cast<std::uint64_t>(epoch)));
      harness_barrier();  // no root writes before all have read
      line.run(collective.request);
      line.finish();
      EXPECT_EQ(first_difference(collective.read(), driven_result(shape, static_cast<std::uint64_t>(epoch))), "")
          << name_of(shape.kind) << " in " << shape.algorithm << " of " << shape.count << ", epoch " << epoch;
      harness_barrier();
    }
  }
};

/// Bytes: a block may end anywhere in a unit, and begin anywhere.
TEST_P(DrivenCollectives, move_any_bytes_wherever_they_lie) {
  if (GetParam() == Kind::allreduce || GetParam() == Kind::reduce_scatter_block) {
    GTEST_SKIP() << "reductions of bytes are cases of DrivenReductions";
  }
  int turn = 0;
  for (const char* const algorithm : algorithms_of(GetParam())) {
    for (const MPI_Count count : {1, 3, 17, 4099, 70001}) {
      for (const std::size_t shift : {0, 1, 4}) {
        DrivenShape shape;
        shape.kind = GetParam();
        shape.count = count;
        shape.algorithm = algorithm;
        shape.in_place = ++turn % 2 == 0;
        shape.shift_bytes = shift;
        const auto byte = [](int from, int to, std::size_t i) {
          return static_cast<std::uint8_t>(driven_value(from, to, 7, i) >> 9);
        };
        const auto block = static_cast<std::size_t>(count);
        Bytes contents(shape.sent_bytes()), wanted(shape.received_bytes());
        for (std::size_t n = 0; n < contents.size(); ++n) {
          contents[n] = byte(rank(), scatters(shape.kind) ? static_cast<int>(n / block) : 0, n % block);
        }
        for (std::size_t n = 0; n < wanted.size(); ++n) {
          const int from = shape.kind == Kind::bcast ? shape.root() : static_cast<int>(n / block);
          wanted[n] = byte(from, scatters(shape.kind) ? rank() : 0, n % block);
        }
        EXPECT_EQ(first_difference(run_once(shape, contents), wanted), "")
            << name_of(shape.kind) << " in " << algorithm << " of " << count << ", " << shift << " behind a boundary";
      }
    }
  }
}

TEST_P(DrivenCollectives, of_random_sizes_around_each_change_of_the_algorithm) {
  Random random(job_seed(), static_cast<std::uint64_t>(GetParam()));
  const auto rules = collective::rules_in_force(GetParam(), collective::MovedBy::device, ranks(), {});
  const std::string before = rules.front().algorithm;
  EXPECT_EQ(before, "packets");
  if (rules.size() == 1) GTEST_SKIP() << "one rank has one algorithm";
  for (std::size_t r = 1; r < rules.size(); ++r) {
    const std::int64_t first = (rules[r].from_bytes + 3) / 4;  // integers from which on the rule holds
    for (const std::int64_t off :
         {std::int64_t{-1}, std::int64_t{0}, random.between(-900, -2), random.between(1, 900)}) {
      const auto& rule = off < 0 ? rules[r - 1] : rules[r];
      expect_epochs(driven_integers(GetParam(), first + off, "auto"), 2, rule.algorithm);
    }
  }
}

/// Each rank in turn; the others' kernels wait for it.
TEST_P(DrivenCollectives, wait_for_a_rank_that_comes_late) {
  for (const char* const algorithm : algorithms_of(GetParam())) {
    const DrivenShape shape = driven_integers(GetParam(), 3001, algorithm);
    DrivenCollective collective(shape);
    ProgramLine line;
    for (int late = 0; late < ranks(); ++late) {
      const auto epoch = static_cast<std::uint64_t>(late + 1);
      collective.write(driven_contents(shape, epoch));
      harness_barrier();
      if (rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      line.run(collective.request);
      line.finish();
      EXPECT_EQ(first_difference(collective.read(), driven_result(shape, epoch)), "")
          << name_of(GetParam()) << " in " << algorithm << ", rank " << late << " late";
      harness_barrier();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DrivenCollectives, testing::ValuesIn(driven_kinds),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// ---- Many, and several at once
// ----------------------------------------------------------------------------------------

/// A collective and what it moves in a few different epochs, all of it in GPU memory.
class Player {
 public:
  static constexpr std::uint64_t epochs = 3;

  explicit Player(const DrivenShape& shape) : collective_(shape) {
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      const Bytes contents = driven_contents(shape, epoch);
      contents_.emplace_back(contents.size());
      gpu_copy(contents_.back().data(), contents.data(), contents.size());
      results_.push_back(driven_result(shape, epoch));
    }
  }

  std::size_t bytes() const { return results_[0].size(); }
  const Bytes& result(std::uint64_t epoch) const { return results_[epoch]; }
  const DrivenShape& shape() const { return collective_.shape(); }
  /// The stream writes what is sent, does the collective and keeps what came at `log`.
  void play(ProgramLine& line, std::uint64_t epoch, std::byte* log) {
    if (shape().kind != Kind::bcast || rank() == shape().root()) {
      line.stream().copy(collective_.sent(), contents_[epoch].data(), shape().sent_bytes());
    }
    line.run(collective_.request);
    line.stream().copy(log, collective_.received(), bytes());
  }

 private:
  DrivenCollective collective_;
  std::deque<ProgramMemory> contents_;
  std::vector<Bytes> results_;
};

/// What was kept of several of them, to be looked at when the stream has ended.
class Log {
 public:
  explicit Log(std::size_t bytes) : memory_(bytes) {}

  void play(ProgramLine& line, Player& player, std::uint64_t epoch) {
    player.play(line, epoch, memory_.data() + used_);
    entries_.push_back({&player, epoch, used_});
    used_ += player.bytes();
  }
  /// Behind the end of the stream.
  void expect_and_forget() {
    Bytes all(used_);
    gpu_copy(all.data(), memory_.data(), used_);
    for (const auto& [player, epoch, at] : entries_) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
      ASSERT_EQ(
          first_difference(Bytes(begin, begin + static_cast<std::ptrdiff_t>(player->bytes())), player->result(epoch)),
          "")
          << name_of(player->shape().kind) << " in " << player->shape().algorithm << " of " << player->shape().count;
    }
    entries_.clear();
    used_ = 0;
  }

 private:
  struct Entry {
    const Player* player;
    std::uint64_t epoch;
    std::size_t at;
  };
  ProgramMemory memory_;
  std::size_t used_ = 0;
  std::vector<Entry> entries_;
};

constexpr std::size_t most_log_bytes = std::size_t{8} << 20;

class DrivenSeries : public testing::Test {
 protected:
  DrivenSeries() { choose_gpu(); }
};

/// PARTITEST_EPOCHS of them, of all kinds and sizes in a random order that is the same on all ranks. They are looked at
/// now and then; nobody waits between them but by the data.
TEST_F(DrivenSeries, alternate_sizes_and_collectives) {
  std::deque<Player> players;
  for (const Kind kind : driven_kinds) {
    for (const char* const algorithm : algorithms_of(kind)) {
      for (const MPI_Count count : {1, 77, 1030}) players.emplace_back(driven_integers(kind, count, algorithm));
    }
  }
  Random random(job_seed(), 17);
  ProgramLine line;
  Log log(most_log_bytes);
  const long epochs = environment_number("PARTITEST_EPOCHS", repetitions(600, 100));
  constexpr long kept = 150;
  for (long done = 0; done < epochs && !HasFatalFailure();) {
    for (long i = 0; i < kept && done < epochs; ++i, ++done) {
      Player& player = players[static_cast<std::size_t>(random.between(0, std::ssize(players) - 1))];
      log.play(line, player, static_cast<std::uint64_t>(random.between(0, Player::epochs - 1)));
    }
    line.finish();
    log.expect_and_forget();
  }
}

/// Two communicators of the same ranks, a stream each. Grids are of one block, so that those of all ranks have room.
class DrivenPairs : public testing::TestWithParam<bool> {
 protected:
  DrivenPairs() {
    choose_gpu();
    for (MPI_Comm& comm : comms_) {
      PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
      EXPECT_OK(Partita_Comm_register(comm));
    }
  }
  ~DrivenPairs() override {
    for (MPI_Comm& comm : comms_) PMPI_Comm_free(&comm);
  }

  MPI_Comm comms_[2]{};
};

TEST_P(DrivenPairs, run_at_once_in_two_streams) {
  const bool in_different_order = GetParam();
  const bool is_turned = in_different_order && rank() % 2 == 1;
  const int epochs = static_cast<int>(environment_number("PARTITEST_PAIRS", repetitions(60, 12)));
  ProgramLine lines[2];
  Log logs[2]{Log(most_log_bytes), Log(most_log_bytes)};
  for (const Kind kind : driven_kinds) {
    for (const char* const algorithm : algorithms_of(kind)) {
      std::deque<Player> players;
      for (const MPI_Comm comm : comms_) {
        DrivenShape shape = driven_integers(kind, 250, algorithm);
        shape.comm = comm;
        players.emplace_back(shape);
      }
      for (int epoch = 0; epoch < epochs; ++epoch) {
        for (const int turn : {0, 1}) {
          const auto which = static_cast<std::size_t>(is_turned ? 1 - turn : turn);
          logs[which].play(lines[which], players[which], static_cast<std::uint64_t>(epoch) % Player::epochs);
        }
      }
      for (const std::size_t which : {0, 1}) {
        lines[which].finish();
        logs[which].expect_and_forget();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DrivenPairs, testing::Bool(),
                         [](const auto& info) { return info.param ? "in_different_order" : "in_the_same_order"; });

}  // namespace
}  // namespace partita::test
