// Epochs of a partitioned request that kernels open, as a queue's stream opens and awaits them without the CPU.
#pragma once

#include <string>

#include "memory/message_run.hpp"
#include "partitioned/facets.hpp"
#include "partitioned/gpu/device_request.hpp"

namespace partita {

/// Part of a device-driven request: kernels of the library's do what MPIX_Pstart and MPIX_Pwait do in one of the
/// program's, which alone mark. All that counts epochs lies in GPU memory, so that both may take turns.
/// docs/design/queues.md, "Partitioned requests".
class StreamEpochs final : public StreamRunnable {
 public:
  /// `owner` may be made later than this, and has `device`.
  StreamEpochs(DeviceRequest& device, DeviceRequest::Owner& owner) : device_(device), owner_(owner) {}
  StreamEpochs(const StreamEpochs&) = delete;
  StreamEpochs& operator=(const StreamEpochs&) = delete;

  std::string why_not_on(const memory::Stream& stream, bool captured) const override;
  void enqueue_start(memory::Stream& stream, bool captured, memory::MessageRun& together) override;
  bool ends_with_a_start() const override { return true; }
  void enqueue_wait(memory::Stream& stream, memory::MessageRun& together) override;
  void pass_wait() override;
  std::span<const std::byte> words_on_gpu() const override { return device_.words_on_gpu(); }
  std::optional<Held> held() const override { return device_.held(); }

 private:
  bool is_sent() const { return (owner_.sides() & PARTITA_PREQUEST_SEND) != 0; }

  DeviceRequest& device_;
  DeviceRequest::Owner& owner_;
};

}  // namespace partita
