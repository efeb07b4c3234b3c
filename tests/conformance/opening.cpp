// Opening a device, and what it says of itself.
#include "subject.hpp"

namespace gpurun::conformance::opening {

TEST_SUITE_BEGIN("opening");

TEST_CASE("a device says what it is") {
    const device::Info& info = subject().info();
    CHECK(info.identity.kind == (is_emulated() ? device::Kind::kEmulated : device::Kind::kCuda));
    CHECK(info.memory_bytes > 0);
    CHECK_FALSE(info.name.empty());
    CHECK(info.uuid.rfind(is_emulated() ? "EMU-" : "GPU-", 0) == 0);
    CHECK(info.pci_bus_id.empty() == is_emulated());
    CHECK((info.identity == subject().info().identity));
}

TEST_CASE("a device that is not there is an error that names it") {
    for (const std::string selector :
         {"emulated:7777/8", "cuda:7777", "cuda:GPU-00000000-dead-beef-0000-000000000000"}) {
        CAPTURE(selector);
        const auto opened = device::open_device(options_for(selector));
        CHECK_STATUS(opened, Status::kDevice);
        const std::string name = selector[0] == 'e' ? "7777" : selector.substr(5);
        CHECK(test::detail_of(opened).find(name) != std::string::npos);
    }
}

TEST_CASE("a capability is always there or never, and comes only with those that it needs") {
    device::CapabilitySet found;
    for (size_t i = 0; i < found.size(); ++i)
        found[i] = device::capabilities()[i].is_in(subject());
    for (size_t i = 0; i < found.size(); ++i) {
        const device::CapabilityInfo& info = device::capabilities()[i];
        CAPTURE(info.name);
        CHECK(info.is_in(subject()) == found[i]);
        if (found[i])
            CHECK((info.needs & ~found).none());
    }
}

TEST_CASE("a device can be made current by any thread, again and again") {
    REQUIRE_OK(subject().make_current());
    REQUIRE_OK(subject().make_current());
}

TEST_CASE("a device reaches itself") { CHECK_STATUS(subject().can_reach(subject().info().identity), Status::kOk); }

TEST_CASE("a device of the other kind is not reached, and the reason is said") {
    device::Identity other = subject().info().identity;
    other.kind = is_emulated() ? device::Kind::kCuda : device::Kind::kEmulated;
    other.uuid = {};
    const auto reached = subject().can_reach(other);
    CHECK_FALSE(static_cast<bool>(reached));
    CHECK_FALSE(test::detail_of(reached).empty());
}

} // namespace gpurun::conformance::opening
