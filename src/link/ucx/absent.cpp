// Link ucx in a build without UCX.
#include "link/registry.hpp"

namespace partita::link {
namespace {

class AbsentUcxLink final : public Link {
 public:
  AbsentUcxLink() : Link(can) {}
  std::variant<std::unique_ptr<Sender>, Refusal> sender(const Endpoint&) override { return refusal(); }
  std::variant<std::unique_ptr<Receiver>, Refusal> receiver(const Endpoint&, const Plan&, std::int32_t,
                                                            std::span<const std::byte>) override {
    return refusal();
  }
  std::string describe(const Receiver&) const override { return refusal().reason; }

 private:
  static constexpr Capabilities can{.name = "ucx"};

  static Refusal refusal() { return {"this build of Partita has no UCX (PARTITA_UCX was off, or UCX was not found)"}; }
};

}  // namespace

std::unique_ptr<Link> make_ucx(const Context&) {
  return std::make_unique<AbsentUcxLink>();
}

}  // namespace partita::link
