#include "apps/fft/host.hpp"

#include <algorithm>
#include <map>

#include "apps/fft/fftw.hpp"
#include "apps/fft/packing.hpp"
#include "apps/support/reachable_memory.hpp"

namespace fft {
namespace {

/// Cells that the other ranks of the node can reach, zeroed: padding travels, too.
class ReachableCells {
 public:
  explicit ReachableCells(std::int64_t cells)
      : memory_(static_cast<std::size_t>(std::max<std::int64_t>(cells, 1)) * sizeof(Complex)) {
    std::fill_n(this->cells(), cells, Complex{});
  }

  Complex* cells() const { return static_cast<Complex*>(memory_.get()); }

 private:
  partita::apps::ReachableMemory memory_;
};

/// The planes of a stage, along its slowest axis.
class Planes {
 public:
  Planes(const Stage& stage, const Box& box, Direction direction, Complex* cells)
      : cells_(cells),
        lines_(count(stage, box, 1)),
        length_(count(stage, box, 2)),
        count_(count(stage, box, 0)),
        transform_(lines_, length_, stage.transformed, direction, cells) {}

  void transform(const Range& planes) const {
    for (std::int64_t plane = planes.first; plane < planes.end(); ++plane) {
      transform_.run(cells_ + plane * lines_ * length_);
    }
  }
  void transform_all() const { transform({0, count_}); }

 private:
  static std::int64_t count(const Stage& stage, const Box& box, std::size_t i) {
    return box.axes[static_cast<std::size_t>(stage.order[i])].count;
  }

  Complex* cells_;
  std::int64_t lines_, length_, count_;
  PlaneTransform transform_;
};

/// The planes on either side of a hop.
struct PlanesOfHop {
  PlanesOfHop(const Hop& hop, Complex* cells)
      : before(hop.route.from, hop.route.before, hop.direction, cells),
        after(hop.route.to, hop.route.after, hop.direction, cells) {}

  Planes before, after;
};

class HostWork final : public Work {
 public:
  explicit HostWork(const std::vector<Hop>& hops) : HostWork(hops, room_for(hops)) {}

  Buffers buffers() const override { return {sent_.cells(), received_.cells()}; }
  void load(const std::vector<Complex>& cells) override { std::ranges::copy(cells, stage_.cells()); }
  std::vector<Complex> cells(std::int64_t count) const override { return {stage_.cells(), stage_.cells() + count}; }

  void begin(const Hop& hop) override {
    hop_ = &hop;
    planes_ = &planes_of_hops_.at(&hop);
  }
  void pack(int slice) override {
    planes_->before.transform(hop_->route.slice(hop_->route.self, slice));
    for (int peer = 0; peer < hop_->route.peers; ++peer) {
      fft::pack(piece_sent(*hop_, peer, slice), stage_.cells(), sent_.cells());
    }
  }
  void unpack(int slice) override {
    for (int peer = 0; peer < hop_->route.peers; ++peer) {
      fft::unpack(piece_received(*hop_, peer, slice), received_.cells(), stage_.cells(), hop_->scale);
    }
    if (hop_->last && hop_->route.arrives_in_planes()) {
      planes_->after.transform(hop_->route.slice(hop_->route.self, slice));
    }
  }
  void end() override {
    if (!hop_->route.arrives_in_planes()) planes_->after.transform_all();
  }

 private:
  HostWork(const std::vector<Hop>& hops, const Room& room)
      : stage_(room.stage), sent_(room.sent), received_(room.received) {
    for (const Hop& hop : hops) planes_of_hops_.try_emplace(&hop, hop, stage_.cells());
  }

  ReachableCells stage_, sent_, received_;
  std::map<const Hop*, PlanesOfHop> planes_of_hops_;
  const Hop* hop_ = nullptr;
  const PlanesOfHop* planes_ = nullptr;
};

}  // namespace

std::unique_ptr<Work> make_host_work(const std::vector<Hop>& hops) {
  return std::make_unique<HostWork>(hops);
}

}  // namespace fft
