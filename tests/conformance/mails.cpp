// Mails: small messages that one stream puts into device memory and another takes from there.
//
// While a take waits, a part of the device is busy: nothing is allocated, freed or waited for then. Streams are
// declared last, so that they are the first to go, and release what waits in them, when a test fails.
#include "box.hpp"
#include "other_process.hpp"

#include "platform/job_segment.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::conformance::mails {

TEST_SUITE_BEGIN("mails");

namespace {

constexpr size_t kSizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 4095, 4096, 4097, 65536, 131071, 262144};
constexpr size_t kSkews = 16; // distances from an aligned address
constexpr std::byte kUntouched{0xee};

// What `memory` reads after `bytes` of `content` went to its `offset`.
Bytes expected(size_t size, size_t offset, const std::byte* content, size_t bytes) {
    Bytes all(size, kUntouched);
    std::copy_n(content, bytes, all.begin() + static_cast<ptrdiff_t>(offset));
    return all;
}

std::vector<Kind> all_kinds() {
    std::vector<Kind> kinds = device_kinds();
    kinds.push_back(Kind::kPinned);
    return kinds;
}

} // namespace

TEST_CASE("a mail arrives whole, whatever its size, the alignment of both buffers, and where they are") {
    constexpr size_t kRoom = kLargestMail + 2 * kSkews;
    const Bytes content = pattern(kRoom, 11);
    const Bytes fresh(kRoom, kUntouched);
    for (const Kind from : all_kinds())
        for (const Kind to : all_kinds()) {
            CAPTURE(name(from));
            CAPTURE(name(to));
            Box box;
            const AnyMemory source(from, kRoom);
            source.set(content);
            const Pinned blank(kRoom);
            std::memcpy(blank.get(), fresh.data(), kRoom);
            const AnyMemory destination(to, kRoom);
            const Pinned got(kRoom);
            const Stream sender;
            const Stream receiver;
            for (const size_t bytes : kSizes)
                for (size_t skew = 0; skew < kSkews; skew += bytes <= 100 ? 1 : 5) {
                    CAPTURE(bytes);
                    CAPTURE(skew);
                    const size_t to_skew = (skew * 7 + 3) % kSkews;
                    const size_t room = bytes + 2 * kSkews;
                    if (to == Kind::kPinned)
                        std::memcpy(destination.get(), fresh.data(), room);
                    else
                        REQUIRE_OK(subject().copy(destination.get(), blank.get(), room, receiver));
                    box.begin();
                    if (skew % 2 == 0)
                        box.put(source.get() + skew, bytes, sender);
                    box.take(destination.get() + to_skew, bytes, false, receiver);
                    if (skew % 2 != 0)
                        box.put(source.get() + skew, bytes, sender);
                    if (to != Kind::kPinned)
                        REQUIRE_OK(subject().copy(got.get(), destination.get(), room, receiver));
                    receiver.finish();
                    sender.finish();
                    const std::byte* arrived = to == Kind::kPinned ? destination.get() : got.get();
                    REQUIRE(Bytes(arrived, arrived + room) == expected(room, to_skew, &content[skew], bytes));
                }
            box.check_tickets();
        }
}

TEST_CASE("a take waits for its mail, and holds up what follows it") {
    for (const size_t bytes : {size_t{8}, kLargestMail}) {
        CAPTURE(bytes);
        Box box;
        const Bytes content = pattern(bytes, 21);
        const Memory source(bytes);
        write(source.get(), content);
        const Pinned destination(bytes);
        std::memset(destination.get(), static_cast<int>(kUntouched), bytes);
        const Stream sender;
        const Stream receiver;
        for (int round = 0; round < 2; ++round) { // the second finds the words of the first
            box.begin();
            box.take(destination.get(), bytes, true, receiver);
            watch();
            CHECK_FALSE(receiver.done());
            CHECK_FALSE(box.is_taken());
            box.put(source.get(), bytes, sender);
            receiver.finish();
            CHECK(box.is_taken());
            CHECK(Bytes(destination.get(), destination.get() + bytes) == content);
            sender.finish();
        }
        box.check_tickets();
    }
}

TEST_CASE("a mail waits for a take that comes later") {
    Box box;
    const Bytes content = pattern(kLargestMail, 22);
    const Memory source(kLargestMail);
    write(source.get(), content);
    const Pinned destination(kLargestMail);
    const Stream sender;
    const Stream receiver;
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        box.begin();
        box.put(source.get(), bytes, sender);
        sender.finish(); // nobody has taken it
        CHECK(box.is_sent());
        CHECK_FALSE(box.is_taken());
        box.take(destination.get(), bytes, true, receiver);
        receiver.finish();
        CHECK(box.is_taken());
        CHECK(std::memcmp(destination.get(), content.data(), bytes) == 0);
    }
    box.check_tickets();
}

TEST_CASE("a take of fewer bytes than were put gets the first ones and writes no more") {
    struct Lengths {
        size_t put, taken;
    };
    constexpr Lengths kLengths[] = {{2, 1},
                                    {8, 7},
                                    {9, 8},
                                    {16, 9},
                                    {100, 1},
                                    {4096, 4095},
                                    {4097, 4096},
                                    {4097, 1},
                                    {kLargestMail, 1},
                                    {kLargestMail, 8},
                                    {kLargestMail, 4095},
                                    {kLargestMail, 4097},
                                    {kLargestMail, 65535}};
    Box box;
    const Bytes content = pattern(kLargestMail, 23);
    const Memory source(kLargestMail);
    write(source.get(), content);
    const Pinned destination(kLargestMail);
    const Stream sender;
    const Stream receiver;
    for (const bool take_first : {false, true})
        for (const Lengths& lengths : kLengths) {
            CAPTURE(lengths.put);
            CAPTURE(lengths.taken);
            std::memset(destination.get(), static_cast<int>(kUntouched), kLargestMail);
            box.begin();
            if (take_first)
                box.take(destination.get(), lengths.taken, true, receiver);
            box.put(source.get(), lengths.put, sender);
            if (!take_first)
                box.take(destination.get(), lengths.taken, true, receiver);
            REQUIRE(reads(box.taken(), box.value()));
            REQUIRE(reads(box.sent(), box.value())); // both: now the words are free for the next
            const Bytes got(destination.get(), destination.get() + kLargestMail);
            CHECK(got == expected(kLargestMail, 0, content.data(), lengths.taken));
        }
    receiver.finish();
    sender.finish();
    box.check_tickets();
}

TEST_CASE("words are used again by mails of all lengths, and no word of an earlier one shows up") {
    constexpr size_t kRounds = 150;
    constexpr size_t kRoom = 4224;
    constexpr size_t kLengths[] = {4097, 1, 4096, 9, 64, 4095, 8, 100, 2, 65, 7, 17};
    Box box;
    const Bytes content = pattern(kRoom + kRounds, 24);
    const Memory source(content.size());
    write(source.get(), content);
    const Pinned log(kRounds * kRoom);
    std::memset(log.get(), static_cast<int>(kUntouched), kRounds * kRoom);
    const Stream sender;
    const Stream receiver;
    for (size_t round = 0; round < kRounds; ++round) {
        // Both sides run ahead of the CPU; the sender's stream waits until its own last mail was taken.
        const size_t bytes = kLengths[round % std::size(kLengths)];
        REQUIRE_OK(subject().counters()->await_counter(sender, &counter(box.taken()), box.value()));
        box.begin();
        if (round % 3 == 0)
            box.take(log.get() + round * kRoom, bytes, true, receiver);
        box.put(source.get() + round, bytes, sender);
        if (round % 3 != 0)
            box.take(log.get() + round * kRoom, bytes, true, receiver);
    }
    sender.finish();
    receiver.finish();
    for (size_t round = 0; round < kRounds; ++round) {
        CAPTURE(round);
        const std::byte* got = log.get() + round * kRoom;
        const Bytes wanted = expected(kRoom, 0, &content[round], kLengths[round % std::size(kLengths)]);
        CHECK(Bytes(got, got + kRoom) == wanted);
    }
    box.check_tickets();
}

TEST_CASE("once a mail is sent, its source may be overwritten") {
    Box box;
    const Pinned source(kLargestMail);
    const Pinned destination(kLargestMail);
    const Stream sender;
    const Stream receiver;
    for (unsigned round = 0; round < 20; ++round)
        for (const size_t bytes : {size_t{1}, size_t{100}, size_t{4097}, kLargestMail}) {
            CAPTURE(round);
            CAPTURE(bytes);
            const Bytes content = pattern(bytes, round);
            std::memcpy(source.get(), content.data(), bytes);
            box.begin();
            box.put(source.get(), bytes, sender);
            REQUIRE(reads(box.sent(), box.value()));
            std::memset(source.get(), 0xdd, bytes);
            box.take(destination.get(), bytes, true, receiver);
            REQUIRE(reads(box.taken(), box.value()));
            REQUIRE(std::memcmp(destination.get(), content.data(), bytes) == 0);
        }
    sender.finish();
    receiver.finish();
    box.check_tickets();
}

TEST_CASE("a mail is not sent before its stream gets there, and reads its source then") {
    constexpr size_t kBytes = 1000;
    Box box;
    const size_t gate = new_counter();
    const Pinned source(kBytes);
    const Pinned destination(kBytes);
    std::memset(source.get(), 1, kBytes);
    const Stream sender;
    const Stream receiver;
    box.begin();
    REQUIRE_OK(subject().counters()->await_counter(sender, &counter(gate), 1));
    box.put(source.get(), kBytes, sender);
    box.take(destination.get(), kBytes, true, receiver);
    watch();
    CHECK_FALSE(box.is_sent());
    CHECK_FALSE(box.is_taken());
    CHECK_FALSE(receiver.done());
    std::memset(source.get(), 2, kBytes);
    store(gate, 1);
    receiver.finish();
    sender.finish();
    CHECK(box.is_sent());
    CHECK(std::count(destination.get(), destination.get() + kBytes, std::byte{2}) == kBytes);
}

TEST_CASE("once a mail is taken, whoever sees that sees its bytes") {
    Box box;
    const Bytes content = pattern(kLargestMail + 200, 25);
    const Memory source(content.size());
    write(source.get(), content);
    const Pinned in_host(kLargestMail);
    const Memory on_device(kLargestMail);
    const Pinned copied(kLargestMail);
    const Stream sender;
    const Stream receiver;
    const Stream third;
    for (size_t round = 0; round < 50; ++round)
        for (const size_t bytes : {size_t{5}, size_t{4096}, kLargestMail}) {
            CAPTURE(round);
            CAPTURE(bytes);
            box.begin(); // seen by the CPU
            box.take(in_host.get(), bytes, true, receiver);
            box.put(source.get() + round, bytes, sender);
            REQUIRE(reads(box.taken(), box.value()));
            REQUIRE(std::memcmp(in_host.get(), &content[round], bytes) == 0);
            REQUIRE(reads(box.sent(), box.value()));
            box.begin(); // by another stream
            REQUIRE_OK(subject().counters()->await_counter(third, &counter(box.taken()), box.value()));
            REQUIRE_OK(subject().copy(copied.get(), on_device.get(), bytes, third));
            box.take(on_device.get(), bytes, true, receiver);
            box.put(source.get() + 100 + round, bytes, sender);
            third.finish();
            sender.finish();
            REQUIRE(std::memcmp(copied.get(), &content[100 + round], bytes) == 0);
        }
    receiver.finish();
    box.check_tickets();
}

TEST_CASE("a take ends without its mail when that is poisoned, and writes nothing") {
    for (const size_t bytes : {size_t{1}, size_t{4097}, kLargestMail}) {
        CAPTURE(bytes);
        Box box;
        const Memory source(kLargestMail);
        write(source.get(), pattern(kLargestMail, 26));
        const Pinned destination(kLargestMail);
        const Stream sender;
        const Stream receiver;
        box.begin(); // one that comes: its words stay
        box.put(source.get(), kLargestMail, sender);
        box.take(destination.get(), kLargestMail, true, receiver);
        receiver.finish();
        sender.finish();
        std::memset(destination.get(), static_cast<int>(kUntouched), kLargestMail);
        box.begin();
        box.take(destination.get(), bytes, true, receiver);
        watch();
        CHECK_FALSE(receiver.done());
        store(box.sent(), counter(box.sent()).load() | platform::kPoison);
        receiver.finish();
        CHECK(std::count(destination.get(), destination.get() + kLargestMail, kUntouched) == kLargestMail);
        box.begin(); // and at once when it was poisoned before
        box.take(destination.get(), bytes, true, receiver);
        receiver.finish();
        CHECK(std::count(destination.get(), destination.get() + kLargestMail, kUntouched) == kLargestMail);
        box.check_tickets();
    }
}

TEST_CASE("a mail that was sent before the poison is taken as it is") {
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        Box box;
        const Bytes content = pattern(bytes, 27);
        const Memory source(bytes);
        write(source.get(), content);
        const Pinned destination(bytes);
        const Stream sender;
        const Stream receiver;
        box.begin();
        box.put(source.get(), bytes, sender);
        sender.finish();
        store(box.sent(), counter(box.sent()).load() | platform::kPoison);
        box.take(destination.get(), bytes, true, receiver);
        receiver.finish();
        CHECK(Bytes(destination.get(), destination.get() + bytes) == content);
    }
}

TEST_CASE("mails in boxes of their own cross side by side") {
    constexpr size_t kBoxes = 4;
    constexpr size_t kBytes = 4096;
    Box boxes[kBoxes];
    const Bytes content = pattern(kBytes + kBoxes, 28);
    const Memory source(content.size());
    write(source.get(), content);
    const Pinned destination(kBoxes * kBytes);
    const Stream senders[kBoxes];
    const Stream receivers[kBoxes];
    for (size_t i = 0; i < kBoxes; ++i) {
        boxes[i].begin();
        boxes[i].take(destination.get() + i * kBytes, kBytes, true, receivers[i]);
    }
    for (size_t i = kBoxes; i-- > 0;) { // last to first: none stands behind another
        CHECK_FALSE(receivers[i].done());
        boxes[i].put(source.get() + i, kBytes, senders[i]);
        receivers[i].finish();
        CHECK(std::memcmp(destination.get() + i * kBytes, &content[i], kBytes) == 0);
    }
    for (const Stream& sender : senders)
        sender.finish();
}

namespace {

// The other process's side of a box: its memory there, and what both processes know.
struct Far {
    OtherProcess& other;
    uint32_t memory, ticket;
    uint32_t cleared(size_t bytes) const {
        const uint32_t made = other.allocate(bytes);
        other.fill(made, 0, bytes);
        other.synchronize();
        return made;
    }
    explicit Far(OtherProcess& process)
        : other(process), memory(process.allocate(kLargestMail + kSkews)), ticket(cleared(sizeof(uint32_t))) {}

    MailOrder order(uint32_t words, const device::Mail& mail, size_t skew, size_t bytes) const {
        MailOrder order;
        order.words = words;
        order.buffer = memory;
        order.ticket = ticket;
        order.mark = mail.mark;
        order.sent = static_cast<uint32_t>(mail.sent - &counter(0));
        order.taken = static_cast<uint32_t>(mail.taken - &counter(0));
        order.value = mail.value;
        order.offset = skew;
        order.bytes = bytes;
        return order;
    }
};

// This process's side.
struct Near {
    const Memory ticket{sizeof(uint32_t)};
    device::Mail mail;
    explicit Near(std::byte* words) {
        write(ticket.get(), Bytes(sizeof(uint32_t)));
        mail.words = words;
        mail.sent = &counter(new_counter());
        mail.taken = &counter(new_counter());
        mail.ticket = reinterpret_cast<uint32_t*>(ticket.get());
    }
    void begin(size_t bytes) {
        mail.bytes = bytes;
        mail.value += kStep;
        mail.mark = static_cast<uint32_t>(mail.value / kStep);
    }
    size_t index_of(const device::Counter* its) const { return static_cast<size_t>(its - &counter(0)); }
    void check_ticket() const { CHECK(read(ticket.get(), sizeof(uint32_t)) == Bytes(sizeof(uint32_t))); }
};

} // namespace

TEST_CASE("mails are put into another process's memory") {
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const Far far(other);
        const uint32_t words = far.cleared(device::mail_words_bytes(kLargestMail));
        const Import import(other.peer(), other.export_memory(words));
        Near near(import.get());
        const Memory source(kLargestMail + kSkews);
        const Stream stream;
        unsigned round = 0;
        for (const size_t bytes : kSizes) {
            CAPTURE(bytes);
            const size_t skew = ++round % kSkews;
            write(source.get() + skew, pattern(bytes, round));
            near.begin(bytes);
            const MailOrder order = far.order(words, near.mail, skew * 3 % kSkews, bytes);
            if (round % 2 == 0)
                other.take_mail(order);
            REQUIRE_OK(subject().mails()->put_mail(near.mail, source.get() + skew, stream));
            if (round % 2 != 0)
                other.take_mail(order);
            stream.finish();
            REQUIRE(other.matches_pattern(far.memory, order.offset, bytes, round));
            REQUIRE(reads(near.index_of(near.mail.taken), near.mail.value));
        }
        near.check_ticket();
        CHECK(other.count_bytes(far.ticket, 0, sizeof(uint32_t)) == sizeof(uint32_t));
    }
}

TEST_CASE("mails come from another process") {
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const Far far(other);
        const Memory words(device::mail_words_bytes(kLargestMail));
        write(words.get(), Bytes(device::mail_words_bytes(kLargestMail)));
        const uint32_t far_words = other.import_memory(must(subject().export_memory(words.describe())));
        Near near(words.get());
        const Pinned destination(kLargestMail);
        const Stream stream;
        unsigned round = 0;
        for (const size_t bytes : kSizes) {
            CAPTURE(bytes);
            const size_t skew = ++round % kSkews;
            other.write_pattern(far.memory, skew, bytes, round);
            near.begin(bytes);
            const MailOrder order = far.order(far_words, near.mail, skew, bytes);
            if (round % 2 == 0)
                other.put_mail(order);
            REQUIRE_OK(subject().mails()->take_mail(near.mail, destination.get(), bytes, true, stream));
            if (round % 2 != 0)
                other.put_mail(order);
            REQUIRE(reads(near.index_of(near.mail.taken), near.mail.value));
            REQUIRE(Bytes(destination.get(), destination.get() + bytes) == pattern(bytes, round));
            REQUIRE(reads(near.index_of(near.mail.sent), near.mail.value));
        }
        stream.finish();
        other.synchronize();
        near.check_ticket();
        CHECK(other.count_bytes(far.ticket, 0, sizeof(uint32_t)) == sizeof(uint32_t));
        other.close(far_words);
    }
}

TEST_CASE("a mail goes to another process and comes back, many times") {
    constexpr size_t kBytes = 1000;
    constexpr unsigned kRounds = 20;
    OtherProcess other(reachable_selectors().back());
    const Far far(other);
    const uint32_t there = far.cleared(device::mail_words_bytes(kBytes));
    const Import import(other.peer(), other.export_memory(there));
    const Memory here(device::mail_words_bytes(kBytes));
    write(here.get(), Bytes(device::mail_words_bytes(kBytes)));
    const uint32_t far_here = other.import_memory(must(subject().export_memory(here.describe())));
    Near out(import.get());
    Near back(here.get());
    const Memory buffer(kBytes);
    write(buffer.get(), pattern(kBytes, 31));
    const Stream stream;
    for (unsigned round = 0; round < kRounds; ++round) {
        out.begin(kBytes);
        back.begin(kBytes);
        REQUIRE_OK(subject().mails()->put_mail(out.mail, buffer.get(), stream));
        REQUIRE_OK(subject().fill(buffer.get(), 0, kBytes, stream));
        REQUIRE_OK(subject().mails()->take_mail(back.mail, buffer.get(), kBytes, false, stream));
        other.take_mail(far.order(there, out.mail, 0, kBytes));
        other.put_mail(far.order(far_here, back.mail, 0, kBytes));
        // Whoever uses the words again knows that they were read: the stream has what came back, and says so.
        REQUIRE(reads(out.index_of(out.mail.taken), out.mail.value));
        REQUIRE(reads(back.index_of(back.mail.taken), back.mail.value));
        REQUIRE(reads(back.index_of(back.mail.sent), back.mail.value));
    }
    stream.finish();
    other.synchronize();
    CHECK(read(buffer.get(), kBytes) == pattern(kBytes, 31));
    other.close(far_here);
}

TEST_CASE("a take that waits for a dead process's mail ends by a survivor's poison") {
    OtherProcess other(reachable_selectors().front());
    const Far far(other);
    const Memory words(device::mail_words_bytes(kLargestMail));
    write(words.get(), Bytes(device::mail_words_bytes(kLargestMail)));
    const uint32_t far_words = other.import_memory(must(subject().export_memory(words.describe())));
    Near near(words.get());
    const size_t gate = new_counter();
    const Pinned destination(kLargestMail);
    std::memset(destination.get(), static_cast<int>(kUntouched), kLargestMail);
    const Stream stream;
    near.begin(kLargestMail);
    other.await_counter(gate, 1); // it never gets to its mail
    other.put_mail(far.order(far_words, near.mail, 0, kLargestMail));
    REQUIRE_OK(subject().mails()->take_mail(near.mail, destination.get(), kLargestMail, true, stream));
    watch();
    CHECK_FALSE(stream.done());
    other.kill_it();
    watch();
    CHECK_FALSE(stream.done());
    store(near.index_of(near.mail.sent), near.mail.sent->load() | platform::kPoison);
    stream.finish();
    subject().release_peer(other.peer());
    CHECK(std::count(destination.get(), destination.get() + kLargestMail, kUntouched) == kLargestMail);
    near.check_ticket();
}

} // namespace gpurun::conformance::mails
