#include "platform/fabric/endpoint.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "platform/fabric/library.hpp"
#include "platform/fabric/network_address.hpp"
#include "platform/random_number.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <vector>

namespace gpurun::platform {

using base::Result;
using base::Status;

namespace {

constexpr size_t kReceives = 64; // frames that may arrive before anybody looks; beyond, the provider holds senders back
constexpr size_t kSends = 64;    // frames on their way
constexpr size_t kWrites = 64;   // the same of writes

// By preference. From 1.18 on tcp has reliable datagrams of its own; before, `net` has them, and rxm makes four system
// calls more for each message.
constexpr std::array kProviders = {"efa", "verbs;ofi_rxm", "tcp", "net", "tcp;ofi_rxm"};
constexpr std::array kSockets = {"tcp", "net"}; // whose progress is that of their sockets
constexpr std::array kOfOneMachine = {"shm", "sm2", "lnx"};

struct CloseFid {
    template <typename Object>
    void operator()(Object* object) const {
        fi_close(&object->fid);
    }
};
template <typename Object>
using Owned = std::unique_ptr<Object, CloseFid>;

struct FreeInfo {
    const FabricLibrary* library;
    void operator()(fi_info* info) const { library->free_info(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

std::optional<NetworkAddress> source_of(const fi_info& info) {
    if (info.src_addr == nullptr)
        return std::nullopt;
    return NetworkAddress::read({static_cast<const std::byte*>(info.src_addr), info.src_addrlen});
}

// Whether other machines reach it.
bool is_reachable(const fi_info& info) {
    const auto source = source_of(info);
    return !source || source->is_reachable();
}

// Through memory that its processes share.
bool stays_on_machine(const std::string& provider) {
    return std::any_of(kOfOneMachine.begin(), kOfOneMachine.end(),
                       [&](const char* each) { return provider.compare(0, provider.find(';'), each) == 0; });
}

bool is_at(const fi_info& info, const std::string& place) {
    if (info.domain_attr->name != nullptr && place == info.domain_attr->name)
        return true;
    const auto source = source_of(info);
    return source && source->is_at(place);
}

// Those that may be taken, the best first. libfabric gives what is made of a provider, too: for tcp also tcp;ofi_rxm.
std::vector<const fi_info*> sort_out(const fi_info* all, const char* provider, const FabricEndpoint::Options& options) {
    std::vector<const fi_info*> infos;
    for (const fi_info* each = all; each != nullptr; each = each->next)
        if ((options.may_be_loopback || is_reachable(*each)) && (options.place.empty() || is_at(*each, options.place)))
            infos.push_back(each);
    if (!options.usual_address.empty())
        std::stable_partition(infos.begin(), infos.end(),
                              [&](const fi_info* each) { return is_at(*each, options.usual_address); });
    std::stable_partition(infos.begin(), infos.end(), [&](const fi_info* each) {
        return each->fabric_attr->prov_name != nullptr && std::strcmp(each->fabric_attr->prov_name, provider) == 0;
    });
    return infos;
}

Info find_info(const FabricLibrary& library, const char* provider, bool writes) {
    Info hints(library.copy_info(nullptr), {&library});
    hints->caps = FI_MSG | FI_SEND | FI_RECV;
    if (writes)
        hints->caps |= FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order =
        FI_ORDER_SAS | (writes ? FI_ORDER_SAW | FI_ORDER_WAS | FI_ORDER_WAW : 0);
    hints->tx_attr->size = kSends + (writes ? kWrites : 0); // rxm takes some 100 MiB else
    hints->rx_attr->size = kReceives;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    if (writes)
        hints->domain_attr->cq_data_size = sizeof(uint64_t); // a note
    else
        hints->domain_attr->mr_mode |= FI_MR_ENDPOINT;
    hints->fabric_attr->prov_name = ::strdup(provider);
    fi_info* found = nullptr;
    if (library.get_info(FI_VERSION(1, 9), nullptr, nullptr, 0, hints.get(), &found) != 0)
        found = nullptr;
    return {found, {&library}};
}

// A provider of libfabric (psm) sets handlers of signals as it is loaded: the program's are put back.
class KeptHandlers {
  public:
    KeptHandlers() {
        for (size_t i = 0; i < kSignals.size(); ++i)
            ::sigaction(kSignals[i], nullptr, &before_[i]);
    }
    ~KeptHandlers() {
        for (size_t i = 0; i < kSignals.size(); ++i)
            ::sigaction(kSignals[i], &before_[i], nullptr);
    }
    KeptHandlers(const KeptHandlers&) = delete;
    KeptHandlers& operator=(const KeptHandlers&) = delete;

  private:
    static constexpr std::array kSignals = {SIGHUP, SIGINT,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
                                            SIGFPE, SIGSEGV, SIGPIPE, SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2};

    std::array<struct sigaction, kSignals.size()> before_{};
};

class Endpoint final : public FabricEndpoint {
  public:
    Endpoint(const FabricLibrary& library, size_t frame_bytes)
        : library_(library), info_(nullptr, {&library}), frame_bytes_(frame_bytes) {}

    ~Endpoint() override {
        endpoint_.reset(); // before the memory that it uses
        entered_.clear();
        registered_.reset();
    }

    Result<void> open(Info info, bool writes) {
        info_ = std::move(info);
        can_write_ = writes;
        provider_ = info_->fabric_attr->prov_name;
        is_of_sockets_ = std::find(kSockets.begin(), kSockets.end(), provider_) != kSockets.end();
        if (is_of_sockets_)
            frame_bytes_ = frame_bytes_ < kFrameBytes ? kFrameBytes : kLongFrameBytes;
        fid_fabric* fabric = nullptr;
        GPURUN_TRY(done(library_.open_fabric(info_->fabric_attr, &fabric, nullptr), "opening the fabric"));
        fabric_.reset(fabric);
        fid_domain* domain = nullptr;
        GPURUN_TRY(done(fi_domain(fabric, info_.get(), &domain, nullptr), "opening the domain"));
        domain_.reset(domain);
        fi_av_attr addresses{};
        addresses.type = FI_AV_TABLE;
        fid_av* av = nullptr;
        GPURUN_TRY(done(fi_av_open(domain, &addresses, &av, nullptr), "opening the table of addresses"));
        addresses_.reset(av);
        GPURUN_TRY(open_queue());
        fid_ep* endpoint = nullptr;
        GPURUN_TRY(done(fi_endpoint(domain, info_.get(), &endpoint, nullptr), "opening the endpoint"));
        endpoint_.reset(endpoint);
        GPURUN_TRY(done(fi_ep_bind(endpoint, &av->fid, 0), "binding the table of addresses"));
        GPURUN_TRY(done(fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV), "binding the queue"));
        GPURUN_TRY(done(fi_enable(endpoint), "enabling the endpoint"));
        GPURUN_TRY(make_frames());
        size_t bytes = address_.size();
        GPURUN_TRY(done(fi_getname(&endpoint->fid, address_.data(), &bytes), "asking for the endpoint's address"));
        address_bytes_ = bytes;
        return {};
    }

    const std::string& provider() const override { return provider_; }
    std::span<const std::byte> address() const override { return std::span(address_).first(address_bytes_); }

    Result<uint64_t> add_peer(std::span<const std::byte> address) override {
        fi_addr_t number = FI_ADDR_UNSPEC;
        const int added = fi_av_insert(addresses_.get(), address.data(), 1, &number, 0, nullptr);
        if (added != 1)
            return failure(added < 0 ? added : -FI_EADDRNOTAVAIL, "entering a peer's address");
        return uint64_t{number};
    }

    size_t frame_bytes() const override { return frame_bytes_; }
    std::byte* free_frame() override { return free_.empty() ? nullptr : free_.back()->bytes; }

    Result<bool> send(uint64_t peer, size_t bytes) override {
        Frame& frame = *free_.back();
        frame.peer = peer;
        const ssize_t sent =
            fi_send(endpoint_.get(), frame.bytes, bytes, descriptor(), static_cast<fi_addr_t>(peer), &frame);
        if (sent == -FI_EAGAIN)
            return false;
        if (sent != 0)
            return failure(static_cast<int>(sent), "sending");
        free_.pop_back();
        return true;
    }

    bool can_write() const override { return can_write_; }

    Result<Entered> enter(std::span<std::byte> memory) override {
        constexpr uint64_t kAccess = FI_WRITE | FI_REMOTE_WRITE;
        const uint64_t mode = info_->domain_attr->mr_mode;
        const uint64_t wanted_key = (mode & FI_MR_PROV_KEY) != 0 ? 0 : random_number();
        fid_mr* made = nullptr;
        GPURUN_TRY(
            done(fi_mr_reg(domain_.get(), memory.data(), memory.size(), kAccess, 0, wanted_key, 0, &made, nullptr),
                 "registering memory that peers write"));
        entered_.emplace_back(made);
        const uint64_t base = (mode & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<uint64_t>(memory.data()) : 0;
        return Entered{{base, fi_mr_key(made)}, fi_mr_desc(made)};
    }

    Result<bool> write(uint64_t peer, std::span<const std::byte> bytes, const Entered& from, const Landing& landing,
                       size_t offset, uint64_t note) override {
        if (free_writes_.empty())
            return false;
        Frame& context = *free_writes_.back();
        context.peer = peer;
        const ssize_t written =
            fi_writedata(endpoint_.get(), bytes.data(), bytes.size(), from.descriptor, note,
                         static_cast<fi_addr_t>(peer), landing.base + offset, landing.key, &context);
        if (written == -FI_EAGAIN)
            return false;
        if (written != 0)
            return failure(static_cast<int>(written), "writing");
        free_writes_.pop_back();
        return true;
    }

    Result<bool> poll(Events& events) override {
        std::array<fi_cq_data_entry, 16> entries{};
        const ssize_t got = fi_cq_read(queue_.get(), entries.data(), entries.size());
        may_have_more_ = got == static_cast<ssize_t>(entries.size()) || got == -FI_EAVAIL;
        if (got == -FI_EAGAIN)
            return false;
        if (got == -FI_EAVAIL)
            return take_failure(events);
        if (got < 0)
            return failure(static_cast<int>(got), "reading the queue");
        for (size_t i = 0; i < static_cast<size_t>(got); ++i) {
            if ((entries[i].flags & FI_REMOTE_WRITE) != 0) {
                events.on_written(entries[i].data);
                continue;
            }
            Frame& frame = *static_cast<Frame*>(entries[i].op_context);
            if (frame.kind == Kind::kReceive) {
                events.on_frame({frame.bytes, entries[i].len});
                GPURUN_TRY(post(frame));
            } else {
                free_again(frame);
                if (frame.kind == Kind::kSend)
                    events.on_sent(frame.peer);
            }
        }
        return got > 0;
    }

    bool may_have_more() const override { return may_have_more_; }
    int wait_fd() const override { return wait_fd_; }
    bool may_sleep() override {
        fid* queues[] = {&(unused_ ? unused_ : queue_)->fid};
        return fi_trywait(fabric_.get(), queues, 1) == 0;
    }

  private:
    enum class Kind { kSend, kReceive, kWrite };
    struct Frame {
        fi_context2 context; // the provider's, while it has the frame
        std::byte* bytes;    // none of a write
        uint64_t peer;
        Kind kind;
    };
    void free_again(Frame& frame) { (frame.kind == Kind::kWrite ? free_writes_ : free_).push_back(&frame); }

    base::Error failure(int code, const char* what) const {
        return base::error(Status::kSystem, "libfabric ({}): {} failed: {}", provider_, what, library_.describe(-code));
    }
    Result<void> done(int code, const char* what) const {
        return code == 0 ? Result<void>() : Result<void>(failure(code, what));
    }
    void* descriptor() const { return registered_ ? fi_mr_desc(registered_.get()) : nullptr; }

    // A queue with a descriptor signals it for each completion, also of what was sent: two system calls, and the thread
    // that sleeps is woken for nothing. Where all comes by sockets, that of a queue without completions tells of these
    // alone. (In 1.17, that of `net` stays readable for ever once there was a completion.)
    Result<void> open_queue() {
        if (is_of_sockets_) {
            GPURUN_TRY(open_queue(FI_WAIT_NONE, queue_));
            GPURUN_TRY(open_queue(FI_WAIT_FD, unused_));
        } else if (!open_queue(FI_WAIT_FD, queue_)) {
            return open_queue(FI_WAIT_NONE, queue_);
        }
        fid_cq& sleeper = *(unused_ ? unused_ : queue_);
        return done(fi_control(&sleeper.fid, FI_GETWAIT, &wait_fd_), "asking for the queue's descriptor");
    }

    Result<void> open_queue(fi_wait_obj how_to_wait, Owned<fid_cq>& ret_queue) {
        fi_cq_attr attributes{};
        attributes.size = 2 * (kSends + kReceives + kWrites);
        attributes.format = FI_CQ_FORMAT_DATA;
        attributes.wait_obj = how_to_wait;
        fid_cq* queue = nullptr;
        GPURUN_TRY(done(fi_cq_open(domain_.get(), &attributes, &queue, nullptr), "opening the queue"));
        ret_queue.reset(queue);
        return {};
    }

    Result<void> make_frames() {
        const size_t bytes = (kSends + kReceives) * frame_bytes_;
        memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes); // touched as it is used
        if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
            fid_mr* registered = nullptr;
            GPURUN_TRY(
                done(fi_mr_reg(domain_.get(), memory_.get(), bytes, FI_SEND | FI_RECV, 0, 0, 0, &registered, nullptr),
                     "registering memory"));
            registered_.reset(registered);
        }
        frames_.resize(kSends + kReceives + kWrites);
        for (size_t i = 0; i < frames_.size(); ++i) {
            Frame& frame = frames_[i];
            frame.kind = i < kSends ? Kind::kSend : i < kSends + kReceives ? Kind::kReceive : Kind::kWrite;
            if (frame.kind != Kind::kWrite)
                frame.bytes = memory_.get() + i * frame_bytes_;
            if (frame.kind == Kind::kReceive)
                GPURUN_TRY(post(frame));
            else
                free_again(frame);
        }
        return {};
    }

    Result<void> post(Frame& frame) {
        return done(
            static_cast<int>(fi_recv(endpoint_.get(), frame.bytes, frame_bytes_, descriptor(), FI_ADDR_UNSPEC, &frame)),
            "posting a receive");
    }

    Result<bool> take_failure(Events& events) {
        fi_cq_err_entry entry{};
        if (fi_cq_readerr(queue_.get(), &entry, 0) < 0)
            return false;
        Frame* const frame = static_cast<Frame*>(entry.op_context);
        if (frame == nullptr)
            return true;
        if (frame->kind == Kind::kReceive) {
            GPURUN_TRY(post(*frame));
            return true;
        }
        free_again(*frame);
        events.on_failed(frame->peer, library_.describe(entry.err));
        return true;
    }

    const FabricLibrary& library_;
    Info info_;
    std::string provider_;
    bool is_of_sockets_ = false;
    size_t frame_bytes_;
    std::unique_ptr<std::byte[]> memory_;
    std::vector<Frame> frames_;
    std::vector<Frame*> free_;
    std::vector<Frame*> free_writes_;
    bool can_write_ = false;
    bool may_have_more_ = false;
    std::array<std::byte, 256> address_{};
    size_t address_bytes_ = 0;
    int wait_fd_ = -1;
    // In the order in which they are made: closed from the last to the first.
    Owned<fid_fabric> fabric_;
    Owned<fid_domain> domain_;
    Owned<fid_av> addresses_;
    Owned<fid_cq> queue_;
    Owned<fid_cq> unused_; // if its descriptor is the one that is waited for
    Owned<fid_mr> registered_;
    std::vector<Owned<fid_mr>> entered_;
    Owned<fid_ep> endpoint_;
};

} // namespace

Result<std::unique_ptr<FabricEndpoint>> FabricEndpoint::open(const Options& options) {
    const KeptHandlers handlers;
    GPURUN_ASSIGN(const FabricLibrary* const library, FabricLibrary::get(options.frame_bytes));
    std::vector<const char*> names(kProviders.begin(), kProviders.end());
    if (options.provider != "auto")
        names = {options.provider.c_str()};
    if (stays_on_machine(options.provider) && !options.may_be_loopback)
        return base::error(Status::kUnsupported,
                           "libfabric's provider '{}' reaches processes of its own machine only: leave GPURUN_FABRIC "
                           "away, or name a provider of a network, such as 'tcp;ofi_rxm'",
                           options.provider);
    for (const char* name : names) {
        Info all = find_info(*library, name, true);
        const bool writes = all != nullptr;
        if (!writes)
            all = find_info(*library, name, false);
        for (const fi_info* const each : sort_out(all.get(), name, options)) {
            auto endpoint = std::make_unique<Endpoint>(*library, options.frame_bytes);
            auto opened = endpoint->open({library->copy_info(each), {library}}, writes);
            if (opened && endpoint->address().size() <= kMostAddressBytes)
                return std::unique_ptr<FabricEndpoint>(std::move(endpoint));
            if (options.provider != "auto" && !opened)
                return std::move(opened).error();
            base::log(base::LogLevel::kInfo, "libfabric's provider {} cannot be used here", name);
        }
    }
    if (!options.place.empty())
        return base::error(Status::kUnsupported,
                           "libfabric's provider '{}' cannot use GPURUN_FABRIC_INTERFACE={}: `fi_info -t "
                           "FI_EP_RDM` says which interfaces it has here",
                           options.provider, options.place);
    return base::error(Status::kUnsupported,
                       "libfabric has no provider '{}' that can be used here: `fi_info -t FI_EP_RDM` says which it "
                       "has, and GPURUN_FABRIC names one",
                       options.provider);
}

} // namespace gpurun::platform
