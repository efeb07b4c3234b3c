// A message is a write into the partner's memory. The last one of a send() ends in a number that its receiver looks
// for; the providers here write in order, so the others have come by then.

#include "network.hpp"

#include <gpurun/gpurun.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <vector>

namespace gpurun::bench {

namespace {

constexpr std::array kProviders = {"efa", "verbs;ofi_rxm", "tcp", "net", "tcp;ofi_rxm"}; // as gpurun prefers them

struct Library {
    int (*get_info)(uint32_t, const char*, const char*, uint64_t, const fi_info*, fi_info**) = nullptr;
    fi_info* (*copy_info)(const fi_info*) = nullptr;
    int (*open_fabric)(fi_fabric_attr*, fid_fabric**, void*) = nullptr;
    const char* (*describe)(int) = nullptr;

    bool load() {
        void* const library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
        const auto find = [&](const char* name, auto& function) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
            return function != nullptr;
        };
        return library != nullptr && find("fi_getinfo", get_info) && find("fi_dupinfo", copy_info) &&
               find("fi_fabric", open_fabric) && find("fi_strerror", describe);
    }
};

// Where the partner's memory is.
struct PartnersMemory {
    std::array<char, 128> address{};
    uint64_t ready = 0;
    uint64_t base = 0;
    uint64_t key = 0;
};

// Its objects are kept until the process ends: one for a run.
class Fabric final : public Network {
  public:
    Fabric(const Pair& pair, size_t bytes) : slot_bytes_(bytes + kNumberBytes), out_(2 * slot_bytes_), in_(out_) {
        PartnersMemory here;
        here.ready = open(here) ? 1 : 0;
        PartnersMemory there;
        pair.exchange(&here, &there, sizeof here);
        if (here.ready == 0 || there.ready == 0) {
            if (why_not_.empty())
                why_not_ = "the partner's libfabric cannot be used";
            return;
        }
        base_ = there.base;
        key_ = there.key;
        if (fi_av_insert(addresses_, there.address.data(), 1, &partner_, 0, nullptr) != 1)
            fail("entering the partner's address", 0);
    }

    std::string how() const override { return "fi_write of libfabric's provider " + provider_ + ", which spins"; }
    std::string why_not() const override { return why_not_; }

    // The last goes from, and to, a slot of its own, whose number nobody reads meanwhile.
    void send(size_t bytes, int count) override {
        drain();
        for (int i = 0; i + 1 < count; ++i)
            write(0, bytes);
        const size_t with_number = std::max(bytes, kNumberBytes);
        ++sent_;
        std::memcpy(out_.data() + slot_bytes_ + with_number - kNumberBytes, &sent_, kNumberBytes);
        write(slot_bytes_, with_number);
    }

    void drain() override {
        while (under_way_ != 0)
            look();
    }

    void receive(size_t bytes, int) override {
        ++received_;
        char* const number = in_.data() + slot_bytes_ + std::max(bytes, kNumberBytes) - kNumberBytes;
        uint32_t now = 0;
        do {
            look();
            asm volatile("" : : : "memory");
            std::memcpy(&now, number, sizeof now);
        } while (now != received_);
    }

  private:
    static constexpr size_t kNumberBytes = sizeof(uint32_t);

    bool open(PartnersMemory& here) {
        if (!library_.load()) {
            why_not_ = "libfabric.so.1 cannot be loaded; install it (Debian: libfabric1)";
            return false;
        }
        const char* const asked = std::getenv("GPURUN_FABRIC");
        const bool any = asked == nullptr || std::string(asked) == "auto";
        for (const char* name :
             any ? std::vector<const char*>(kProviders.begin(), kProviders.end()) : std::vector{asked})
            if (fi_info* const info = find(name); info != nullptr && open(*info, here))
                return true;
        why_not_ = "libfabric has no provider for it (GPURUN_FABRIC) that writes into memory of others";
        return false;
    }

    fi_info* find(const char* provider) const {
        fi_info* const hints = library_.copy_info(nullptr);
        hints->caps = FI_MSG | FI_RMA;
        hints->mode = FI_CONTEXT | FI_CONTEXT2;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
        hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
        hints->fabric_attr->prov_name = strdup(provider);
        fi_info* found = nullptr;
        return library_.get_info(FI_VERSION(1, 9), nullptr, nullptr, 0, hints, &found) == 0 ? found : nullptr;
    }

    bool open(fi_info& info, PartnersMemory& here) {
        fid_fabric* fabric = nullptr;
        fid_domain* domain = nullptr;
        fi_av_attr table{};
        table.type = FI_AV_TABLE;
        fi_cq_attr queue{};
        queue.format = FI_CQ_FORMAT_CONTEXT;
        queue.size = 1024;
        const uint64_t access = FI_WRITE | FI_REMOTE_WRITE;
        size_t bytes = here.address.size();
        if (library_.open_fabric(info.fabric_attr, &fabric, nullptr) != 0 ||
            fi_domain(fabric, &info, &domain, nullptr) != 0 || fi_av_open(domain, &table, &addresses_, nullptr) != 0 ||
            fi_cq_open(domain, &queue, &queue_, nullptr) != 0 || fi_endpoint(domain, &info, &endpoint_, nullptr) != 0 ||
            fi_ep_bind(endpoint_, &addresses_->fid, 0) != 0 ||
            fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV) != 0 || fi_enable(endpoint_) != 0 ||
            fi_mr_reg(domain, out_.data(), out_.size(), FI_WRITE, 0, 1, 0, &from_, nullptr) != 0 ||
            fi_mr_reg(domain, in_.data(), in_.size(), access, 0, 2, 0, &into_, nullptr) != 0 ||
            fi_getname(&endpoint_->fid, here.address.data(), &bytes) != 0)
            return false;
        here.key = fi_mr_key(into_);
        here.base = (info.domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<uint64_t>(in_.data()) : 0;
        provider_ = info.fabric_attr->prov_name;
        return true;
    }

    void write(size_t offset, size_t bytes) {
        fi_context2& context = contexts_[started_++ % contexts_.size()];
        ssize_t result = 0;
        do {
            result = fi_write(endpoint_, out_.data() + offset, bytes, fi_mr_desc(from_), partner_, base_ + offset, key_,
                              &context);
            if (result == -FI_EAGAIN)
                look();
        } while (result == -FI_EAGAIN);
        if (result != 0)
            fail("fi_write", static_cast<int>(-result));
        ++under_way_;
    }

    void look() {
        std::array<fi_cq_entry, 16> entries{};
        const ssize_t got = fi_cq_read(queue_, entries.data(), entries.size());
        if (got == -FI_EAGAIN)
            return;
        if (got < 0) {
            fi_cq_err_entry entry{};
            (void)fi_cq_readerr(queue_, &entry, 0);
            fail("a write", entry.err);
        }
        under_way_ -= static_cast<size_t>(got);
    }

    void fail(const char* what, int error) const {
        std::fprintf(stderr, "gpurun-perf: --against=fabric: %s: %s\n", what, library_.describe(error));
        gpurun_abort(1);
    }

    Library library_;
    std::string why_not_;
    std::string provider_;
    size_t slot_bytes_;
    std::vector<char> out_;
    std::vector<char> in_;
    std::array<fi_context2, 1024> contexts_{}; // as many as a window may have
    fid_av* addresses_ = nullptr;
    fid_cq* queue_ = nullptr;
    fid_ep* endpoint_ = nullptr;
    fid_mr* from_ = nullptr;
    fid_mr* into_ = nullptr;
    fi_addr_t partner_ = FI_ADDR_UNSPEC;
    uint64_t base_ = 0;
    uint64_t key_ = 0;
    size_t started_ = 0; // writes
    size_t under_way_ = 0;
    uint32_t sent_ = 0;
    uint32_t received_ = 0;
};

} // namespace

std::unique_ptr<Network> make_fabric(const Pair& pair, size_t bytes) { return std::make_unique<Fabric>(pair, bytes); }

} // namespace gpurun::bench
