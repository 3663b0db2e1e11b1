// What kernels are given of a request, by side, driver and route.
#include "partitioned/gpu/prequest.hpp"

#include <gtest/gtest.h>

namespace partita::test {
namespace {

constexpr std::int64_t bytes = 4096;

class Prequest : public testing::Test {
 protected:
  Prequest() {
    words.state = &state;
    words.host = &host;
    words.epochs = &epochs;
    words.life = 42;
  }

  PrequestTerms terms(const link::DeviceRoute& route) {
    const bool sends = std::holds_alternative<std::optional<link::DeviceSendRoute>>(route);
    return {.sides = partita_u32{sends ? PARTITA_PREQUEST_SEND : PARTITA_PREQUEST_RECV},
            .driver = driver,
            .data = buffer,
            .place = {},
            .in_place = in_place,
            .plan = plan,
            .route = route,
            .timeout_s = 1.5};
  }
  Partita_Prequest made(const link::DeviceRoute& route) { return make_prequest(terms(route), words); }
  static link::DeviceRoute send(std::optional<link::DeviceSendRoute> route) { return route; }
  static link::DeviceRoute recv(std::optional<link::DeviceRecvRoute> route) { return route; }
  /// But for the bits that tell of its origin.
  static partita_u32 flags_of(const Partita_Prequest& request) {
    return request.flags & ~partita_u32{PARTITA_PREQUEST_ORIGIN};
  }
  template <class Kind>
  static Kind* address(std::uintptr_t value) {
    return reinterpret_cast<Kind*>(value);
  }

  alignas(64) std::byte buffer[bytes] = {};
  Partita_Prequest_state state{};
  Partita_Prequest_host host{};
  partita_u64 epochs = 0;
  partita_u32 flags[4] = {};
  link::Driver driver{};
  bool in_place = false;
  link::Plan plan{8, 2, 4, bytes};
  PrequestWords words;
};

TEST_F(Prequest, has_the_plan_the_buffer_and_the_words_of_its_own_on_either_side) {
  for (const link::DeviceRoute& route : {send({}), recv({})}) {
    const Partita_Prequest request = made(route);
    EXPECT_EQ(request.state, &state);
    EXPECT_EQ(request.host, &host);
    EXPECT_EQ(request.life, 42U);
    EXPECT_EQ(request.limit_ns, 1'500'000'000U);
    EXPECT_EQ(request.buffer, reinterpret_cast<unsigned char*>(buffer));
    EXPECT_EQ(request.total_bytes, bytes);
    EXPECT_EQ(request.send_partitions, 8);
    EXPECT_EQ(request.recv_partitions, 2);
    EXPECT_EQ(request.transport_partitions, 4);
    EXPECT_EQ(request.send_partition_bytes, bytes / 8);
    EXPECT_EQ(request.recv_partition_bytes, bytes / 2);
    EXPECT_EQ(request.unit_bytes, 16U);
  }
}

TEST_F(Prequest, of_a_send_without_a_route_leaves_all_to_the_host) {
  const Partita_Prequest request = made(send({}));
  EXPECT_EQ(flags_of(request), static_cast<partita_u32>(PARTITA_PREQUEST_SEND));
  EXPECT_EQ(request.promise, &epochs);
  EXPECT_EQ(request.remote, nullptr);
  EXPECT_EQ(request.arrival_device, nullptr);
  EXPECT_EQ(request.arrival_host, nullptr);
  EXPECT_EQ(request.marks_each, 2U);
}

TEST_F(Prequest, of_a_send_with_a_route_goes_by_it) {
  link::DeviceSendRoute route;
  route.remote = address<std::byte>(0x1004);
  route.arrival_device = address<Epoch>(0x2000);
  route.arrival_host = address<Epoch>(0x3000);
  route.promise = address<std::uint64_t>(0x4000);
  Partita_Prequest request = made(send(route));
  EXPECT_EQ(flags_of(request), static_cast<partita_u32>(PARTITA_PREQUEST_SEND));
  EXPECT_EQ(request.remote, address<unsigned char>(0x1004));
  EXPECT_EQ(request.arrival_device, address<partita_u32>(0x2000));
  EXPECT_EQ(request.arrival_host, address<partita_u32>(0x3000));
  EXPECT_EQ(request.promise, address<partita_u64>(0x4000));
  EXPECT_EQ(request.unit_bytes, 4U);  // as `remote` is aligned

  route.packets = true;
  driver = link::Driver::device;
  request = made(send(route));
  EXPECT_EQ(flags_of(request), static_cast<partita_u32>(PARTITA_PREQUEST_SEND | PARTITA_PREQUEST_DEVICE_DRIVEN |
                                                        PARTITA_PREQUEST_PACKETS));

  route.packets = false;
  driver = link::Driver::host;
  in_place = true;
  EXPECT_EQ(flags_of(made(send(route))), static_cast<partita_u32>(PARTITA_PREQUEST_SEND | PARTITA_PREQUEST_IN_PLACE));
}

TEST_F(Prequest, of_a_send_in_many_small_pieces_is_announced_by_neighbours_together) {
  const auto together = [&](const link::DeviceRoute& route) {
    return (made(route).flags & PARTITA_PREQUEST_TOGETHER) != 0;
  };
  const auto with = [&](bool packets) {
    link::DeviceSendRoute route;
    route.remote = address<std::byte>(0x1000);
    route.packets = packets;
    return send(route);
  };
  plan = link::Plan(64, 2, 64, bytes);
  EXPECT_TRUE(together(send({})));
  EXPECT_FALSE(together(with(false))) << "a lone mark would be announced later";
  plan = link::Plan(512, 2, 512, 512 * 8192);
  EXPECT_TRUE(together(with(false)));
  EXPECT_FALSE(together(with(true)));
  EXPECT_FALSE(together(recv({})));
  driver = link::Driver::device;
  EXPECT_FALSE(together(with(false))) << "one flag each is cheap";
  driver = link::Driver::host;
  plan = link::Plan(512, 2, 512, 512 * 65536);
  EXPECT_FALSE(together(with(false))) << "others would wait for the copy";
  EXPECT_TRUE(together(send({})));
  in_place = true;
  EXPECT_TRUE(together(with(false)));
}

TEST_F(Prequest, of_a_receive_without_a_route_has_flags_that_its_host_raises) {
  words.flags = flags;
  EXPECT_TRUE(terms(recv({})).host_raises_flags());
  const Partita_Prequest request = made(recv({}));
  EXPECT_EQ(flags_of(request), static_cast<partita_u32>(PARTITA_PREQUEST_RECV));
  EXPECT_EQ(request.arrival_device, flags);
  EXPECT_EQ(request.credit, nullptr);
  EXPECT_EQ(request.promise, &epochs);
  EXPECT_EQ(request.marks_each, 0U);
}

TEST_F(Prequest, of_a_receive_with_a_route_goes_by_it) {
  link::DeviceRecvRoute route;
  route.arrival_device = address<Epoch>(0x2000);
  route.credit = address<Epoch>(0x3000);
  EXPECT_FALSE(terms(recv(route)).host_raises_flags());
  Partita_Prequest request = made(recv(route));
  EXPECT_EQ(flags_of(request), static_cast<partita_u32>(PARTITA_PREQUEST_RECV));
  EXPECT_EQ(request.arrival_device, address<partita_u32>(0x2000));
  EXPECT_EQ(request.credit, address<partita_u32>(0x3000));
  EXPECT_EQ(request.promise, &epochs);
  EXPECT_EQ(request.remote, nullptr);

  route.has_front = true;
  EXPECT_EQ(flags_of(made(recv(route))), static_cast<partita_u32>(PARTITA_PREQUEST_RECV | PARTITA_PREQUEST_FRONT));

  route.has_front = false;
  route.slots = address<std::byte>(0x5000);
  driver = link::Driver::device;
  request = made(recv(route));
  EXPECT_EQ(flags_of(request), static_cast<partita_u32>(PARTITA_PREQUEST_RECV | PARTITA_PREQUEST_DEVICE_DRIVEN |
                                                        PARTITA_PREQUEST_PACKETS));
  EXPECT_EQ(request.remote, address<unsigned char>(0x5000));
  EXPECT_EQ(request.promise, nullptr);  // no host opens its epochs
}

TEST_F(Prequest, of_a_send_needs_no_flags_of_its_own) {
  EXPECT_FALSE(terms(send({})).host_raises_flags());
}

TEST_F(Prequest, tells_that_it_was_made) {
  EXPECT_EQ(made(send({})).flags & PARTITA_PREQUEST_ORIGIN, static_cast<partita_u32>(PARTITA_PREQUEST_MADE));
  EXPECT_NE(Partita_Prequest{}.flags & PARTITA_PREQUEST_ORIGIN, static_cast<partita_u32>(PARTITA_PREQUEST_MADE));
}

TEST_F(Prequest, to_nobody_names_no_memory) {
  const Partita_Prequest request = make_prequest_to_nobody(PARTITA_PREQUEST_RECV, link::Driver::device, 42);
  EXPECT_EQ(request.flags,
            static_cast<partita_u32>(PARTITA_PREQUEST_NOBODY | PARTITA_PREQUEST_RECV | PARTITA_PREQUEST_DEVICE_DRIVEN));
  EXPECT_EQ(request.life, 42U);
  EXPECT_EQ(request.state, nullptr);
  EXPECT_EQ(request.host, nullptr);
  EXPECT_EQ(request.buffer, nullptr);
  EXPECT_EQ(request.send_partitions, 0);
}

TEST_F(Prequest, has_the_peers_of_its_words) {
  const Partita_Peer peer{address<unsigned char>(0x1000), address<partita_u32>(0x2000), nullptr};
  link::DeviceSendRoute route;
  route.peer = peer;
  words.peers = &peer;
  EXPECT_EQ(made(send(route)).peers, &peer);
  ASSERT_EQ(peers_of(terms(send(route))).size(), 1U);
  EXPECT_EQ(peers_of(terms(send(route)))[0].device_words, peer.device_words);
  EXPECT_TRUE(peers_of(terms(recv({}))).empty());
  EXPECT_EQ(made(send({})).send_partitions, 8);
}

}  // namespace
}  // namespace partita::test
