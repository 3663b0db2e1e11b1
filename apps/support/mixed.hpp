// Numbers that look random and follow from a place.
#pragma once

#include <cstdint>

namespace partita::apps {

/// Steele, Lea and Flood's SplitMix64.
constexpr std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

}  // namespace partita::apps
