// How an app ends before any work.
#pragma once

#include <string>

namespace partita::apps {

/// Help (exit code 0) or what is wrong with the options (2).
struct Exit {
  int code = 0;
  std::string text;
};

}  // namespace partita::apps
