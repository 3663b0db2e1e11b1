#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "apps/jacobi2d/gpu/nccl.hpp"

namespace jacobi2d::gpu {
namespace {

constexpr int success = 0;
constexpr int type_double = 8;  // ncclFloat64

std::vector<std::string> names_to_try(const std::string& path) {
  if (!path.empty()) return {path};
  const char* const from_environment = std::getenv("NCCL_LIBRARY");
  if (from_environment != nullptr && *from_environment != '\0') return {from_environment};
  return {"libnccl.so.2", "libnccl.so"};
}

void* open_library(const std::string& path) {
  std::string tried;
  for (const std::string& name : names_to_try(path)) {
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* const reason = dlerror();
    tried += fmt::format("{}{}", tried.empty() ? "" : "; ", reason != nullptr ? reason : name);
  }
  throw std::runtime_error(
      fmt::format("mode nccl cannot load NCCL ({}); --nccl or NCCL_LIBRARY gives its path", tried));
}

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(fmt::format("mode nccl: the NCCL that was loaded has no {}", name));
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string& path) {
  // Send and receive do not use NVLink's multicast, and setting it up asks for rights on the whole host.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  void* const library = open_library(path);
  find(library, "ncclGetUniqueId", get_unique_id);
  find(library, "ncclCommInitRank", comm_init_rank);
  find(library, "ncclCommDestroy", comm_destroy);
  find(library, "ncclGroupStart", group_start);
  find(library, "ncclGroupEnd", group_end);
  find(library, "ncclSend", send);
  find(library, "ncclRecv", recv);
  find(library, "ncclGetErrorString", get_error_string);
}

void NcclLibrary::check(int code, const char* call) const {
  if (code == success) return;
  throw std::runtime_error(fmt::format("jacobi2d: mode nccl: {} failed: {}.", call, get_error_string(code)));
}

Nccl::Nccl(const NcclLibrary& library, MPI_Comm comm) : library_(library) {
  int ranks = 1, rank = 0;
  MPI_Comm_size(comm, &ranks);
  MPI_Comm_rank(comm, &rank);
  NcclLibrary::UniqueId id{};
  if (rank == 0) library_.check(library_.get_unique_id(&id), "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof(id), MPI_CHAR, 0, comm);
  library_.check(library_.comm_init_rank(&comm_, ranks, id, rank), "ncclCommInitRank");
}

Nccl::~Nccl() {
  library_.comm_destroy(comm_);
}

void Nccl::begin_group() {
  library_.check(library_.group_start(), "ncclGroupStart");
}
void Nccl::end_group() {
  library_.check(library_.group_end(), "ncclGroupEnd");
}
void Nccl::send(const double* data, int count, int peer, cudaStream_t stream) {
  library_.check(library_.send(data, static_cast<std::size_t>(count), type_double, peer, comm_, stream), "ncclSend");
}
void Nccl::receive(double* data, int count, int peer, cudaStream_t stream) {
  library_.check(library_.recv(data, static_cast<std::size_t>(count), type_double, peer, comm_, stream), "ncclRecv");
}

}  // namespace jacobi2d::gpu
