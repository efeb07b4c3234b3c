// What open_device() takes and refuses, on emulated devices.
#include "emulated.hpp"

using namespace gpurun;
using base::Status;
using test::emulated_options;
using test::open_emulated;

namespace {

int status_for(const char* selector) { return test::status_of(device::open_device(emulated_options(selector))); }

} // namespace

TEST_CASE("a selector that cannot be read is an error in the setting") {
    for (const char* selector :
         {"", "gpu", "cuda:", "emulated", "emulated:", "emulated:0", "emulated:0/", "emulated:/1", "emulated:0/0",
          "emulated:-1/2", "emulated:0/1/2", "emulated:a/b", "emulated:0/1025"}) {
        CAPTURE(selector);
        CHECK(status_for(selector) == static_cast<int>(Status::kSetting));
    }
}

TEST_CASE("an ordinal that is not below the count is a device that is not there") {
    const auto opened = device::open_device(emulated_options("emulated:2/2"));
    CHECK_STATUS(opened, Status::kDevice);
    CHECK(test::detail_of(opened).find("emulated device 2") != std::string::npos);
}

TEST_CASE("a lost ordinal is not there, the others are") {
    device::Options options = emulated_options("emulated:1/2");
    options.emulated_lose = "1";
    const auto opened = device::open_device(options);
    CHECK_STATUS(opened, Status::kDevice);
    CHECK(test::detail_of(opened).find("emulated device 1") != std::string::npos);
    options.selector = "emulated:0/2";
    REQUIRE_OK(device::open_device(options));
}

TEST_CASE("peer access is checked against the number of devices") {
    device::Options options = emulated_options("emulated:0/2");
    options.emulated_peer_access = "0-2";
    CHECK_STATUS(device::open_device(options), Status::kSetting);
}

TEST_CASE("a device without memory is refused") {
    device::Options options = emulated_options();
    options.emulated_memory_bytes = 0;
    CHECK_STATUS(device::open_device(options), Status::kSetting);
}

TEST_CASE("a device far larger than the machine costs nothing until it is touched") {
    constexpr size_t kHuge = size_t{128} << 30; // ThreadSanitizer leaves room for no more
    device::Options options = emulated_options();
    options.emulated_memory_bytes = kHuge;
    const auto device = open_emulated(options);
    CHECK(device->info().memory_bytes == kHuge);
    REQUIRE_OK(device->allocate(kHuge / 2));
}

TEST_CASE("the same ordinal has the same identity in every process, others differ") {
    const auto one = open_emulated(emulated_options("emulated:1/4"));
    const auto same = open_emulated(emulated_options("emulated:1/4"));
    const auto other = open_emulated(emulated_options("emulated:2/4"));
    CHECK((one->info().identity == same->info().identity));
    CHECK_FALSE((one->info().identity == other->info().identity));
    CHECK(one->info().uuid == same->info().uuid);
    CHECK(one->info().uuid != other->info().uuid);
    CHECK(one->info().uuid.rfind("EMU-", 0) == 0);
    CHECK(one->info().pci_bus_id.empty());
}

TEST_CASE("a CUDA device that is not there is an error that names it") {
    const auto opened = device::open_device(emulated_options("cuda:7777"));
    CHECK_STATUS(opened, Status::kDevice);
    CHECK(test::detail_of(opened).find("7777") != std::string::npos);
}
