// NVML, the NVIDIA driver's management library, as it is loaded at run time: nothing here needs nvml.h, and gpurun
// starts where there is no driver.
#pragma once

#include "base/status.hpp"

#include <memory>
#include <string>

namespace gpurun::platform {

// What we use of NVML's stable binary interface.
using NvmlDevice = struct nvmlDevice_st*;
struct NvmlPciInfo { // nvmlPciInfo_t, version 3
    char bus_id_legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned pci_device_id;
    unsigned pci_subsystem_id;
    char bus_id[32];
};
static_assert(sizeof(NvmlPciInfo) == 68);

struct CloseLibrary {
    void operator()(void* library) const;
};

class Nvml {
  public:
    // On failure `absence` says why.
    static std::unique_ptr<Nvml> open(std::string& absence);
    Nvml(const Nvml&) = delete;
    ~Nvml();

    unsigned count() const;
    // Null if it cannot be had.
    NvmlDevice device(unsigned index) const;
    // "" if it cannot be told.
    std::string uuid(NvmlDevice device) const;
    std::string name(NvmlDevice device) const;
    std::string bus_id(NvmlDevice device) const; // as normal_bus_id() spells it
    int compute_major(NvmlDevice device) const;  // of its compute capability; 0 if it cannot be told

    // Of a GPU in MIG mode: its instances are devices of their own. Of others there are none.
    bool in_mig_mode(NvmlDevice device) const;
    unsigned most_instances(NvmlDevice device) const;
    NvmlDevice instance(NvmlDevice device, unsigned index) const; // null: there is none at this place

    // Links of a GPU, 0 to kMostLinks - 1.
    static constexpr unsigned kMostLinks = 36;
    bool link_is_up(NvmlDevice device, unsigned link) const;
    std::string far_end_of_link(NvmlDevice device, unsigned link) const; // bus id of a GPU or a switch; "" if unknown
    bool link_leads_to_switch(NvmlDevice device, unsigned link) const;   // as NVML says, or to no known kind of thing
    // Whether `from` can read the memory of `to`; the words say why not.
    bool can_read(NvmlDevice from, NvmlDevice to, std::string& reason) const;

  private:
    explicit Nvml(void* library) : library_(library) {}
    template <typename Function>
    bool look_up(const char* name, Function& function);
    bool look_up_all();
    void look_up_what_newer_ones_have();

    std::unique_ptr<void, CloseLibrary> library_;
    int (*init_)() = nullptr;
    int (*shutdown_)() = nullptr; // until init has succeeded
    const char* (*error_string_)(int) = nullptr;
    int (*count_)(unsigned*) = nullptr;
    int (*handle_)(unsigned, NvmlDevice*) = nullptr;
    int (*uuid_)(NvmlDevice, char*, unsigned) = nullptr;
    int (*name_)(NvmlDevice, char*, unsigned) = nullptr;
    int (*pci_)(NvmlDevice, NvmlPciInfo*) = nullptr;
    // Null where the driver lacks them.
    int (*compute_capability_)(NvmlDevice, int* major, int* minor) = nullptr;
    int (*mig_mode_)(NvmlDevice, unsigned* current, unsigned* pending) = nullptr;
    int (*most_instances_)(NvmlDevice, unsigned*) = nullptr;
    int (*instance_)(NvmlDevice, unsigned, NvmlDevice*) = nullptr;
    int (*link_state_)(NvmlDevice, unsigned, unsigned*) = nullptr;
    int (*link_far_end_)(NvmlDevice, unsigned, NvmlPciInfo*) = nullptr;
    int (*link_far_type_)(NvmlDevice, unsigned, unsigned*) = nullptr;
    int (*peer_status_)(NvmlDevice, NvmlDevice, unsigned, unsigned*) = nullptr;
};

} // namespace gpurun::platform
