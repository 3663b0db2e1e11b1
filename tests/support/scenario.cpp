#include "support/scenario.hpp"

#include <algorithm>
#include <numeric>

namespace partita::test {
namespace {

struct Basic {
  MPI_Datatype type;
  int size_bytes;
  const char* name;
};

Basic random_basic(Random& random) {
  return random.of(std::vector<Basic>{{MPI_BYTE, 1, "byte"},
                                      {MPI_SHORT, sizeof(short), "short"},
                                      {MPI_INT, sizeof(int), "int"},
                                      {MPI_DOUBLE, sizeof(double), "double"}});
}

int random_partitions(Random& random) {
  if (random.one_in(12)) return random.integer(41, 300);
  return random.one_in(3) ? random.integer(9, 40) : random.integer(1, 8);
}

Memory random_memory(Random& random) {
  return random.one_in(2) ? Memory::mpi_alloc : Memory::plain;
}

/// What the two sides' memory is where GPU memory is wanted: a GPU's on both of them, or on either.
void move_into_gpu_memory(Random& random, Side& send, Side& recv) {
  const int where = random.integer(0, 2);
  if (where != 1) send.memory = Memory::gpu;
  if (where != 2) recv.memory = Memory::gpu;
}

/// Most often small, seldom large: uniform in the number of digits.
std::int64_t random_bytes(Random& random, std::int64_t most) {
  std::int64_t bytes = 1;
  while (bytes < most && !random.one_in(14)) bytes *= 2;
  return random.between(bytes / 2, std::min(most, bytes));
}

}  // namespace

Scenario Scenario::random(Random& random) {
  constexpr std::int64_t most_bytes = 1 << 20;
  for (;;) {
    Scenario s;
    const Basic basic = random_basic(random);
    const TypedLayout element = TypedLayout::basic(basic.type, basic.size_bytes, basic.name);
    s.basic = basic.type;
    s.basic_bytes = basic.size_bytes;
    s.send = {element, random_partitions(random), 0, random_memory(random)};
    s.recv = {element, random_partitions(random), 0, random_memory(random)};
    if (gpu_memory_is_wanted()) move_into_gpu_memory(random, s.send, s.recv);
    s.send.layout = TypedLayout::random(random, element, 3, true);
    s.recv.layout = TypedLayout::random(random, element, 3, false);
    s.tag = random.integer(0, 3);
    s.epochs = random.integer(1, 4);
    if (random.one_in(2)) s.transport_partitions = random.integer(1, s.send.partitions + 3);
    const std::int64_t unit =
        std::lcm(s.send.partitions * s.send.layout.basics(), s.recv.partitions * s.recv.layout.basics());
    const std::int64_t unit_bytes = unit * basic.size_bytes;
    if (unit_bytes > most_bytes) continue;
    const std::int64_t units =
        random.one_in(15) ? 0 : std::max<std::int64_t>(1, random_bytes(random, most_bytes) / unit_bytes);
    s.send.count = units * unit / (s.send.partitions * s.send.layout.basics());
    s.recv.count = units * unit / (s.recv.partitions * s.recv.layout.basics());
    if (!s.recv.layout.overlaps_itself(std::min<std::int64_t>(s.recv.elements(), 200))) return s;
  }
}

Scenario Scenario::of_bytes(int send_partitions, int recv_partitions, std::int64_t total_bytes) {
  Scenario s;
  const TypedLayout byte = TypedLayout::basic(MPI_BYTE, 1, "byte");
  s.send = {byte, send_partitions, total_bytes / send_partitions, Memory::plain};
  s.recv = {byte, recv_partitions, total_bytes / recv_partitions, Memory::plain};
  return s;
}

std::pair<int, int> Scenario::senders_of(int r) const {
  const std::int64_t sends = send.partitions, recvs = recv.partitions;
  return {static_cast<int>(r * sends / recvs), static_cast<int>(((r + 1) * sends - 1) / recvs)};
}

std::vector<std::uint8_t> Scenario::expected(std::uint64_t key) const {
  Buffer shadow(send.layout, send.elements(), Memory::plain);
  shadow.write_pattern(key, 0, total_bytes());
  return shadow.packed();
}

MPI_Info Scenario::make_info() const {
  if (transport_partitions == 0) return MPI_INFO_NULL;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  const std::string value = std::to_string(transport_partitions);
  MPI_Info_set(info, "partita_transport_partitions", value.c_str());
  return info;
}

std::string Scenario::text() const {
  const auto side = [](const Side& s) {
    return std::to_string(s.partitions) + " partitions of " + std::to_string(s.count) + " x " + s.layout.text() +
           " in " + name_of(s.memory);
  };
  return side(send) + " to " + side(recv) + ", " + std::to_string(total_bytes()) + " bytes, tag " +
         std::to_string(tag) +
         (transport_partitions == 0 ? "" : ", transport partitions " + std::to_string(transport_partitions));
}

}  // namespace partita::test
