#include "bench/gpu/cpu_mapping.hpp"

#include <cuda.h>
#include <dlfcn.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "apps/support/shared_library.hpp"
#include "bench/failure.hpp"

namespace partita::bench::gpu {

namespace {

constexpr auto mapped_size = static_cast<std::size_t>(cpu_mapped_bytes);

// ---- GDRCopy --------------------------------------------------------------------------------------------------------

/// What is used of its API, version 2 (gdrapi.h).
struct GdrCopy {
  struct Memory {
    unsigned long handle;
  };
  void* (*open)();
  int (*close)(void* session);
  int (*pin_buffer)(void* session, unsigned long address, std::size_t size, std::uint64_t token, std::uint32_t va_space,
                    Memory* memory);
  int (*unpin_buffer)(void* session, Memory memory);
  int (*map)(void* session, Memory memory, void** mapped, std::size_t size);
  int (*unmap)(void* session, Memory memory, void* mapped, std::size_t size);
  int (*copy_to_mapping)(Memory memory, void* mapped, const void* from, std::size_t size);
  int (*copy_from_mapping)(Memory memory, void* to, const void* mapped, std::size_t size);

  /// Throws std::runtime_error.
  GdrCopy() {
    const apps::SharedLibrary library("GDRCopy", {"libgdrapi.so.2"});
    library.take("gdr_open", open);
    library.take("gdr_close", close);
    library.take("gdr_pin_buffer", pin_buffer);
    library.take("gdr_unpin_buffer", unpin_buffer);
    library.take("gdr_map", map);
    library.take("gdr_unmap", unmap);
    library.take("gdr_copy_to_mapping", copy_to_mapping);
    library.take("gdr_copy_from_mapping", copy_from_mapping);
  }
};

/// An allocation of 2 MiB begins with a page of the GPU's, so what is mapped begins with it, too.
class GdrMapping final : public CpuMapping {
 public:
  /// Throws std::runtime_error where GDRCopy cannot map it.
  explicit GdrMapping(std::byte* allocation) {
    session_ = calls_.open();
    if (session_ == nullptr) throw std::runtime_error("GDRCopy: gdr_open fails: its kernel module is not loaded.");
    try {
      check(calls_.pin_buffer(session_, reinterpret_cast<unsigned long>(allocation), mapped_size, 0, 0, &memory_),
            "gdr_pin_buffer");
      is_pinned_ = true;
      check(calls_.map(session_, memory_, &mapped_, mapped_size), "gdr_map");
    } catch (...) {
      end();
      throw;
    }
  }
  ~GdrMapping() override { end(); }
  GdrMapping(const GdrMapping&) = delete;
  GdrMapping& operator=(const GdrMapping&) = delete;

  void read(void* to, std::size_t size_bytes) const override {
    check(calls_.copy_from_mapping(memory_, to, mapped_, size_bytes), "gdr_copy_from_mapping");
  }
  void write(const void* from, std::size_t size_bytes) const override {
    check(calls_.copy_to_mapping(memory_, mapped_, from, size_bytes), "gdr_copy_to_mapping");
  }

 private:
  static void check(int code, const char* call) {
    if (code != 0) throw Failure("GDRCopy: {} fails with code {}.", call, code);
  }
  void end() {
    if (mapped_ != nullptr) calls_.unmap(session_, memory_, mapped_, mapped_size);
    if (is_pinned_) calls_.unpin_buffer(session_, memory_);
    calls_.close(session_);
  }

  const GdrCopy calls_;
  void* session_ = nullptr;
  GdrCopy::Memory memory_{};
  bool is_pinned_ = false;
  void* mapped_ = nullptr;
};

// ---- dma-buf --------------------------------------------------------------------------------------------------------

/// A file that stands for memory of a GPU, mapped as files are.
class DmaBufMapping final : public CpuMapping {
 public:
  /// Throws std::runtime_error where the driver does not allow it.
  explicit DmaBufMapping(std::byte* allocation) : file_(file_of(allocation)) {
    mapped_ = mmap(nullptr, mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (mapped_ == MAP_FAILED) {
      const int code = errno;
      close(file_);
      throw Failure("dma-buf: the driver refuses to map it: {}.", std::strerror(code));
    }
  }
  ~DmaBufMapping() override {
    munmap(mapped_, mapped_size);
    close(file_);
  }
  DmaBufMapping(const DmaBufMapping&) = delete;
  DmaBufMapping& operator=(const DmaBufMapping&) = delete;

  void read(void* to, std::size_t size_bytes) const override {
    tell(DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
    std::memcpy(to, mapped_, size_bytes);
    tell(DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
  }
  /// Stores may be combined on their way: the fence lets none of them wait for more.
  void write(const void* from, std::size_t size_bytes) const override {
    tell(DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE);
    std::memcpy(mapped_, from, size_bytes);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    tell(DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE);
  }

 private:
  using GetHandle = CUresult (*)(void*, CUdeviceptr, std::size_t, CUmemRangeHandleType, unsigned long long);
  /// The driver's function under its exported name: the program links no driver.
  static int file_of(std::byte* allocation) {
    static void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    static const auto get_handle =
        driver == nullptr ? nullptr : reinterpret_cast<GetHandle>(dlsym(driver, "cuMemGetHandleForAddressRange"));
    if (get_handle == nullptr) throw std::runtime_error("dma-buf: the driver has no cuMemGetHandleForAddressRange.");
    int file = -1;
    const CUresult code = get_handle(&file, reinterpret_cast<CUdeviceptr>(allocation), mapped_size,
                                     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (code != CUDA_SUCCESS)
      throw Failure("dma-buf: cuMemGetHandleForAddressRange fails with code {}.", static_cast<int>(code));
    return file;
  }
  void tell(std::uint64_t flags) const {
    const dma_buf_sync sync{flags};
    if (ioctl(file_, DMA_BUF_IOCTL_SYNC, &sync) != 0)
      throw Failure("dma-buf: DMA_BUF_IOCTL_SYNC fails: {}.", std::strerror(errno));
  }

  const int file_;
  void* mapped_ = nullptr;
};

/// Null where it cannot be had, for a reason that is added to `reasons`.
template <class Mapping>
std::unique_ptr<CpuMapping> try_to_map(std::byte* allocation, std::string& reasons) {
  try {
    return std::make_unique<Mapping>(allocation);
  } catch (const std::runtime_error& error) {
    reasons += (reasons.empty() ? "" : " ") + std::string(error.what());
    return nullptr;
  }
}

}  // namespace

CpuMapped map_for_cpu(std::byte* allocation) {
  CpuMapped mapped;
  mapped.mapping = try_to_map<GdrMapping>(allocation, mapped.why_not);
  if (mapped.mapping == nullptr) mapped.mapping = try_to_map<DmaBufMapping>(allocation, mapped.why_not);
  return mapped;
}

}  // namespace partita::bench::gpu
