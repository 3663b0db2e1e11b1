// Whether a process can come to have memory of a GPU, before anybody loads the driver.
#pragma once

#include <filesystem>

namespace partita::memory {

/// Whether the system below `root` ("/") has a device by which a CUDA driver reaches a GPU, or shows a GPU for which a
/// driver may make one when it is first used. Reads a few small files, and loads and starts nothing.
bool sees_gpus(const std::filesystem::path& root);

}  // namespace partita::memory
