// GPU memory of a build without CUDA: there is none.
#include <cstring>

#include "core/error.hpp"
#include "memory/device.hpp"

namespace partita::memory {
namespace {

class NoDeviceMemory final : public DeviceMemory {
 public:
  bool exists() const override { return false; }
  bool in_use() const override { return false; }
  Place place_of(const void*, std::size_t) override { return {}; }
  std::variant<DeviceExport, NotMappable> export_to(int, const void*, std::size_t) override { refuse("export"); }
  std::string why_not_exported(const void*, std::size_t) override { refuse("export"); }
  std::variant<std::shared_ptr<std::byte>, NotMappable> import(int, const DeviceExport&, int, Closing) override {
    refuse("import");
  }
  std::shared_ptr<std::byte> find_mapping(int, const DeviceExport&, int) override { return nullptr; }
  void decline(int, const DeviceExport&) override {}
  std::uint64_t memory_bytes(int) override { return 0; }
  std::byte* allocate_block(int, std::size_t) override { refuse("allocate"); }
  void free_block(int, std::byte*, std::size_t) override { refuse("free"); }
  std::byte* device_pointer(int, std::byte*) override { refuse("register"); }
  std::unique_ptr<Stream> make_stream(int) override { refuse("copy"); }
  std::unique_ptr<Stream> stream_of_program(void*) override {
    throw Error(ErrorClass::other, "there are no CUDA streams: this Partita was built without CUDA");
  }
  std::unique_ptr<Event> make_event(int) override { refuse("copy"); }
  void copy(void* to, const void* from, std::size_t size_bytes) override { std::memcpy(to, from, size_bytes); }
  void check(int) override {}
  std::uint64_t trim(std::size_t, Closing) override { return 0; }
  void make_current(int) override {}

 private:
  [[noreturn]] static void refuse(const char* action) {
    throw Error(ErrorClass::other, "cannot {} GPU memory: this Partita was built without CUDA", action);
  }
};

}  // namespace

std::string describe_gpus() {
  return "no GPUs: this Partita was built without CUDA";
}

std::unique_ptr<DeviceMemory> make_device_memory(World&, HostMemory&) {
  return std::make_unique<NoDeviceMemory>();
}

}  // namespace partita::memory
