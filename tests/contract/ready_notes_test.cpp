// Notes that receivers are ready, on the fake GPU, whose streams take a while for everything.
#include "partitioned/gpu/ready_notes.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "contract/gpu_job.hpp"
#include "contract/gpu_program.hpp"
#include "support/fake_gpu.hpp"

namespace partita::test {
namespace {

class Notes : public GpuJob {
 protected:
  Epoch* word(const memory::DeviceBlock& block) { return reinterpret_cast<Epoch*>(block.address()); }
  static Epoch seen(Epoch* word) { return std::atomic_ref(*word).load(std::memory_order_acquire); }
};

TEST_F(Notes, come_in_order_each_to_its_word) {
  const memory::DeviceBlock block(device_memory(), gpu(), 2 * sizeof(Epoch));
  ReadyNotes notes(host_memory(), device_memory());
  for (int times = 0; times < 2; ++times) notes.set_up(gpu());
  for (Epoch epoch = 1; epoch <= 20; ++epoch) {
    notes.send(gpu(), word(block), epoch);
    notes.send(gpu(), word(block) + 1, 100 + epoch);
  }
  notes.drain(gpu());
  EXPECT_EQ(seen(word(block)), 20U);
  EXPECT_EQ(seen(word(block) + 1), 120U);
  notes.drain(gpu());
}

/// More than a stream takes would block the caller, and it may stand behind the program's own work.
TEST_F(Notes, are_left_out_while_many_are_under_way) {
  const memory::DeviceBlock block(device_memory(), gpu(), sizeof(Epoch));
  ReadyNotes notes(host_memory(), device_memory());
  notes.set_up(gpu());
  Epoch epoch = 0;
  bool left_out = false;
  for (int bursts = 0; bursts < 100 && !left_out; ++bursts) {  // unless the stream's thread is as fast as this one
    for (int sent = 0; sent < 500; ++sent) notes.send(gpu(), word(block), ++epoch);
    notes.drain(gpu());
    left_out = seen(word(block)) != epoch;
  }
  EXPECT_TRUE(left_out);
  notes.send(gpu(), word(block), ++epoch);
  notes.drain(gpu());
  EXPECT_EQ(seen(word(block)), epoch) << "there is room again";
}

TEST_F(Notes, end_with_their_sender) {
  const memory::DeviceBlock block(device_memory(), gpu(), sizeof(Epoch));
  {
    ReadyNotes notes(host_memory(), device_memory());
    notes.set_up(gpu());
    for (Epoch epoch = 1; epoch <= 10; ++epoch) notes.send(gpu(), word(block), epoch);
  }
  EXPECT_EQ(seen(word(block)), 10U) << "nothing is on its way to memory that goes";
}

}  // namespace
}  // namespace partita::test
