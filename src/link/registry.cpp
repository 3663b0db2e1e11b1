#include "link/registry.hpp"

namespace partita::link {

std::vector<std::unique_ptr<Link>> make_links(const Context& context) {
  std::vector<std::unique_ptr<Link>> links;
#define PARTITA_LINK(name) links.push_back(make_##name(context));
#include "link/links.inc"
#undef PARTITA_LINK
  return links;
}

}  // namespace partita::link
