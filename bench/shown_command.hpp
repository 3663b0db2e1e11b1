// A command line for readers.
#pragma once

#include <span>
#include <string>

namespace partita::bench {

/// `words` as a shell takes them, with the files of paths alone, since where they lie is nobody else's matter.
std::string shown_command(std::span<const std::string> words);

}  // namespace partita::bench
