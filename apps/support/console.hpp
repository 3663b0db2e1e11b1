// What an app says, and what all apps say in the same words.
#pragma once

#include <string_view>

#include "apps/support/exit.hpp"

namespace partita::apps {

/// Prints on MPI_COMM_WORLD's rank 0, to standard output.
void say(std::string_view text);
/// Prints there to standard error; returns `code`.
int fail(int code, std::string_view text);

/// Prints what an app ends with before any work; returns its exit code.
int end(const Exit& exit);

/// Whether a result is that of one rank.
enum class Check { skipped, passed, failed };
std::string_view text_of(Check check);

}  // namespace partita::apps
