#include "bench/gpu/packed_ping_pong.hpp"

#include <algorithm>
#include <utility>

#include "bench/gpu/queue_kernels.hpp"

namespace partita::bench::gpu {

namespace {

/// What a sample of larger messages moves in each direction, about.
constexpr std::int64_t sample_bytes = std::int64_t{512} << 20;
constexpr std::int64_t fewest_trips = 4;

int trips_of(const Options& options, const Case& c) {
  if (options.batch == 0) throw Failure("--batch 0: expected is how many round trips make a sample, 1 or more.");
  return static_cast<int>(std::min<std::int64_t>(options.batch, std::max(fewest_trips, sample_bytes / c.size_bytes)));
}

/// Contents are made and compared by words.
std::size_t padded(std::int64_t size_bytes) {
  constexpr std::int64_t word_bytes = 8;
  return static_cast<std::size_t>((size_bytes + word_bytes - 1) / word_bytes * word_bytes);
}

Region region(const DeviceBuffer& buffer) {
  return {buffer.data(), buffer.size(), 1};
}

}  // namespace

PackedArrays::PackedArrays(std::int64_t size_bytes)
    : size_bytes_(size_bytes),
      turned_(padded(size_bytes)),
      sent_(turned_.size()),
      received_(turned_.size()),
      restored_(turned_.size()) {}

void PackedArrays::prepare(bool first, std::uint64_t epoch, cudaStream_t stream) {
  turns_ = 0;
  for (const DeviceBuffer* each : {&turned_, &sent_, &received_}) gpu::poison(region(*each), epoch, stream);
  if (first) gpu::fill(region(turned_), epoch, stream);
}

void PackedArrays::pack(cudaStream_t stream) const {
  launch_copy(turned_.data(), sent_.data(), size_bytes_, 0, stream);
}

void PackedArrays::unpack(bool first, cudaStream_t stream) const {
  launch_copy(received_.data(), turned_.data(), size_bytes_, first ? 1 : 0, stream);
}

Region PackedArrays::restored(bool first, std::uint64_t epoch, cudaStream_t stream) const {
  gpu::fill(region(restored_), epoch, stream);
  const int added = first ? turns_ : turns_ - 1;  // what rank 1 has unpacked last, rank 0 had not unpacked yet
  launch_copy(turned_.data(), restored_.data(), size_bytes_, static_cast<std::uint8_t>(-added), stream);
  return region(restored_);
}

unsigned PackedArrays::last_byte() const {
  unsigned char byte = 0;
  check(cudaMemcpy(&byte, turned_.data() + size_bytes_ - 1, 1, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return byte;
}

PackedPingPong::PackedPingPong(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays)
    : GpuMeasurement(job, std::move(name), c), arrays_(std::move(arrays)), trips_(trips_of(job.options, c)) {}

double PackedPingPong::sample(const Round&) {
  const unsigned before = arrays_->last_byte();
  job_.barrier();
  const std::int64_t begin_ns = now_ns();
  play();
  const std::int64_t end_ns = now_ns();
  arrays_->add_turns(trips_);
  if (!job_.is_first()) return counted_us(0);
  check_turns(before);
  return counted_us(static_cast<double>(end_ns - begin_ns) / 1000 / trips_ / 2);
}

void PackedPingPong::make_trips() {
  if (job_.is_first()) {
    let_begin();
    for (int i = 0; i < trips_; ++i) {
      pack();
      start_receive();
      send();
      await_receive();
      unpack();
    }
    return;
  }
  start_receive();
  let_begin();
  for (int i = 1; i <= trips_; ++i) {
    await_receive();
    unpack();
    pack();
    if (i < trips_) start_receive();
    send();
  }
}

void PackedPingPong::check_turns(unsigned before) const {
  const unsigned turned = (arrays_->last_byte() - before) % 256;
  if (turned == static_cast<unsigned>(trips_) % 256) return;
  throw Failure("{}: the last of {} bytes went around {} times (modulo 256); expected were {} round trips.", name_,
                case_.size_bytes, turned, trips_);
}

Traditional::Traditional(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays)
    : ByHost(job, std::move(name), c, std::move(arrays)),
      send_(Way::send, sent(), c.size_bytes, job.peer(), send_tag()),
      receive_(Way::receive, received(), c.size_bytes, job.peer(), receive_tag()) {
  match({send_.handle(), receive_.handle()});
}

TraditionalEngine::TraditionalEngine(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays)
    : ByHost(job, std::move(name), c, std::move(arrays)), send_(job, shape(true)), receive_(job, shape(false)) {}

RequestShape TraditionalEngine::shape(bool sends) const {
  RequestShape shape;
  shape.sends = sends;
  shape.buffer = sends ? sent() : received();
  shape.size_bytes = case_.size_bytes;
  shape.tag = sends ? send_tag() : receive_tag();
  shape.copy = "engine";
  return shape;
}

}  // namespace partita::bench::gpu
