#include "link/registry.hpp"

#include "link/direct/direct.hpp"
#include "link/mpi/mpi.hpp"
#include "link/ucx/ucx.hpp"

namespace partita::link {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Link> (*make)(const Context&);
};

constexpr Row table[] = {
    {"direct", make_direct},
    {"ucx", make_ucx},
    {"mpi", make_mpi},
};

}  // namespace

std::vector<std::string_view> link_names() {
  std::vector<std::string_view> names;
  for (const Row& row : table) names.push_back(row.name);
  return names;
}

std::vector<std::unique_ptr<Link>> make_links(const Context& context) {
  std::vector<std::unique_ptr<Link>> links;
  for (const Row& row : table) links.push_back(row.make(context));
  return links;
}

}  // namespace partita::link
