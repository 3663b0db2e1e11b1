// A command line for readers.
#pragma once

#include <span>
#include <string>

namespace partita::apps {

/// `words` as a shell takes them, with the files of paths alone, since where they lie is nobody else's matter.
std::string shown_command(std::span<const std::string> words);

/// Shows the command that has started this process likewise; empty where the system does not tell.
std::string own_command();

}  // namespace partita::apps
