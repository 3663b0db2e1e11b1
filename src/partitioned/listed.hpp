// Numbers in a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// " (1, 2, 5, …)": the first few of `numbers`; nothing of none.
std::string listed(const std::vector<std::int64_t>& numbers);

}  // namespace partita
