// mailbox: small messages of device or pinned memory, in one hop. The source's kernel writes words that carry a mark
// into the target's device memory, and the target's kernel waits for the marks, so the bytes need no edge. The edges
// are signalled all the same: they free the slot, and tell which messages were complete when a rank died.
//
// Small mails of requests and in the host's order share kernels (fused_messages.hpp). A rank maps the peers' workspaces
// while it starts, and tries whether it can read back what it writes there. Not later, because mapping may wait for the
// whole device, and a stream of the program's may by then wait for a message. In jobs of more than kMostOpened ranks,
// with the first mail all the same.
#pragma once

#include "transfer/fence/slot_ring.hpp"
#include "transfer/state.hpp"

namespace gpurun::transfer {

class MailboxPart final : public ProtocolPart {
  public:
    static constexpr ProtocolId kProtocol = 2;
    static constexpr uint32_t kMostOpened = 16;

    MailboxPart(Resources& resources, Peer& peer)
        : resources_(resources), peer_(peer), device_(resources.device.mails()) {}

    // Whether mails can go to the peer. The first call finds out.
    bool open();
    // The peer's workspace. REQUIRES open().
    const WorkspaceView& workspace() const { return *workspace_; }
    // REQUIRES open(), or that a mail has come: only to a rank whose device has mails.
    device::Mails& device() const { return *device_; }
    // A slot for a mail of so many bytes, if one is free. `soon`: or is within some microseconds. A program that is
    // ahead of its stream has one with each call that the stream comes to; in another way its message would take
    // longer. If somebody has waited in vain, nobody waits before a slot was free at the first look.
    base::Result<std::optional<Slot>> take_slot(Fence& fence, uint64_t bytes, bool soon);
    // Of one that was not used after all: the next mail that it has room for gets it.
    void give_back(const Slot& slot) { unused_.push_back(slot); }

    base::Result<void> let_go() override; // unmaps it

  private:
    base::Result<void> map(const device::MemoryHandle& handle);
    base::Result<std::optional<Slot>> take_free_slot(Fence& fence, uint64_t bytes);
    uint64_t room_in(const Slot& slot) const;

    Resources& resources_;
    Peer& peer_;
    device::Mails* const device_; // or null
    bool tried_ = false;
    std::optional<WorkspaceView> workspace_;
    SlotRing large_mails_{SlotClass::kLargeMail};
    SlotRing mails_{SlotClass::kMail};
    SlotRing small_mails_{SlotClass::kSmallMail};
    std::vector<Slot> unused_;
    std::array<bool, 3> is_held_up_{}; // by class of mails, from small ones on: somebody has waited in vain
};

// A longer message that its target reduces, and passes on, is read where it lies.
constexpr size_t kLongestPassedOn = size_t{32} << 10;

// Whether a send goes by mailbox if there is a slot.
bool goes_by_mailbox(const Send& send);
// Whether it does, and may share a kernel with others.
bool may_be_fused(const Send& send);

class MailSend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = MailboxPart::kProtocol;
    base::Result<Posted> post(Send& send) override;
    base::Result<bool> complete_into(Send& send, device::Stream stream) override;
    bool ends_by_itself() const override {
        return launch_ != 0;
    } // a shared kernel does, whatever becomes of the target

  private:
    base::Result<bool> can_be_fused_now(Send& send) const;
    base::Result<Posted> put_fused(Send& send, const device::Mail& mail);
    base::Result<Posted> put_alone(Send& send, Fence& fence, const device::Mail& mail);
    bool publish(Send& send) const;

    Slot slot_{};
    uint64_t launch_ = 0; // of the kernel that it shares; 0: of none
};

class MailReceive final : public ReceiveState {
  public:
    static constexpr ProtocolId kProtocol = MailboxPart::kProtocol;
    base::Result<void> start(Receive& receive, const Arrival& arrival) override;
    base::Result<bool> is_complete_without_peer(const Receive& receive, const CompletionPoint& end) const override;
    base::Result<bool> complete_into(Receive& receive, device::Stream stream) override;
    base::Result<void> enqueue_left(Receive& receive, std::optional<device::Stream> stream) override;
    base::Result<device::FusedReduction::Operand> hand_over(Receive& receive, device::Stream stream) override;
    std::optional<CompletionPoint> blocked_on(const Receive& receive) const override;
    bool ends_by_itself() const override { return fused_; } // a shared kernel does: poison releases it

  private:
    base::Result<void> take(Receive& receive, Fence& fence);
    base::Result<void> take_fused(Receive& receive, Fence& fence);
    base::Result<void> take_alone(Receive& receive, Fence& fence);
    base::Result<void> take_together(Receive& receive, Fence& fence, device::Stream stream);
    device::Mail mail_of(Receive& receive, Fence& fence) const;

    Slot slot_{};
    uint64_t mail_bytes_ = 0;
    bool fused_ = false;
};

// ---- mails without a Send or a Receive, in a stream: of a collective (comm/immediate_mails.hpp)

// The longest that goes by mailbox, whether it can be read where it is or not.
uint64_t longest_plain_mail(const Resources& resources, Reduced reduced, uint32_t beside);
// Posts its record, and collects it to be put (exchanges.hpp). REQUIRES that it is no longer than that, that device
// kernels read it, and that no earlier message to the peer waits. False: it cannot go like this, or not now.
bool put_plain_mail(Resources& resources, Peer& target, const Operand& from, const Envelope& envelope,
                    uint64_t signature);
// One whose record has come: it is to be read in the stream, by what is given to the exchanges.
struct PlainMail {
    Peer* source = nullptr;
    Fence* fence = nullptr;
    Slot slot{};
    uint64_t bytes = 0;
};
// None: the fence cannot be opened.
std::optional<PlainMail> find_plain_mail(Peer& source, const Record& record);
device::Mail open_plain_mail(const Resources& resources, const PlainMail& mail, device::Stream stream);
// Nobody will read it.
void drop_plain_mail(const PlainMail& mail);

constexpr std::array<RouteText, 1> kMailboxRoutes = {{{"mailbox", "small: does not wait for its match"}}};

} // namespace gpurun::transfer
