#include "runtime/agreed_tuning.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "collective/tuning_file.hpp"
#include "core/agreement.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {

/// Far more than rules for every size, collective and number of ranks take.
constexpr std::size_t most_bytes = std::size_t{16} << 20;

std::string read_file(const std::string& file) {
  const auto fail = [&] { throw Error(ErrorClass::arg, "{} cannot be read: {}", file, std::strerror(errno)); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "rb"), &std::fclose);
  if (in == nullptr) fail();
  std::string text;
  std::array<char, 4096> piece{};
  for (std::size_t got = 1; got > 0 && text.size() <= most_bytes;) {
    got = std::fread(piece.data(), 1, piece.size(), in.get());
    if (std::ferror(in.get()) != 0) fail();
    text.append(piece.data(), got);
  }
  if (text.size() > most_bytes) {
    throw Error(ErrorClass::arg, "{} has more than {} bytes; expected is a file of partita tune", file, most_bytes);
  }
  return text;
}

}  // namespace

collective::Tuning agreed_tuning(const Settings& settings, const World& world) {
  const bool reads = world.rank() == 0;
  int is_wanted = settings.tuning_file.empty() ? 0 : 1;
  PARTITA_MPI(Bcast(&is_wanted, 1, MPI_INT, 0, world.control()));
  if (is_wanted == 0) return {};
  std::string text;
  collective::Tuning tuning;
  constexpr const char* what = "take the rules of PARTITA_TUNING";
  do_together(world.control(), what, [&] {
    if (!reads) return;
    text = read_file(settings.tuning_file);
    tuning = collective::read_tuning(settings.tuning_file, text);
  });
  int size_bytes = static_cast<int>(text.size());
  PARTITA_MPI(Bcast(&size_bytes, 1, MPI_INT, 0, world.control()));
  do_together(world.control(), what, [&] { text.resize(static_cast<std::size_t>(size_bytes)); });
  PARTITA_MPI(Bcast(text.data(), size_bytes, MPI_CHAR, 0, world.control()));
  do_together(world.control(), what, [&] {
    if (!reads) tuning = collective::read_tuning("rank 0's PARTITA_TUNING", text);
  });
  return tuning;
}

}  // namespace partita
