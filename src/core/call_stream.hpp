// Which stream of the program's its calls on GPU memory come behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace partita {

/// A CUDA stream by its handle, or one of these. The numbers of the two default streams are CUDA's.
enum class CallStream : std::uintptr_t {
  none = 0,              ///< no stream: the program sees to it that its data is there
  legacy = 1,            ///< the default stream that a GPU has, of the GPU in which the buffers lie
  per_thread = 2,        ///< that of the calling thread on this GPU
  of_job = UINTPTR_MAX,  ///< as the environment says (PARTITA_GPU_AWARE_STREAM)
};

/// What a default stream, or none, is called; none where `text` is no such name.
std::optional<CallStream> parse_default_stream(const std::string& text);
/// The same, or the handle of a stream, not null, as a hexadecimal number with 0x in front.
std::optional<CallStream> parse_call_stream(const std::string& text);
/// What parse_call_stream() takes; not of_job.
std::string text_of(CallStream stream);

}  // namespace partita
