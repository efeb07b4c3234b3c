// Addresses, and where they are.
#include "platform/fabric/network_address.hpp"
#include "platform/fabric/tcp_connections.hpp"
#include "platform/tcp.hpp"
#include "support/unit.hpp"

#include <algorithm>

using namespace gpurun;
using namespace gpurun::test;
using platform::NetworkAddress;

namespace {

NetworkAddress address(const char* text) {
    auto parsed = NetworkAddress::parse(text);
    REQUIRE(parsed);
    return *parsed;
}

} // namespace

TEST_SUITE_BEGIN("network address");

TEST_CASE("an address is in its networks, and in no other") {
    const NetworkAddress v4 = address("10.1.2.3"), v6 = address("fd00::1:2");
    for (const char* place : {"10.1.2.3", "10.1.2.0/24", "10.1.2.2/31", "10.0.0.0/8", "0.0.0.0/0"})
        CHECK(v4.is_at(place));
    for (const char* place :
         {"10.1.2.4", "10.1.3.0/24", "10.1.2.3/33", "10.1.2.3/", "10.1.2.3/x", "::/0x", "moon0", ""})
        CHECK_FALSE(v4.is_at(place));
    CHECK(v6.is_at("fd00::/8"));
    CHECK_FALSE(v6.is_at("fe80::/10"));
    CHECK(address("127.0.0.1").is_at("lo"));
}

TEST_CASE("loopback and link-local addresses are of no use to other machines") {
    for (const char* text : {"127.0.0.1", "127.8.0.1", "::1", "fe80::1"})
        CHECK_FALSE(address(text).is_reachable());
    for (const char* text : {"10.0.0.1", "fd00::1"})
        CHECK(address(text).is_reachable());
    CHECK_FALSE(NetworkAddress::parse("10.0.0"));
}

TEST_CASE("an address is written as people write it") {
    NetworkAddress v4 = address("10.0.0.1"), v6 = address("fd00::1");
    v4.port = v6.port = 80;
    CHECK(v4.text() == "10.0.0.1:80");
    CHECK(v6.text() == "[fd00::1]:80");
}

TEST_CASE("a connection of this process is known, and that its other end answers") {
    const platform::TcpListener listener = must(platform::TcpListener::create());
    const platform::UniqueFd caller = must(platform::call_tcp("127.0.0.1", listener.port));
    const auto is_it = [&](const platform::TcpConnection& each) {
        return each.peer.is_same_host(address("127.0.0.1")) && each.peer.port == listener.port && !each.is_awaiting;
    };
    bool found = false;
    for (int i = 0; i < 1000 && !found; ++i) { // it is being connected
        const auto all = platform::tcp_connections();
        found = std::any_of(all.begin(), all.end(), is_it);
    }
    CHECK(found);
}

TEST_SUITE_END();
