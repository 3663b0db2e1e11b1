// Which systems a process can come to have GPU memory on.
#include "memory/gpu_presence.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace partita::memory {
namespace {

namespace fs = std::filesystem;

class SystemWith : public testing::Test {
 protected:
  SystemWith() { fs::create_directories(root); }
  ~SystemWith() override { fs::remove_all(root); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text << "\n";
  }
  void plug_in(const std::string& card, const std::string& vendor, const std::string& kind) const {
    write("sys/bus/pci/devices/" + card + "/vendor", vendor);
    write("sys/bus/pci/devices/" + card + "/class", kind);
  }

  const fs::path root = fs::path(testing::TempDir()) / ("gpu_presence_" + std::to_string(::getpid()));
};

TEST_F(SystemWith, nothing_has_none) {
  EXPECT_FALSE(sees_gpus(root));
  EXPECT_FALSE(sees_gpus(root / "missing"));
}

TEST_F(SystemWith, a_device_of_a_driver_has_some) {
  for (const char* device : {"dev/nvidiactl", "dev/dxg", "dev/nvhost-ctrl-gpu", "dev/nvgpu", "dev/nvmap"}) {
    write(device, "");
    EXPECT_TRUE(sees_gpus(root)) << device;
    fs::remove(root / device);
  }
  EXPECT_FALSE(sees_gpus(root));
}

/// Nobody has used it yet, so that it has no device.
TEST_F(SystemWith, a_card_has_some) {
  plug_in("0000:00:01.0", "0x8086", "0x030000");
  plug_in("0000:00:02.0", "0x10de", "0x040300");
  EXPECT_FALSE(sees_gpus(root)) << "another maker's, and a card that sounds";
  plug_in("0000:00:03.0", "0x10de", "0x030200");
  EXPECT_TRUE(sees_gpus(root));
}

}  // namespace
}  // namespace partita::memory
