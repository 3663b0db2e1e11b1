#include "bench/subjects.hpp"

#include <partita/partita.h>

#include <filesystem>

#include "bench/failure.hpp"
#include "bench/function_calls.hpp"
#include "bench/isend_subject.hpp"
#include "bench/partita_calls.hpp"
#include "bench/partitioned_subject.hpp"
#include "bench/persistent_subject.hpp"

namespace partita::bench {

namespace {

Buffer partita_buffer(std::size_t size_bytes) {
  void* base = nullptr;
  check(Partita_Alloc(static_cast<MPI_Aint>(size_bytes), MPI_INFO_NULL, &base), "Partita_Alloc");
  return {base, size_bytes, [](void* memory) { Partita_Free(memory); }};
}

Buffer mpi_buffer(std::size_t size_bytes) {
  void* base = nullptr;
  check(MPI_Alloc_mem(static_cast<MPI_Aint>(size_bytes), MPI_INFO_NULL, &base), "MPI_Alloc_mem");
  return {base, size_bytes, [](void* memory) { MPI_Free_mem(memory); }};
}

std::function<Buffer(std::size_t)> allocator(Memory memory, Buffer (*alloc)(std::size_t)) {
  return memory == Memory::plain ? plain_buffer : alloc;
}

/// Info keys for Partita's requests.
OwnedInfo request_info(const std::string& link, int transport_partitions) {
  OwnedInfo info(MPI_INFO_NULL);
  check(PMPI_Info_create(info.out()), "MPI_Info_create");
  check(PMPI_Info_set(info.get(), "partita_link", link.c_str()), "MPI_Info_set");
  if (transport_partitions > 0) {
    check(PMPI_Info_set(info.get(), "partita_transport_partitions", std::to_string(transport_partitions).c_str()),
          "MPI_Info_set");
  }
  return info;
}

/// partita-c, or partita-c:mpi where a link was asked for by name.
std::string subject_name(const char* face, const std::string& link) {
  return link == "auto" ? face : fmt::format("{}:{}", face, link);
}

std::unique_ptr<Subject> make_partita_c(const Options& options, const std::string& link, std::string name) {
  PartitionedSetup setup;
  setup.name = std::move(name);
  setup.allocate = allocator(options.memory, partita_buffer);
  setup.info = request_info(link, options.transport_partitions);
  return std::make_unique<PartitionedSubject<PartitaCalls>>(PartitaCalls{}, std::move(setup));
}

/// The standard names tell nothing of links, so a request of the C API with the same options does.
std::unique_ptr<Subject> make_partita_mpi(const Options& options, const std::string& link) {
  PartitionedSetup setup;
  setup.name = subject_name("partita-mpi", link);
  setup.allocate = allocator(options.memory, mpi_buffer);
  setup.info = request_info(link, options.transport_partitions);
  setup.link_teller = make_partita_c(options, link, setup.name);
  return std::make_unique<PartitionedSubject<FunctionCalls<MPI_Request>>>(drop_in_calls(), std::move(setup));
}

std::unique_ptr<Subject> make_native(const Options& options, MPI_Comm comm) {
  PartitionedSetup setup;
  setup.name = "native";
  setup.own_comm = duplicate(comm);
  setup.allocate = allocator(options.memory, mpi_buffer);
  return std::make_unique<PartitionedSubject<FunctionCalls<MPI_Request>>>(native_calls(), std::move(setup));
}

std::unique_ptr<Subject> make_library(const Options& options, const PeerLibrary& library, MPI_Comm comm) {
  PartitionedSetup setup;
  setup.name = library.shown(std::filesystem::path(library.path).stem().string());
  if (!library.info.empty()) check(PMPI_Info_create(setup.info.out()), "MPI_Info_create");
  for (const auto& [key, value] : library.info) {
    check(PMPI_Info_set(setup.info.get(), key.c_str(), value.c_str()), "MPI_Info_set");
  }
  setup.own_comm = duplicate(comm);
  setup.allocate = allocator(options.memory, mpi_buffer);
  return std::make_unique<PartitionedSubject<FunctionCalls<void*>>>(library_calls(library.path), std::move(setup));
}

std::unique_ptr<Subject> make_partita(const Options& options, Face face, const std::string& link) {
  if (face == Face::mpi) return make_partita_mpi(options, link);
  return make_partita_c(options, link, subject_name("partita-c", link));
}

std::unique_ptr<Subject> make_peer(const Options& options, const std::string& peer, MPI_Comm comm) {
  if (peer == "native") return make_native(options, comm);
  if (peer == "isend") return make_isend(comm, options.memory);
  return make_library(options, parse_peer_library(peer), comm);
}

}  // namespace

std::vector<std::unique_ptr<Subject>> make_subjects(const Options& options, MPI_Comm comm) {
  std::vector<std::unique_ptr<Subject>> subjects;
  subjects.push_back(make_persistent(comm, options.memory));
  for (const Face face : options.faces) {
    for (const std::string& link : options.links) subjects.push_back(make_partita(options, face, link));
  }
  for (const std::string& peer : options.peers) subjects.push_back(make_peer(options, peer, comm));
  return subjects;
}

}  // namespace partita::bench
