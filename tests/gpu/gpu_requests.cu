#include "gpu/gpu_requests.cuh"

#include <cstdlib>
#include <string_view>

namespace partita::test {
namespace {

std::string_view environment(const char* name, std::string_view otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

}  // namespace

std::string expected_link() {
  const std::string_view forced = environment("PARTITA_LINK", "auto");
  return std::string(forced == "auto" ? "direct" : forced);
}

bool kernels_reach(int from, int to) {
  if (expected_link() != "direct" || environment("PARTITA_GPU_COPY", "auto") == "engine") return false;
  const int here = from % gpu_count();
  const int there = to % gpu_count();
  int reaches = here == there ? 1 : 0;
  if (reaches == 0) must(cudaDeviceCanAccessPeer(&reaches, here, there), "cudaDeviceCanAccessPeer");
  return reaches != 0;
}

testing::AssertionResult goes(Partita_Request send, bool by_kernels, bool in_packets) {
  const auto way = [](const std::string& link, const std::string& copy, const std::string& packets) {
    return "link " + link + ", moved by " + copy + ", packets: " + packets;
  };
  const std::string expected = way(expected_link(), by_kernels ? "kernel" : "engine", in_packets ? "true" : "false");
  const std::string got =
      way(told(send, "partita_link"), told(send, "partita_gpu_copy"), told(send, "partita_packets"));
  if (got == expected) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the send goes by " << got << "; expected is " << expected << " ("
                                     << told(send, "partita_reason") << ")";
}

void RingPair::make(const AnyBuffer& out, const AnyBuffer& in, int partitions, const std::string& driver,
                    int transport_partitions) {
  const std::int64_t bytes = out.size_bytes() / partitions;
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", driver.c_str());
  if (transport_partitions != 0) {
    PMPI_Info_set(info, "partita_transport_partitions", std::to_string(transport_partitions).c_str());
  }
  ASSERT_EQ(Partita_Psend_init(out.data(), partitions, bytes, MPI_BYTE, next(), 6, MPI_COMM_WORLD, info, &send_),
            MPI_SUCCESS);
  ASSERT_EQ(Partita_Precv_init(in.data(), partitions, bytes, MPI_BYTE, previous(), 6, MPI_COMM_WORLD, info, &recv_),
            MPI_SUCCESS);
  PMPI_Info_free(&info);
  ASSERT_EQ(Partita_Prequest_create(&device_send_, send_), MPI_SUCCESS);
  ASSERT_EQ(Partita_Prequest_create(&device_recv_, recv_), MPI_SUCCESS);
  const bool in_packets = driver == "device" && fits_packets(partitions, partitions, bytes * partitions);
  ASSERT_TRUE(goes(send_, kernels_reach_next_, in_packets));
}

void RingPair::free() {
  ASSERT_EQ(Partita_Prequest_free(&device_send_), MPI_SUCCESS);
  ASSERT_EQ(Partita_Prequest_free(&device_recv_), MPI_SUCCESS);
  ASSERT_EQ(Partita_Request_free(&send_), MPI_SUCCESS);
  ASSERT_EQ(Partita_Request_free(&recv_), MPI_SUCCESS);
  harness_barrier();  // requests before buffers, on both sides
}

}  // namespace partita::test
