// The exchange in partitions, which are the slices; its twin in plain MPI is mpi.cpp.
//
// The request is made once. In each round a slice travels to all peers as soon as it is packed, and is unpacked as soon
// as it has arrived from all of them.
#include <mpi.h>
#include <partita/mpix.h>

#include <array>
#include <thread>

#include "apps/fft/exchange.hpp"
#include "apps/support/mpi_info.hpp"

namespace fft {
namespace {

class Partitions final : public Exchange {
 public:
  Partitions(MPI_Comm peers, const Hop& hop, const Buffers& buffers, MPI_Info info) {
    const int slices = hop.route.slices;
    const std::vector<MPI_Count> sent = of_a_slice(hop.sent, slices), received = of_a_slice(hop.received, slices);
    const std::vector<MPI_Aint> sent_at = places_of(hop.sent), received_at = places_of(hop.received);
    MPIX_Palltoallv_init(buffers.sent, slices, sent.data(), sent_at.data(), MPI_C_DOUBLE_COMPLEX, buffers.received,
                         received.data(), received_at.data(), MPI_C_DOUBLE_COMPLEX, peers, info, &request_);
  }
  ~Partitions() override { MPI_Request_free(&request_); }
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  void start() override { MPI_Start(&request_); }
  void packed(int slice) override { MPI_Pready(slice, request_); }
  void await(int slice) override {
    int arrived = 0;
    for (MPI_Parrived(request_, slice, &arrived); arrived == 0; MPI_Parrived(request_, slice, &arrived)) {
      std::this_thread::yield();
    }
  }
  void finish() override { MPI_Wait(&request_, MPI_STATUS_IGNORE); }
  std::string links() const override {
    MPI_Info info = MPI_INFO_NULL;
    if (Partita_mpi_Request_get_info(request_, &info) != MPI_SUCCESS) return {};
    std::array<char, MPI_MAX_INFO_VAL + 1> value{};
    int is_told = 0;
    MPI_Info_get(info, "partita_link", MPI_MAX_INFO_VAL, value.data(), &is_told);
    MPI_Info_free(&info);
    return is_told != 0 ? value.data() : "";
  }

 private:
  static std::vector<MPI_Count> of_a_slice(const Places& places, int slices) {
    std::vector<MPI_Count> counts;
    counts.reserve(places.counts.size());
    for (const std::int64_t count : places.counts) counts.push_back(count / slices);
    return counts;
  }
  static std::vector<MPI_Aint> places_of(const Places& places) {
    return {places.displacements.begin(), places.displacements.end()};
  }

  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

std::unique_ptr<Exchange> exchange_by_partitions(MPI_Comm peers, const Hop& hop, const Buffers& buffers) {
  return std::make_unique<Partitions>(peers, hop, buffers, MPI_INFO_NULL);
}

std::unique_ptr<Exchange> exchange_by_partitions_staged(MPI_Comm peers, const Hop& hop, const Buffers& buffers) {
  const partita::apps::Info info{{"partita_link", "mpi"}};
  return std::make_unique<Partitions>(peers, hop, buffers, info.get());
}

}  // namespace fft
