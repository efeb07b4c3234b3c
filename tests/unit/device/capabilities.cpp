// The names of capabilities, and emulated devices that have only some of them.
#include "device/capabilities.hpp"

#include "emulated.hpp"

using namespace gpurun;
using base::Status;
using device::Capability;
using device::CapabilitySet;
using test::emulated_options;
using test::must;
using test::open_emulated;

namespace {

device::Options options_with(const std::string& capabilities) {
    device::Options options = emulated_options();
    options.emulated_capabilities = capabilities;
    return options;
}

CapabilitySet set_of(device::Device& device) {
    CapabilitySet all;
    for (size_t i = 0; i < all.size(); ++i)
        all[i] = device::capabilities()[i].is_in(device);
    return all;
}

} // namespace

TEST_SUITE_BEGIN("capabilities");

TEST_CASE("an emulated device has the capabilities that it is given, and no others") {
    CHECK(set_of(*open_emulated()).all());
    CHECK(set_of(*open_emulated(options_with("none"))).none());
    for (const char* list :
         {"counters", "counters,mails", "clock,graphs", "other-devices", "ordered-memory", "reduce",
          "channels,graphs,mails,counters", "fenced-copies,counters", "counters,mails,reduce,fused-reduce"}) {
        CAPTURE(list);
        CHECK(set_of(*open_emulated(options_with(list))) == must(device::read_capabilities(list)));
    }
}

TEST_CASE("each name stands for one capability") {
    for (size_t i = 0; i < device::kCapabilities; ++i) {
        const device::CapabilityInfo& info = device::capabilities()[i];
        CAPTURE(info.name);
        CHECK((must(device::read_capabilities("counters,mails,graphs,reduce," + std::string(info.name)))[i]));
        CHECK(&device::info_of(static_cast<Capability>(i)) == &info);
    }
}

TEST_CASE("a name that there is not is an error that quotes it and says which there are") {
    for (const std::string list : {"", "counter", "counters,", ",counters", "counters,none", "all,counters", "Clock"}) {
        CAPTURE(list);
        const auto opened = device::open_device(options_with(list));
        CHECK_STATUS(opened, Status::kSetting);
        const std::string detail = test::detail_of(opened);
        CHECK(detail.find("GPURUN_EMULATED_CAPABILITIES=" + list + ": ") == 0);
        CHECK(detail.find("fenced-copies, mails, graphs") != std::string::npos);
    }
}

TEST_CASE("a capability without one that it needs is an error that names both") {
    struct Lacking {
        const char* list;
        const char* says;
    };
    for (const Lacking& lacking :
         {Lacking{"mails", "mails need counters"}, Lacking{"fenced-copies", "fenced-copies need counters"},
          Lacking{"channels,counters,graphs", "channels need mails"},
          Lacking{"channels,counters,mails", "channels need graphs"}}) {
        CAPTURE(lacking.list);
        const auto opened = device::open_device(options_with(lacking.list));
        CHECK_STATUS(opened, Status::kSetting);
        CHECK(test::detail_of(opened).find(lacking.says) != std::string::npos);
    }
}

TEST_CASE("ordered memory of a kind that the device cannot have is an error") {
    device::Options options = options_with("counters,other-devices");
    options.emulated_ordered = device::Placement::kManaged;
    CHECK_STATUS(device::open_device(options), Status::kSetting);
    options = options_with("ordered-memory");
    CHECK_STATUS(device::open_device(options), Status::kOk);
    options.emulated_ordered = device::Placement::kElsewhere;
    const auto opened = device::open_device(options);
    CHECK_STATUS(opened, Status::kSetting);
    CHECK(test::detail_of(opened).find("other-devices") != std::string::npos);
}

TEST_SUITE_END();
