#include "transfer/channel/fabric_port.hpp"

#include "base/log.hpp"
#include "platform/clock.hpp"
#include "platform/random_number.hpp"
#include "platform/wake.hpp"
#include "transfer/channel/fabric_peer.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace gpurun::transfer {

using base::Result;
using platform::FabricEndpoint;
using platform::RankState;

namespace {

constexpr int64_t kUs = 1000;
constexpr int64_t kMs = 1000 * kUs;
constexpr int64_t kAttendedNapNs = 100 * kUs; // while threads of the rank look in calls
constexpr int kMostSkips = 16;                // such naps in a row
constexpr int kMostSkipsUnread = 3;           // if they only send
// While there may be something to do of which no descriptor tells: a part of the time since the last such thing, so
// that it is done by so much later at most.
constexpr int64_t kNapPart = 8;
constexpr int64_t kShortestNapNs = 20 * kUs;
constexpr int64_t kLongestNapNs = 2 * kMs;
constexpr int64_t kFarewellNs = 5000 * kMs; // for a peer that ends without a goodbye, and is not marked dead
// A frame takes a system call, which is worth many small items. So what comes so soon after a frame, or within the time
// that it took to send it, waits until somebody looks, and goes together with what has come by then.
constexpr int64_t kCompanyNs = 10 * kUs;
constexpr size_t kMostBeforeBytes = 1024; // of a frame
constexpr size_t kLargeBytes = 32 * 1024; // that need no company

} // namespace

struct FabricPort::Address {
    uint64_t key;
    char provider[kProviderBytes]; // as far as it fits
    std::byte bytes[FabricEndpoint::kMostAddressBytes];
};

Result<std::shared_ptr<FabricPort>> FabricPort::open(const platform::JobSegment& job, base::WorldRank self,
                                                     const FabricEndpoint::Options& options) {
    GPURUN_ASSIGN(platform::WaitBell bell, platform::WaitBell::create());
    std::shared_ptr<FabricPort> port(new FabricPort(job, self, std::move(bell)));
    GPURUN_ASSIGN(port->endpoint_, FabricEndpoint::open(options));
    port->key_ = platform::random_number();
    base::log(base::LogLevel::kInfo, "ranks of other nodes are reached by libfabric's provider {}", port->provider());
    return port;
}

FabricPort::~FabricPort() {
    watch_.reset();
    stops_.store(true, std::memory_order_release);
    bell_.ring();
    if (progress_)
        platform::join_quiet_thread(*progress_);
}

void FabricPort::publish(platform::RankRecord& own) const {
    static_assert(sizeof(Address) == sizeof own.fabric_address);
    Address address{.key = key_, .provider = {}, .bytes = {}};
    provider().copy(address.provider, sizeof address.provider);
    const auto bytes = endpoint_->address();
    std::copy(bytes.begin(), bytes.end(), address.bytes);
    std::memcpy(own.fabric_address.data(), &address, sizeof address);
    own.fabric_address_bytes = static_cast<uint32_t>(offsetof(Address, bytes) + bytes.size());
}

Result<void> FabricPort::start() {
    const auto progress = [](void* self) -> void* {
        static_cast<FabricPort*>(self)->make_progress();
        return nullptr;
    };
    GPURUN_ASSIGN(progress_, platform::start_quiet_thread(progress, this, "the thread that reaches other nodes",
                                                          platform::kUsualStack));
    GPURUN_ASSIGN(watch_, platform::DeathWatch::start(job_, self_.value, [this] { lose_the_dead(); }));
    return {};
}

// ------------------------------------------------------------------------------------------------------- channels

Result<void> FabricPort::add(FabricPeer& channel) {
    const uint32_t rank = channel.peer().value;
    const platform::RankRecord& record = job_.rank(rank);
    const size_t bytes = record.fabric_address_bytes;
    if (bytes <= offsetof(Address, bytes) || bytes > sizeof(Address))
        return base::error(base::Status::kUnsupported,
                           "rank {} is on another node, and has not said where it is reached: its gpurun may be "
                           "another version",
                           rank);
    Address address{};
    std::memcpy(&address, record.fabric_address.data(), bytes);
    const std::string_view its(address.provider, ::strnlen(address.provider, sizeof address.provider));
    if (its != provider().substr(0, sizeof address.provider))
        return base::error(
            base::Status::kUnsupported,
            "rank {} takes libfabric's provider '{}' and rank {} takes '{}', and these do not understand "
            "each other: name one that all hosts have (gpurun --fabric)",
            self_.value, provider(), rank, its);
    channel.key_ = address.key;
    const auto where = std::span(address.bytes).first(bytes - offsetof(Address, bytes));
    channel.address_ = platform::NetworkAddress::read(where);
    GPURUN_ASSIGN(channel.number_, endpoint_->add_peer(where));
    channel.polls_ = channels_.empty();
    channels_.emplace(rank, &channel);
    return {};
}

void FabricPort::remove(FabricPeer& channel) {
    channels_.erase(channel.peer().value);
    std::erase(busy_, &channel);
    channel.give_pages(pages_);
}

void FabricPort::offer(FabricPeer& channel, uint32_t window, std::span<std::byte> pages) {
    if (!endpoint_->can_write())
        return;
    auto entered = endpoint_->enter(pages);
    if (!entered)
        return base::log(base::LogLevel::kInfo, "rank {} sends what it could write: {}", channel.peer().value,
                         entered.error().detail);
    channel.tell_landing(window, std::as_bytes(std::span(&entered->landing, 1)));
    flush(channel);
}

bool FabricPort::accept(FabricPeer& channel, uint32_t window, std::span<const std::byte> how) {
    FabricEndpoint::Landing landing;
    if (how.size() != sizeof landing || !endpoint_->can_write())
        return false;
    std::memcpy(&landing, how.data(), sizeof landing);
    channel.windows_[window].landing = landing;
    return true;
}

void FabricPort::part_from(FabricPeer& channel, std::unique_lock<std::mutex>& lock) {
    if (channels_.count(channel.peer().value) == 0)
        return; // it never opened
    for (const auto& [rank, each] : channels_)
        if (each->has_met() && !std::exchange(each->said_goodbye_, true)) {
            each->say_goodbye();
            flush(*each);
        }
    parting_ = true;
    const auto is_over = [&] {
        const bool is_said = !channel.is_busy();
        return !channel.has_met() || channel.is_lost() ||
               (is_said && (channel.heard_goodbye() || job_.has_finalized(channel.peer().value)));
    };
    if (progress_)
        changed_.wait_for(lock, std::chrono::nanoseconds(kFarewellNs), is_over);
}

// False: not now.
bool FabricPort::send_frame(FabricPeer& channel, size_t bytes) {
    auto sent = endpoint_->send(channel.number_, bytes);
    if (!sent) {
        on_failed(channel.number_, sent.error().detail);
        return true; // it is gone, and so will the peer be
    }
    if (*sent)
        note_sent(channel, true);
    return *sent;
}

bool FabricPort::is_large(size_t bytes) const {
    return bytes >= std::min(kLargeBytes, endpoint_->frame_bytes() - kMostBeforeBytes);
}

// What is small is sent in a frame, with what comes before and behind it.
bool FabricPort::may_write(FabricPeer& channel, const FilledBytes& bytes) {
    FabricPeer::Window& window = channel.windows_[bytes.window];
    if (!window.landing || !is_large(bytes.bytes.size()))
        return false;
    if (!window.own) {
        auto entered = endpoint_->enter(channel.pages_out(bytes.window).bytes());
        if (!entered) {
            window.landing.reset();
            return false;
        }
        window.own = *entered;
    }
    return true;
}

// The frame in front of the bytes, as one. False: not now.
bool FabricPort::write(FabricPeer& channel, const FilledBytes& bytes, std::span<const std::byte> frame) {
    const FabricPeer::Window& window = channel.windows_[bytes.window];
    std::byte* const begin = channel.pages_out(bytes.window).data() + bytes.offset - frame.size();
    std::copy(frame.begin(), frame.end(), begin);
    const Note note{channel.key_ & kNoteKey, self_.value, bytes.slot, bytes.use, frame.size() / kNoteUnit};
    auto written = endpoint_->write(channel.number_, {begin, frame.size() + bytes.bytes.size()}, *window.own,
                                    *window.landing, bytes.offset - frame.size(), std::bit_cast<uint64_t>(note));
    if (!written) {
        on_failed(channel.number_, written.error().detail);
        return true; // they are gone, and so will the peer be
    }
    if (*written)
        note_sent(channel, !frame.empty());
    return *written;
}

void FabricPort::note_sent(FabricPeer& channel, bool frame) {
    channel.sent_ += frame ? 1 : 0;
    channel.sent_at_ns_ = platform::now_ns();
    await_answer(channel, channel.sent_at_ns_);
}

void FabricPort::await_answer(FabricPeer& channel, int64_t now_ns) {
    if (channel.unheard_since_ns_ == 0)
        channel.unheard_since_ns_ = now_ns;
    if (beats_)
        return;
    beats_ = true; // from now on it never sleeps for ever
    beat_at_ns_ = now_ns;
    wake_progress(Rest::kSleep);
}

// 0: there is no frame.
size_t FabricPort::fill_frame(FabricPeer& channel, std::byte* frame, std::optional<FilledBytes>& ret_written) {
    const FrameHead head{channel.key_, self_.value, 0, channel.sent_};
    std::memcpy(frame, &head, sizeof head);
    size_t bytes = sizeof head;
    while (channel.has_items()) {
        const auto next = channel.next_bytes();
        if (next && may_write(channel, *next)) {
            if (ret_written || bytes > kMostBeforeBytes)
                break;
            ret_written = next;
            channel.drop_bytes();
            continue;
        }
        const size_t most = ret_written ? kMostBeforeBytes : endpoint_->frame_bytes();
        const size_t item = bytes < most ? channel.write_item({frame + bytes, most - bytes}) : 0;
        if (item == 0)
            break;
        bytes += item;
    }
    if (bytes == sizeof head)
        return 0;
    const size_t padding = ret_written ? (kNoteUnit - bytes % kNoteUnit) % kNoteUnit : 0;
    std::memset(frame + bytes, 0, padding);
    return bytes + padding;
}

void FabricPort::send_frames(FabricPeer& channel) {
    if (channel.silent_since_ns_ != 0)
        return; // a frame is missing there
    while (!channel.unsent_.empty() || channel.unsent_bytes_ || channel.has_items()) {
        std::byte* frame = endpoint_->free_frame();
        if (frame == nullptr)
            return; // until some have gone
        std::optional<FilledBytes> written = std::exchange(channel.unsent_bytes_, std::nullopt);
        size_t bytes = channel.unsent_.size();
        if (written || bytes != 0)
            std::copy(channel.unsent_.begin(), channel.unsent_.end(), frame);
        else
            bytes = fill_frame(channel, frame, written);
        if (!written && bytes == 0)
            return;
        const int64_t begun_ns = platform::now_ns();
        const bool is_gone = written ? write(channel, *written, {frame, bytes}) : send_frame(channel, bytes);
        if (!is_gone) {
            if (channel.unsent_.empty())
                channel.unsent_.assign(frame, frame + bytes);
            channel.unsent_bytes_ = written;
            await_answer(channel, platform::now_ns());
            return;
        }
        channel.unsent_.clear();
        channel.send_took_ns_ = channel.sent_at_ns_ - begun_ns;
    }
}

// What remains is the progress thread's, or whoever looks.
void FabricPort::flush(FabricPeer& channel) {
    (void)channel.carry_reached();
    flushes_.store(flushes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (is_large(channel.bytes_to_carry()) ||
        platform::now_ns() - channel.sent_at_ns_ >= std::max(kCompanyNs, channel.send_took_ns_))
        send_frames(channel);
    list(channel);
}

// A channel may be busy for long, with a stream that is held: what is new must not wait for the long naps of that.
void FabricPort::list(FabricPeer& channel) {
    if (!channel.is_busy())
        return;
    const bool is_new = !std::exchange(channel.is_listed_, true);
    if (is_new)
        busy_.push_back(&channel);
    if (is_new || channel.has_items())
        wake_progress(Rest::kSleep);
}

void FabricPort::look_soon(FabricPeer& channel) {
    flush(channel);
    if (channel.is_watching())
        wake_progress(Rest::kNap);
}

bool FabricPort::flush_busy() {
    bool any = false;
    std::erase_if(busy_, [&](FabricPeer* each) {
        any = each->carry_reached() || any;
        send_frames(*each);
        each->is_listed_ = each->is_busy();
        return !each->is_listed_;
    });
    return any;
}

// If it rests so deeply.
void FabricPort::wake_progress(Rest least) {
    if (asked_.load(std::memory_order_relaxed) != Rest::kNap)
        asked_.store(least, std::memory_order_seq_cst);
    if (rests_.load(std::memory_order_seq_cst) < least)
        return;
    rests_.store(Rest::kNone, std::memory_order_relaxed);
    bell_.ring();
}

// ---------------------------------------------------------------------------------------------------- what comes

bool FabricPort::look() {
    auto found = endpoint_->poll(*this);
    if (!found) {
        base::log(base::LogLevel::kError, "{}", found.error().detail);
        return false;
    }
    return *found;
}

void FabricPort::on_frame(std::span<const std::byte> frame) {
    FrameHead head{};
    if (frame.size() < sizeof head)
        return;
    std::memcpy(&head, frame.data(), sizeof head);
    const auto found = channels_.find(head.source);
    if (head.key != key_ || found == channels_.end()) {
        base::log(base::LogLevel::kWarn, "{} bytes came over {} from somebody who is not of this job", frame.size(),
                  provider());
        return;
    }
    FabricPeer& channel = *found->second;
    if (channel.is_lost())
        return;
    channel.unheard_since_ns_ = 0;
    bool well = head.number == channel.got_++;
    for (auto rest = frame.subspan(sizeof head); well && rest.size() >= kNoteUnit;) {
        const std::optional<size_t> bytes = channel.read_item(rest);
        well = bytes.has_value();
        rest = rest.subspan(bytes.value_or(0));
    }
    if (!well)
        lose_damaged(channel);
}

void FabricPort::lose_damaged(FabricPeer& channel) {
    std::fprintf(stderr,
                 "gpurun: rank %u: what came from rank %u over %s was damaged on its way; its messages are lost\n",
                 self_.value, channel.peer().value, provider().c_str());
    channel.give_up();
}

void FabricPort::on_written(uint64_t number) {
    const Note note = std::bit_cast<Note>(number);
    const auto found = channels_.find(note.source);
    if (note.key != (key_ & kNoteKey) || found == channels_.end())
        base::log(base::LogLevel::kWarn, "bytes were written over {} by somebody who is not of this job", provider());
    else if (!found->second->is_lost())
        arrive_bytes(*found->second, note);
}

void FabricPort::arrive_bytes(FabricPeer& channel, const Note& note) {
    const size_t bytes = note.frame * kNoteUnit;
    channel.unheard_since_ns_ = 0;
    if (!channel.arrive_bytes(note.slot, note.use))
        return lose_damaged(channel);
    if (bytes == 0)
        return;
    const auto frame = channel.room_before(note.slot, bytes);
    if (frame.empty())
        lose_damaged(channel);
    else
        on_frame(frame);
}

// ------------------------------------------------------------------------------------------------------- threads

void FabricPort::poll() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock())
        return;
    looks_.store(looks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const bool moved = look();
    if (moved || !busy_.empty())
        (void)flush_busy();
    if (endpoint_->may_have_more())
        wake_progress(Rest::kSleep);
}

void FabricPort::make_progress() {
    while (!stops_.load(std::memory_order_acquire)) {
        bool moved = false;
        std::unique_lock lock(mutex_, std::defer_lock);
        const bool is_left = is_left_to_callers() || !lock.try_lock(); // whoever has it looks
        if (!is_left) {
            for (int i = 0; i < kMostLooks && look(); ++i)
                moved = true;
            moved = flush_busy() || moved;
            lose_who_is_silent();
            beat();
            if (parting_)
                changed_.notify_all();
            lock.unlock();
        }
        rest(moved, is_left);
    }
}

// Threads in calls have looked, or sent, since, and do so more often than this one would: it would only take the mutex,
// and a core.
bool FabricPort::is_left_to_callers() {
    const uint32_t looks = looks_.load(std::memory_order_relaxed);
    const uint32_t flushes = flushes_.load(std::memory_order_relaxed);
    const bool have_looked = std::exchange(looks_seen_, looks) != looks;
    const bool have_sent = std::exchange(flushes_seen_, flushes) != flushes;
    skips_ = have_looked || have_sent ? (skips_ + 1) % (have_looked ? kMostSkips : kMostSkipsUnread) : 0;
    return skips_ != 0;
}

void FabricPort::rest(bool moved, bool is_left) {
    const int64_t now_ns = platform::now_ns();
    const Rest asked = asked_.exchange(Rest::kNone, std::memory_order_relaxed);
    if (asked != Rest::kNone || moved)
        moved_at_ns_ = now_ns;
    int64_t nap_ns = kAttendedNapNs;
    if (!is_left || asked == Rest::kNap)
        nap_ns = std::clamp((now_ns - moved_at_ns_) / kNapPart, kShortestNapNs, kLongestNapNs);
    int fd = -1;
    if (!is_left && !may_sleep(fd))
        return;
    if (fd >= 0) {
        nap_ns = beats_ ? kBeatNs : platform::kForever;
    } else {
        const Rest how = nap_ns <= kAttendedNapNs ? Rest::kNap : Rest::kSleep;
        rests_.store(how, std::memory_order_seq_cst);
        const Rest least = asked_.load(std::memory_order_seq_cst); // meanwhile, by somebody who did not see that
        if (least != Rest::kNone && least <= how)
            nap_ns = kShortestNapNs;
    }
    bell_.wait(fd, nap_ns);
    rests_.store(Rest::kNone, std::memory_order_relaxed);
}

// False: there is something already. With a descriptor: until it is readable, or this thread is rung.
bool FabricPort::may_sleep(int& ret_fd) {
    const std::lock_guard lock(mutex_);
    if (!busy_.empty() || endpoint_->wait_fd() < 0)
        return true;
    if (!endpoint_->may_sleep() || look())
        return false;
    ret_fd = endpoint_->wait_fd();
    rests_.store(Rest::kSleep, std::memory_order_relaxed); // whoever has the mutex next sees it
    return true;
}

} // namespace gpurun::transfer
