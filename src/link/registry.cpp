#include "link/registry.hpp"

#include "link/direct/direct.hpp"
#include "link/mpi/mpi.hpp"

namespace partita::link {

std::vector<std::unique_ptr<Link>> make_links(const Context& context) {
  std::vector<std::unique_ptr<Link>> links;
  links.push_back(make_direct(context));
  links.push_back(make_mpi(context));
  return links;
}

}  // namespace partita::link
