// Which sources this program was built from.
#pragma once

#include <string_view>

namespace partita::apps {

/// The git commit, abbreviated, with "-dirty" where tracked files had changes; "unknown" where the sources were no git
/// checkout. cmake/PartitaRevision.cmake writes its body.
std::string_view revision();

}  // namespace partita::apps
