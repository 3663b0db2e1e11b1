#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "contract/gpu_program.hpp"
#include "support/queue_kind.hpp"

namespace partita::test {
namespace {

struct OneStream {
  ProgramStream stream;
  void* native = stream.native();
};
std::map<int, std::unique_ptr<OneStream>> streams;

/// Ends them while CUDA still runs.
class StreamsEnd final : public testing::Environment {
  void TearDown() override { streams.clear(); }
};
[[maybe_unused]] const testing::Environment* const streams_end = testing::AddGlobalTestEnvironment(new StreamsEnd);

}  // namespace

Partita_Queue_type queue_type() {
  return PARTITA_QUEUE_CUDA;
}

void* queue_stream(int which) {
  std::unique_ptr<OneStream>& found = streams[which];
  if (found == nullptr) {
    choose_gpu();
    found = std::make_unique<OneStream>();
  }
  return &found->native;
}

bool queue_runs_ahead() {
  return true;
}

}  // namespace partita::test
