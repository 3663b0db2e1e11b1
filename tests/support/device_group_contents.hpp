// What the ranks of a DeviceGroup send in an epoch, and what each must receive.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "memory/reduce_bodies.cuh"
#include "support/device_group.hpp"

namespace partita::test {

using device::Combine;
using device::Element;
using Bytes = std::vector<unsigned char>;

inline constexpr const char* algorithm_names[] = {"in_packets", "in_buffers", "in_two_shots"};  ///< PARTITA_ALGORITHM_*
inline constexpr const char* collective_names[] = {"allreduce", "allgather", "reduce_scatter", "alltoall", "bcast"};

/// What rank `rank` sends in `epoch`: any bytes, but for floats such that are numbers and not too far apart.
inline Bytes contents(const GroupShape& shape, std::size_t rank, int epoch, std::size_t size_bytes) {
  std::minstd_rand random(static_cast<unsigned>(1000 * epoch) + static_cast<unsigned>(rank) + 1);
  Bytes bytes(size_bytes);
  const auto fill = [&](auto value) {
    using T = decltype(value);
    for (std::size_t at = 0; at + sizeof(T) <= size_bytes; at += sizeof(T)) {
      const auto drawn = static_cast<unsigned>(random()) >> 8;
      const T number = static_cast<T>(static_cast<int>(drawn % 65) - 32) / static_cast<T>(1 + drawn / 65 % 7);
      std::memcpy(&bytes[at], &number, sizeof(T));
    }
  };
  switch (shape.element) {
    case Element::f32:
    case Element::complex_f32:
    case Element::pair_f32:
      fill(float{});
      return bytes;
    case Element::f64:
    case Element::complex_f64:
    case Element::pair_f64:
      fill(double{});
      return bytes;
    default:
      break;
  }
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random() >> 8);
  if (shape.element == Element::f16 || shape.element == Element::bf16) {
    for (std::size_t at = 1; at < size_bytes; at += 2) bytes[at] = static_cast<unsigned char>(0x38 | bytes[at] % 9);
  }
  return bytes;
}

inline std::size_t bytes_of(Element element) {
  constexpr std::size_t bytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16, 8, 8, 8, 16, 2, 2};
  return bytes[static_cast<int>(element)];
}

/// Rank after rank by the kernel that reduces two; 16-bit floats in 32 bits.
inline Bytes reduced(const GroupShape& shape, const std::vector<Bytes>& all) {
  const auto count = all[0].size() / bytes_of(shape.element);
  if (shape.element == Element::f16 || shape.element == Element::bf16) {
    Bytes result(all[0].size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = [&](std::size_t r) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, &all[r][2 * i], 2);
        return shape.element == Element::f16 ? device::reduction::Float16::value(bits)
                                             : device::reduction::BFloat16::value(bits);
      };
      float sum = value(0);
      for (std::size_t r = 1; r < all.size(); ++r) {
        const float next = value(r);
        sum = shape.by == Combine::sum    ? sum + next
              : shape.by == Combine::prod ? sum * next
              : shape.by == Combine::min  ? std::min(sum, next)
                                          : std::max(sum, next);
      }
      const std::uint16_t bits = shape.element == Element::f16 ? device::reduction::Float16::bits(sum)
                                                               : device::reduction::BFloat16::bits(sum);
      std::memcpy(&result[2 * i], &bits, 2);
    }
    return result;
  }
  alignas(16) Bytes held = all[0];
  for (std::size_t r = 1; r < all.size(); ++r) {
    Bytes coming = all[r];
    memory::ReduceElements arguments;
    arguments.to = held.data();
    arguments.from = coming.data();
    arguments.count = count;
    arguments.element = shape.element;
    arguments.by = shape.by;
    memory::reduce_elements(arguments, {0, 1});
  }
  return held;
}

/// What `rank` must have received, of what all have sent.
inline Bytes expected(const GroupShape& shape, std::size_t rank, const std::vector<Bytes>& all) {
  const std::size_t block = shape.block_bytes;
  const auto part = [block](const Bytes& bytes, std::size_t index) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(block * index);
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(block));
  };
  Bytes result;
  const auto append = [&result](const Bytes& bytes) { result.insert(result.end(), bytes.begin(), bytes.end()); };
  std::vector<Bytes> blocks;
  switch (shape.collective) {
    case PARTITA_COLLECTIVE_ALLREDUCE:
      return reduced(shape, all);
    case PARTITA_COLLECTIVE_ALLGATHER:
      for (const Bytes& bytes : all) append(part(bytes, 0));
      return result;
    case PARTITA_COLLECTIVE_REDUCE_SCATTER:
      for (const Bytes& bytes : all) blocks.push_back(part(bytes, rank));
      return reduced(shape, blocks);
    case PARTITA_COLLECTIVE_ALLTOALL:
      for (const Bytes& bytes : all) append(part(bytes, rank));
      return result;
    default:
      return all[static_cast<std::size_t>(shape.root)];
  }
}

inline std::string text_of(const GroupShape& shape) {
  return std::string(algorithm_names[shape.algorithm]) + ", " + collective_names[shape.collective] + " of " +
         std::to_string(shape.block_bytes) + " bytes, " + std::to_string(shape.ranks) + " ranks, element " +
         std::to_string(static_cast<int>(shape.element)) + ", operation " + std::to_string(static_cast<int>(shape.by)) +
         (shape.in_place ? ", in place" : "") + ", " + std::to_string(shape.misaligned_bytes) +
         " bytes behind a boundary";
}

/// What all ranks send in an epoch, and what each must receive.
struct EpochOfGroup {
  EpochOfGroup(const GroupShape& shape, int epoch, std::size_t sent_bytes) {
    const auto ranks = static_cast<std::size_t>(shape.ranks);
    for (std::size_t r = 0; r < ranks; ++r) sent.push_back(contents(shape, r, epoch, sent_bytes));
    const bool alike =
        shape.collective == PARTITA_COLLECTIVE_ALLREDUCE || shape.collective == PARTITA_COLLECTIVE_ALLGATHER;
    for (std::size_t r = 0; r < ranks; ++r) {
      received.push_back(alike && r > 0 ? received[0] : expected(shape, r, sent));
    }
  }

  std::vector<Bytes> sent, received;
};

/// A collective by one of its algorithms.
struct Way {
  partita_u32 collective;
  partita_u32 algorithm;
};

inline GroupShape shape_of(const Way& way, int ranks, std::size_t block_bytes) {
  GroupShape shape;
  shape.collective = way.collective;
  shape.algorithm = way.algorithm;
  shape.ranks = ranks;
  shape.block_bytes = block_bytes;
  return shape;
}

inline std::vector<Way> ways_of(const std::vector<partita_u32>& collectives) {
  std::vector<Way> ways;
  for (const partita_u32 collective : collectives) {
    ways.push_back({collective, PARTITA_ALGORITHM_PACKETS});
    ways.push_back({collective, PARTITA_ALGORITHM_BUFFERS});
    if (collective == PARTITA_COLLECTIVE_ALLREDUCE) ways.push_back({collective, PARTITA_ALGORITHM_TWO_SHOT});
  }
  return ways;
}
inline const auto name_of_way = [](const testing::TestParamInfo<Way>& info) {
  return std::string(collective_names[info.param.collective]) + "_" + algorithm_names[info.param.algorithm];
};
/// Every collective in each way.
inline std::vector<Way> every_way() {
  return ways_of({PARTITA_COLLECTIVE_ALLREDUCE, PARTITA_COLLECTIVE_ALLGATHER, PARTITA_COLLECTIVE_REDUCE_SCATTER,
                  PARTITA_COLLECTIVE_ALLTOALL, PARTITA_COLLECTIVE_BCAST});
}

}  // namespace partita::test
