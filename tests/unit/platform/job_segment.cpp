// The job's shared segment: its parts, attaching to it, and the death of a rank.
#include "platform/job_segment.hpp"
#include "platform/clock.hpp"
#include "platform/wake.hpp"
#include "support/unit.hpp"

#include <cstring>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace gpurun::platform;
using gpurun::base::Status;
using gpurun::test::must;

namespace {

UniqueFd duplicate(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

} // namespace

TEST_SUITE_BEGIN("job segment");

TEST_CASE("who attaches sees what the creator wrote") {
    const JobSegment created = must(JobSegment::create(3, 8));
    created.rank(2).pid = 42;
    const JobSegment attached = must(JobSegment::attach(duplicate(created.fd())));
    CHECK(attached.size() == 3);
    CHECK(attached.header().cores == 8);
    CHECK(attached.rank(2).pid == 42);
}

TEST_CASE("a segment of another layout or a cut one is refused") {
    const JobSegment created = must(JobSegment::create(2, 1));
    JobHeader header = created.header();
    ++header.layout;
    REQUIRE(::pwrite(created.fd(), &header, sizeof header, 0) == sizeof header);
    CHECK_STATUS(JobSegment::attach(duplicate(created.fd())), Status::kVersion);
    CHECK_STATUS(JobSegment::attach(must(create_segment("short", 16))), Status::kLauncher);
}

TEST_CASE("the parts of all pairs are apart") {
    const JobSegment segment = must(JobSegment::create(3, 1));
    for (uint32_t source = 0; source < 3; ++source)
        for (uint32_t target = 0; target < 3; ++target) {
            const Mapping ring = must(segment.map_ring(source, target));
            const Mapping fences = must(segment.map_fences(source, target));
            std::memset(ring.data(), static_cast<int>(1 + 3 * source + target), ring.size());
            std::memset(fences.data(), static_cast<int>(101 + 3 * source + target), fences.size());
            segment.control(source, target).ring_entries.store(7 + 3 * source + target);
        }
    for (uint32_t source = 0; source < 3; ++source)
        for (uint32_t target = 0; target < 3; ++target) {
            const Mapping ring = must(segment.map_ring(source, target));
            const Mapping fences = must(segment.map_fences(source, target));
            const auto mark = std::byte(1 + 3 * source + target);
            CHECK(ring.data()[0] == mark);
            CHECK(ring.data()[ring.size() - 1] == mark);
            CHECK(fences.data()[fences.size() - 1] == std::byte(101 + 3 * source + target));
            CHECK(segment.control(source, target).ring_entries.load() == 7 + 3 * source + target);
        }
}

TEST_CASE("the parts of a pair are apart, and each relay window is") {
    const JobSegment segment = must(JobSegment::create(2, 1));
    const auto parts = [&] {
        std::vector<Mapping> all;
        all.push_back(must(segment.map_fences(0, 1)));
        all.push_back(must(segment.map_events(0, 1)));
        all.push_back(must(segment.map_ring(0, 1)));
        all.push_back(must(segment.map_eager(0, 1)));
        for (uint32_t window = 0; window < kRelayWindows; ++window)
            all.push_back(must(segment.map_relay(0, 1, window)));
        all.push_back(must(segment.map_fences(1, 0))); // of the next pair in the segment
        return all;
    };
    const auto mark = [](size_t part) { return static_cast<std::byte>(part + 1); };
    std::vector<Mapping> written = parts();
    for (size_t i = 0; i < written.size(); ++i)
        written[i].data()[0] = written[i].data()[written[i].size() - 1] = mark(i);
    const std::vector<Mapping> read = parts();
    for (size_t i = 0; i < read.size(); ++i) {
        CAPTURE(i);
        CHECK(read[i].data()[0] == mark(i));
        CHECK(read[i].data()[read[i].size() - 1] == mark(i));
    }
    CHECK(read[0].size() >= kFenceSlots * sizeof(FenceSlot));
    CHECK(read[1].size() >= sizeof(EventHandles));
    CHECK(read[3].size() >= kEagerBuffers * kEagerBufferBytes);
    CHECK(read[4].size() >= kRelayBuffers * kRelayBufferBytes);
}

TEST_CASE("the largest job's segment can be made, as it is sparse") {
    const JobSegment segment = must(JobSegment::create(kMaxRanks, 1));
    CHECK(must(segment.map_ring(kMaxRanks - 1, kMaxRanks - 1)).size() == kRingBytes);
}

TEST_CASE("with several nodes, all ranks have a record, and only those of this node have pairs") {
    std::vector<uint32_t> nodes(kMaxJobRanks);
    for (uint32_t rank = 0; rank < kMaxJobRanks; ++rank)
        nodes[rank] = rank % 40; // 250 on each
    const JobSegment created = must(JobSegment::create(nodes, 7, 1));
    const JobSegment attached = must(JobSegment::attach(duplicate(created.fd())));
    CHECK(attached.size() == kMaxJobRanks);
    CHECK(attached.is_here(7));
    CHECK(attached.is_here(9967));
    CHECK_FALSE(attached.is_here(8));
    CHECK(attached.rank(8).node == 8);
    created.control(7, 9967).ring_entries = 5;
    CHECK(attached.control(7, 9967).ring_entries == 5);
    CHECK(attached.control(9967, 7).ring_entries == 0);
    must(created.map_ring(9967, 47)).data()[0] = std::byte{1};
    CHECK(must(attached.map_ring(9967, 47)).data()[0] == std::byte{1});
    CHECK(must(attached.map_ring(47, 9967)).data()[0] == std::byte{0});
    // Of a death elsewhere the ranks here learn, and nothing is poisoned: no memory is shared with it.
    must(created.mark_dead(8));
    CHECK(attached.rank(8).state == static_cast<uint32_t>(RankState::kDead));
    CHECK(attached.rank(7).doorbell == 1);
    CHECK(attached.rank(9).doorbell == 0);
}

TEST_CASE("steps of leaving wake who is not leaving, and with the last rank's all") {
    constexpr uint32_t kNodes[] = {0, 1, 0, 1};
    const JobSegment segment = must(JobSegment::create(kNodes, 0, 1));
    for (const uint32_t rank : {0u, 2u}) {
        segment.rank(rank).presence = presence::kSleeper;
        segment.rank(rank).leaving = rank == 0 ? 0 : 2;
    }
    segment.tell_steps(1, 2);
    CHECK(segment.rank(1).steps_told == 2);
    CHECK(segment.rank(0).doorbell == 1);
    CHECK(segment.rank(2).doorbell == 0);
    segment.rank(3).state = static_cast<uint32_t>(RankState::kDead);
    segment.tell_steps(0, 2);
    CHECK(segment.rank(2).doorbell == 0);
    segment.tell_steps(2, 2);
    CHECK(segment.rank(2).doorbell == 1);
}

TEST_CASE("a segment whose places are damaged is refused") {
    constexpr uint32_t kNodes[] = {0, 1, 0};
    const JobSegment created = must(JobSegment::create(kNodes, 0, 1));
    const Mapping front = must(Mapping::map(created.fd(), 0, 4096));
    auto* const places = reinterpret_cast<uint32_t*>(front.data() + kRecordsOffset + 3 * sizeof(RankRecord));
    CHECK(places[2] == 1);
    places[2] = 2;
    CHECK_STATUS(JobSegment::attach(duplicate(created.fd())), Status::kLauncher);
}

TEST_CASE("a dead rank wakes who sleeps on its fence, and who sleeps on a doorbell") {
    const JobSegment segment = must(JobSegment::create(2, 1));
    const Mapping from_dead = must(segment.map_fences(1, 0));
    auto& awaited = reinterpret_cast<FenceSlot*>(from_dead.data())[5].forward;
    std::atomic<uint32_t>& doorbell = segment.rank(0).doorbell;
    std::thread on_fence([&] {
        while (awaited.load() == 0)
            sleep_while(awaited, uint64_t{0}, kForever);
    });
    std::thread on_doorbell([&] {
        while (doorbell.load() == 0)
            sleep_while(doorbell, 0u, kForever);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    REQUIRE_OK(segment.mark_dead(1));
    on_fence.join();
    on_doorbell.join();
    CHECK(segment.rank(1).state.load() == static_cast<uint32_t>(RankState::kDead));
    CHECK(is_poisoned(awaited.load()));
}

TEST_CASE("who ends while it marks a rank dead leaves that to the next") {
    const JobSegment segment = must(JobSegment::create(3, 1));
    const auto fences = must(segment.map_fences(2, 0));
    auto& awaited = reinterpret_cast<FenceSlot*>(fences.data())[1].forward;
    segment.rank(2).unwatched.store(1);
    segment.rank(2).state.store(static_cast<uint32_t>(RankState::kDying));
    REQUIRE_OK(segment.mark_unwatched(2));
    CHECK(segment.rank(2).state.load() == static_cast<uint32_t>(RankState::kDead));
    CHECK(is_poisoned(awaited.load()));
    segment.rank(1).state.store(static_cast<uint32_t>(RankState::kDying)); // by a supervisor that was killed then
    REQUIRE_OK(segment.mark_unwatched(1));
    CHECK(segment.rank(1).state.load() == static_cast<uint32_t>(RankState::kDead));
    CHECK(segment.rank(1).unwatched.load() == 0); // it has died
}

TEST_CASE("the doorbell of an awake rank is left alone, that of a sleeping one rings") {
    const JobSegment segment = must(JobSegment::create(2, 1));
    segment.ring_doorbell(1, Notify::kAlways);
    CHECK(segment.rank(1).doorbell.load() == 0);
    segment.rank(1).presence.store(presence::kSleeper);
    segment.ring_doorbell(1, Notify::kIfSleeping);
    CHECK(segment.rank(1).doorbell.load() == 1);
    CHECK(segment.rank(1).background_bell.load() == 0);
}

TEST_CASE("a sleeper alone is looked for where every rank has agreed to heavy fences") {
    JobSegment segment = must(JobSegment::create(2, 2));
    if (!agree_to_heavy_fences())
        return;
    for (uint32_t rank = 0; rank < segment.size(); ++rank)
        segment.rank(rank).heavy_fences = 1;
    segment.choose_bells();
    segment.ring_doorbell(1, Notify::kIfSleeping);
    CHECK(segment.rank(1).doorbell.load() == 0);
    CHECK(segment.is_awake(segment.rank(1)));
    segment.announce(1, presence::kSleeper);
    CHECK_FALSE(segment.is_awake(segment.rank(1)));
    segment.ring_doorbell(1, Notify::kIfSleeping);
    CHECK(segment.rank(1).doorbell.load() == 1);
}

TEST_CASE("without heavy fences, or with fewer cores than ranks, nobody is known to be awake without a look") {
    JobSegment crowded = must(JobSegment::create(2, 1));
    JobSegment light_of_one = must(JobSegment::create(2, 2));
    for (uint32_t rank = 0; rank < 2; ++rank)
        crowded.rank(rank).heavy_fences = 1;
    light_of_one.rank(0).heavy_fences = 1;
    for (JobSegment* each : {&crowded, &light_of_one}) {
        each->choose_bells();
        CHECK_FALSE(each->is_awake(each->rank(1)));
    }
}

TEST_CASE("two threads that sleep until the other has published something never miss it") {
    for (const bool light : {false, true}) {
        JobSegment segment = must(JobSegment::create(2, 2));
        for (uint32_t rank = 0; rank < segment.size(); ++rank)
            segment.rank(rank).heavy_fences = light && agree_to_heavy_fences() ? 1 : 0;
        segment.choose_bells();
        constexpr int kRounds = 20000;
        std::atomic<int> published[2] = {};
        const auto play = [&](uint32_t self) {
            for (int round = 1; round <= kRounds; ++round) {
                published[self].store(round, std::memory_order_release);
                segment.ring_doorbell(1 - self, Notify::kIfSleeping);
                while (published[1 - self].load(std::memory_order_acquire) < round) {
                    segment.announce(self, presence::kSleeper);
                    const uint32_t seen = segment.rank(self).doorbell.load(std::memory_order_acquire);
                    if (published[1 - self].load(std::memory_order_acquire) < round)
                        sleep_while(segment.rank(self).doorbell, seen, kForever);
                    segment.rank(self).presence.fetch_sub(presence::kSleeper);
                }
            }
        };
        std::thread other(play, 1);
        play(0);
        other.join();
        CHECK(published[1].load() == kRounds);
    }
}

TEST_CASE("the background thread is woken only by what concerns a rank that computes, and while no call of it looks by "
          "itself") {
    const JobSegment segment = must(JobSegment::create(2, 1));
    RankRecord& record = segment.rank(1);
    record.presence.store(presence::kBackground);
    segment.ring_doorbell(1, Notify::kIfSleeping);
    CHECK(record.background_bell.load() == 0);
    record.presence.store(presence::kBackground + presence::kAttendant);
    segment.ring_doorbell(1, Notify::kAlways);
    CHECK(record.background_bell.load() == 0);
    record.presence.store(presence::kBackground);
    segment.ring_doorbell(1, Notify::kAlways);
    CHECK(record.background_bell.load() == 1);
    CHECK(record.doorbell.load() == 0);
    record.presence.store(presence::kBackground + presence::kUrgent);
    segment.ring_doorbell(1, Notify::kIfSleeping);
    CHECK(record.background_bell.load() == 2);
    record.presence.store(presence::kUrgent);
    segment.ring_doorbell(1, Notify::kIfSleeping);
    CHECK(record.background_bell.load() == 2);
    record.presence.store(presence::kBackground + presence::kUrgent + presence::kAttendant);
    segment.ring_doorbell(1, Notify::kIfSleeping);
    CHECK(record.background_bell.load() == 2);
}

TEST_SUITE_END();
