// Which devices there are.
#include "devices.hpp"
#include "support/unit.hpp"

namespace gpurun::test::devices {

using namespace launcher;
using gpurun::base::Status;
using gpurun::platform::Gpu;

namespace {

const std::vector<Gpu> kTwoGpus = {{"GPU-a", "0000:01:00.0", "A", ""}, {"GPU-b", "0000:02:00.0", "B", ""}};

std::string settings(const DeviceList& list) {
    std::string all;
    for (const Device& device : list.devices)
        all += device.setting + " ";
    return all;
}

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_SUITE_BEGIN("devices");

TEST_CASE("GPUs are listed in their order, with their numbers") {
    const DeviceList list = must(list_devices({}, 1, kTwoGpus, ""));
    CHECK(settings(list) == "cuda:GPU-a cuda:GPU-b ");
    CHECK(list.devices[1].bus_id == "0000:02:00.0");
    CHECK(list.devices[1].uuid == "GPU-b");
    CHECK(list.devices[1].number == 1);
    CHECK(list.notice.empty());
}

TEST_CASE("a GPU of a record without UUIDs goes by its number") {
    CHECK(settings(must(list_devices({}, 1, {kTwoGpus[0], {"", "0000:02:00.0", "B", ""}}, ""))) ==
          "cuda:GPU-a cuda:1 ");
}

TEST_CASE("MIG instances are devices of their own, which know their GPU") {
    const DeviceList list = must(
        list_devices({}, 1, {{"MIG-1", "0000:01:00.0", "1g", "GPU-a"}, {"MIG-2", "0000:01:00.0", "1g", "GPU-a"}}, ""));
    CHECK(settings(list) == "cuda:MIG-1 cuda:MIG-2 ");
    CHECK(list.devices[1].parent == "GPU-a");
}

TEST_CASE("without GPUs devices are emulated, which is said") {
    const DeviceList list = must(list_devices({}, 2, {}, "no driver"));
    CHECK(settings(list) == "emulated:0/2 emulated:1/2 ");
    CHECK(says(list.notice, "2 devices are emulated"));
    CHECK(says(list.notice, "no driver"));
}

TEST_CASE("emulated devices that were asked for are no news, also where there are GPUs") {
    const DeviceList list = must(list_devices(must(parse_device("emulated")), 2, kTwoGpus, ""));
    CHECK(settings(list) == "emulated:0/2 emulated:1/2 ");
    CHECK(list.notice.empty());
    CHECK(settings(must(list_devices(must(parse_device("emulated:3")), 1, {}, ""))) ==
          "emulated:0/3 emulated:1/3 emulated:2/3 ");
}

TEST_CASE("GPUs that were asked for and are not there are an error that says why") {
    const auto list = list_devices(must(parse_device("cuda")), 1, {}, "the driver is missing");
    CHECK_STATUS(list, Status::kArgument);
    CHECK(says(detail_of(list), "the driver is missing"));
}

TEST_SUITE_END();

} // namespace gpurun::test::devices
