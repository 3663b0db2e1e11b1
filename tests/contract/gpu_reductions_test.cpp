// The reductions of collectives in GPU memory: the kernel on CPU threads beside the MPI's own reduction, for every
// predefined operation and datatype.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "capi/operators.hpp"
#include "collective/gpu_reduction.hpp"
#include "core/error.hpp"
#include "memory/reduce_bodies.cuh"

namespace partita::test {
namespace {

struct NamedOp {
  const char* name;
  MPI_Op op;
};
const std::vector<NamedOp>& operations() {
  static const std::vector<NamedOp> all = {
      {"MPI_SUM", MPI_SUM},   {"MPI_PROD", MPI_PROD}, {"MPI_MIN", MPI_MIN},       {"MPI_MAX", MPI_MAX},
      {"MPI_LAND", MPI_LAND}, {"MPI_LOR", MPI_LOR},   {"MPI_LXOR", MPI_LXOR},     {"MPI_BAND", MPI_BAND},
      {"MPI_BOR", MPI_BOR},   {"MPI_BXOR", MPI_BXOR}, {"MPI_MINLOC", MPI_MINLOC}, {"MPI_MAXLOC", MPI_MAXLOC}};
  return all;
}

/// A datatype, and of what numbers an element consists, as tests fill it.
enum class NumberClass { integers, truths, floats };
struct NamedType {
  const char* name;
  MPI_Datatype datatype;
  NumberClass numbers;
  int number_bytes;
};
#define PARTITA_TYPE(type, numbers, bytes) {#type, type, NumberClass::numbers, bytes}
const std::vector<NamedType>& datatypes() {
  static const std::vector<NamedType> all = {
      PARTITA_TYPE(MPI_SIGNED_CHAR, integers, 1),
      PARTITA_TYPE(MPI_UNSIGNED_CHAR, integers, 1),
      PARTITA_TYPE(MPI_SHORT, integers, 2),
      PARTITA_TYPE(MPI_UNSIGNED_SHORT, integers, 2),
      PARTITA_TYPE(MPI_INT, integers, 4),
      PARTITA_TYPE(MPI_UNSIGNED, integers, 4),
      PARTITA_TYPE(MPI_LONG, integers, 8),
      PARTITA_TYPE(MPI_UNSIGNED_LONG, integers, 8),
      PARTITA_TYPE(MPI_LONG_LONG, integers, 8),
      PARTITA_TYPE(MPI_UNSIGNED_LONG_LONG, integers, 8),
      PARTITA_TYPE(MPI_INT8_T, integers, 1),
      PARTITA_TYPE(MPI_INT16_T, integers, 2),
      PARTITA_TYPE(MPI_INT32_T, integers, 4),
      PARTITA_TYPE(MPI_INT64_T, integers, 8),
      PARTITA_TYPE(MPI_UINT8_T, integers, 1),
      PARTITA_TYPE(MPI_UINT16_T, integers, 2),
      PARTITA_TYPE(MPI_UINT32_T, integers, 4),
      PARTITA_TYPE(MPI_UINT64_T, integers, 8),
      PARTITA_TYPE(MPI_BYTE, integers, 1),
      PARTITA_TYPE(MPI_AINT, integers, 8),
      PARTITA_TYPE(MPI_OFFSET, integers, 8),
      PARTITA_TYPE(MPI_COUNT, integers, 8),
      PARTITA_TYPE(MPI_INTEGER, integers, 4),
      PARTITA_TYPE(MPI_C_BOOL, truths, 1),
      PARTITA_TYPE(MPI_CXX_BOOL, truths, 1),
      PARTITA_TYPE(MPI_LOGICAL, truths, 4),
#if defined(MPI_LOGICAL1)
      PARTITA_TYPE(MPI_LOGICAL1, truths, 1),
#endif
#if defined(MPI_LOGICAL2)
      PARTITA_TYPE(MPI_LOGICAL2, truths, 2),
#endif
#if defined(MPI_LOGICAL4)
      PARTITA_TYPE(MPI_LOGICAL4, truths, 4),
#endif
#if defined(MPI_LOGICAL8)
      PARTITA_TYPE(MPI_LOGICAL8, truths, 8),
#endif
      PARTITA_TYPE(MPI_FLOAT, floats, 4),
      PARTITA_TYPE(MPI_DOUBLE, floats, 8),
      PARTITA_TYPE(MPI_REAL, floats, 4),
      PARTITA_TYPE(MPI_DOUBLE_PRECISION, floats, 8),
      PARTITA_TYPE(MPI_C_FLOAT_COMPLEX, floats, 4),
      PARTITA_TYPE(MPI_C_DOUBLE_COMPLEX, floats, 8),
      PARTITA_TYPE(MPI_COMPLEX, floats, 4),
      PARTITA_TYPE(MPI_DOUBLE_COMPLEX, floats, 8),
#if defined(MPI_COMPLEX8)
      PARTITA_TYPE(MPI_COMPLEX8, floats, 4),
#endif
#if defined(MPI_COMPLEX16)
      PARTITA_TYPE(MPI_COMPLEX16, floats, 8),
#endif
      PARTITA_TYPE(MPI_CXX_FLOAT_COMPLEX, floats, 4),
      PARTITA_TYPE(MPI_CXX_DOUBLE_COMPLEX, floats, 8),
      PARTITA_TYPE(MPI_2INT, integers, 4),
      PARTITA_TYPE(MPI_2INTEGER, integers, 4),
      PARTITA_TYPE(MPI_2REAL, floats, 4),
      PARTITA_TYPE(MPI_2DOUBLE_PRECISION, floats, 8),
  };
  return all;
}
#undef PARTITA_TYPE

bool goes_with(MPI_Op op, MPI_Datatype datatype) {
  try {
    capi::check_operator(op, datatype);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Memory that begins as many bytes behind a boundary of 16 as is wished.
class Shifted {
 public:
  Shifted(std::size_t shift, std::size_t size_bytes) : room_(size_bytes / 16 + 3), shift_(shift) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(room_.data()) + shift_; }

 private:
  struct alignas(16) Unit {
    std::byte bytes[16];
  };
  std::vector<Unit> room_;
  std::size_t shift_;
};

template <class T>
void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

#ifdef OPEN_MPI
/// Its vector code takes the smaller and the larger of unsigned integers as of signed ones.
constexpr std::uint64_t bits_of_numbers = ~std::uint64_t{0} / 0xff * 0x7f;
#else
constexpr std::uint64_t bits_of_numbers = ~std::uint64_t{0};
#endif

/// Where a sum or a product leaves the range of small integers, Open MPI's vector code stays at its end.
bool stays_in_range(MPI_Op op, const NamedType& type) {
  return type.numbers == NumberClass::integers && type.number_bytes <= 2 && (op == MPI_SUM || op == MPI_PROD);
}

void fill(std::byte* bytes, std::size_t size_bytes, const NamedType& type, MPI_Op op, std::mt19937& random) {
  const auto step = static_cast<std::size_t>(type.number_bytes);
  for (std::size_t at = 0; at + step <= size_bytes; at += step) {
    std::byte* const to = bytes + at;
    if (type.numbers == NumberClass::floats) {
      const double value = static_cast<int>(random() % 65) - 32;
      type.number_bytes == 4 ? write(to, static_cast<float>(value)) : write(to, value);
    } else if (type.numbers == NumberClass::truths) {
      const std::uint64_t truth = random() % 2;
      std::memcpy(to, &truth, step);
    } else if (stays_in_range(op, type)) {
      type.number_bytes == 1 ? write<std::uint8_t>(to, random() % 12) : write<std::uint16_t>(to, random() % 12);
    } else {
      // Few of them are equal, and some are 0.
      const std::uint64_t bits = random() % 8 == 0 ? 0 : (std::uint64_t{random()} << 32 | random()) & bits_of_numbers;
      std::memcpy(to, &bits, step);
    }
  }
}

collective::GpuReduction gpu_reduction(MPI_Op op, MPI_Datatype datatype,
                                       collective::SmallFloat format = collective::SmallFloat::none) {
  return collective::gpu_reduction({op, datatype, format});
}

memory::ReduceElements arguments_of(const collective::GpuReduction& reduction, const std::byte* from, std::byte* to,
                                    std::size_t count) {
  memory::ReduceElements arguments;
  arguments.to = to;
  arguments.from = from;
  arguments.count = count;
  arguments.element = reduction.element;
  arguments.by = reduction.by;
  return arguments;
}

/// The kernel, once for each of `all`, by so many threads.
void reduce(const std::vector<memory::ReduceElements>& all, unsigned threads) {
  std::vector<std::thread> team;
  for (unsigned t = 0; t < threads; ++t) {
    team.emplace_back([&all, t, threads] {
      for (const memory::ReduceElements& arguments : all) memory::reduce_elements(arguments, {t, threads});
    });
  }
  for (std::thread& thread : team) thread.join();
}
void reduce(const collective::GpuReduction& reduction, const std::byte* from, std::byte* to, std::size_t count,
            unsigned threads) {
  reduce({arguments_of(reduction, from, to, count)}, threads);
}

/// Two operands and what the MPI makes of them.
struct Operands {
  Operands(std::size_t elements, std::size_t element_bytes, std::size_t shift_of_from, std::size_t shift_of_to)
      : count(elements),
        size_bytes(elements * element_bytes),
        from_shift(shift_of_from),
        to_shift(shift_of_to),
        from(shift_of_from, size_bytes),
        to(shift_of_to, size_bytes),
        expected(0, size_bytes) {}
  void draw(const NamedType& type, MPI_Op op, std::mt19937& random) {
    fill(from.data(), size_bytes, type, op, random);
    fill(to.data(), size_bytes, type, op, random);
    std::memcpy(expected.data(), to.data(), size_bytes);
    Shifted straight(0, size_bytes);
    std::memcpy(straight.data(), from.data(), size_bytes);
    ASSERT_EQ(MPI_SUCCESS,
              PMPI_Reduce_local(straight.data(), expected.data(), static_cast<int>(count), type.datatype, op));
  }

  std::size_t count, size_bytes, from_shift, to_shift;
  Shifted from, to, expected;
};

/// They have every length that takes the kernel another way, behind boundaries alike and not.
std::deque<Operands> operands(const NamedType& type, std::size_t element_bytes) {
  std::deque<Operands> all;
  for (const std::size_t count : {0, 1, 2, 15, 16, 100, 1001}) {
    for (const std::size_t units : {0, 1, 3}) {
      for (const std::size_t more : {0, 1}) {
        const std::size_t shift = units * static_cast<std::size_t>(type.number_bytes) % 16;
        const std::size_t other = (shift + more * static_cast<std::size_t>(type.number_bytes)) % 16;
        all.emplace_back(count, element_bytes, shift, other);
      }
    }
  }
  return all;
}

/// Where this MPI has Fortran's types of a size.
TEST(GpuReductions, take_complex_numbers_and_truth_values_of_a_size) {
  for (const NamedType& type : datatypes()) {
    if (type.datatype == MPI_DATATYPE_NULL) continue;
    const std::string name = type.name;
    if (name.starts_with("MPI_COMPLEX")) {
      EXPECT_TRUE(goes_with(MPI_SUM, type.datatype) && goes_with(MPI_PROD, type.datatype)) << name;
    } else if (name.starts_with("MPI_LOGICAL")) {
      EXPECT_TRUE(goes_with(MPI_LAND, type.datatype) && goes_with(MPI_LXOR, type.datatype)) << name;
    }
  }
}

TEST(GpuReductions, give_what_the_mpis_own_give) {
  std::mt19937 random(7);
  int pairs = 0;
  for (const NamedOp& op : operations()) {
    for (const NamedType& type : datatypes()) {
      if (type.datatype == MPI_DATATYPE_NULL || !goes_with(op.op, type.datatype)) continue;
      SCOPED_TRACE(std::string(op.name) + " of " + type.name);
      ++pairs;
      const auto reduction = gpu_reduction(op.op, type.datatype);
      std::deque<Operands> all = operands(type, static_cast<std::size_t>(reduction.element_bytes));
      std::vector<memory::ReduceElements> kernels;
      for (Operands& each : all) {
        each.draw(type, op.op, random);
        if (HasFatalFailure()) return;
        kernels.push_back(arguments_of(reduction, each.from.data(), each.to.data(), each.count));
      }
      reduce(kernels, 3);
      for (Operands& each : all) {
        ASSERT_EQ(0, std::memcmp(each.expected.data(), each.to.data(), each.size_bytes))
            << each.count << " elements, " << each.from_shift << " and " << each.to_shift << " bytes behind a boundary";
      }
    }
  }
  EXPECT_GT(pairs, 150);
}

/// A value, FLOAT_INT, beside an index.
TEST(GpuReductions, find_the_place_of_floats) {
  struct Located {
    float value;
    int index;
  };
  const std::vector<Located> from = {{1, 5}, {2, 3}, {2, 9}, {-1, 0}}, before = {{2, 1}, {2, 7}, {2, 4}, {-3, 8}};
  for (const MPI_Op op : {MPI_MINLOC, MPI_MAXLOC}) {
    std::vector<Located> to = before, expected = before;
    ASSERT_EQ(MPI_SUCCESS, PMPI_Reduce_local(from.data(), expected.data(), 4, MPI_FLOAT_INT, op));
    reduce(gpu_reduction(op, MPI_FLOAT_INT), reinterpret_cast<const std::byte*>(from.data()),
           reinterpret_cast<std::byte*>(to.data()), to.size(), 2);
    for (std::size_t i = 0; i < to.size(); ++i) {
      EXPECT_EQ(expected[i].value, to[i].value) << i;
      EXPECT_EQ(expected[i].index, to[i].index) << i;
    }
  }
}

/// So that ranks that have the two the other way round get the same bits.
template <class T, class Bits>
void expect_the_same_either_way(MPI_Datatype datatype) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> values = {T{0},
                                 -T{0},
                                 T{1},
                                 -T{1},
                                 Limits::infinity(),
                                 -Limits::infinity(),
                                 Limits::quiet_NaN(),
                                 -Limits::quiet_NaN(),
                                 Limits::denorm_min()};
  for (const MPI_Op op : {MPI_MIN, MPI_MAX}) {
    const auto reduction = gpu_reduction(op, datatype);
    for (const T a : values) {
      for (const T b : values) {
        T one = b, other = a;
        reduce(reduction, reinterpret_cast<const std::byte*>(&a), reinterpret_cast<std::byte*>(&one), 1, 1);
        reduce(reduction, reinterpret_cast<const std::byte*>(&b), reinterpret_cast<std::byte*>(&other), 1, 1);
        EXPECT_EQ(__builtin_bit_cast(Bits, one), __builtin_bit_cast(Bits, other)) << a << " and " << b;
        EXPECT_EQ(std::isnan(one), std::isnan(a) || std::isnan(b)) << a << " and " << b;
        if (a != 0 || b != 0) continue;
        const bool negative = op == MPI_MIN ? std::signbit(a) || std::signbit(b) : std::signbit(a) && std::signbit(b);
        EXPECT_EQ(std::signbit(one), negative) << a << " and " << b;
      }
    }
  }
}

TEST(GpuReductions, do_not_depend_on_the_order_of_two_numbers) {
  expect_the_same_either_way<float, std::uint32_t>(MPI_FLOAT);
  expect_the_same_either_way<double, std::uint64_t>(MPI_DOUBLE);
}

/// Which the MPI does not know: beside what hosts compute.
TEST(GpuReductions, of_16_bit_floats_give_what_those_of_hosts_give) {
  for (const auto format : {collective::SmallFloat::float16, collective::SmallFloat::bfloat16}) {
    for (const MPI_Op op : {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX}) {
      std::mt19937 random(11);
      std::vector<std::uint16_t> from(1001), to(1001);
      for (auto* values : {&from, &to}) {
        for (std::uint16_t& value : *values) value = static_cast<std::uint16_t>(random() & 0xbfff);  // numbers all
      }
      std::vector<std::uint16_t> expected = to;
      const auto bytes = static_cast<std::int64_t>(2 * to.size());
      collective::Reduction(op, MPI_UINT16_T, format)
          .apply(reinterpret_cast<const std::byte*>(from.data()), reinterpret_cast<std::byte*>(expected.data()), bytes,
                 2);
      reduce(gpu_reduction(op, MPI_UINT16_T, format), reinterpret_cast<const std::byte*>(from.data()),
             reinterpret_cast<std::byte*>(to.data()), to.size(), 3);
      EXPECT_EQ(expected, to);
    }
  }
}

TEST(GpuReductions, refuse_what_gpus_do_not_compute) {
  EXPECT_THROW(gpu_reduction(MPI_SUM, MPI_LONG_DOUBLE), Error);
  EXPECT_THROW(gpu_reduction(MPI_SUM, MPI_C_LONG_DOUBLE_COMPLEX), Error);
  EXPECT_THROW(gpu_reduction(MPI_MAXLOC, MPI_LONG_DOUBLE_INT), Error);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op);
  EXPECT_THROW(gpu_reduction(op, MPI_INT), Error);
  MPI_Op_free(&op);
}

}  // namespace
}  // namespace partita::test
