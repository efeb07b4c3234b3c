// Mails and exchanges of the CUDA device: how many blocks and threads their kernels have, and with which arguments.
#include "cuda_bench.hpp"

#include "device/cuda/kernel_arguments.hpp"
#include "device/cuda/launch_sizes.hpp"

namespace gpurun::test {

using namespace device::cuda;

namespace {

constexpr size_t kMailSizes[] = {1, 2, 7, 8, 9, 64, 255, 256, 257, 4095, 4096, 4097, 32768, 65528, 65529, 65535, 65536};

// A thread has 8 bytes of a mail. So few blocks may wait on a device and leave room beside them.
void check_mail_launch(const FakeLaunch& launch, size_t bytes) {
    CAPTURE(bytes);
    constexpr unsigned kMostBlocks = 16;
    const size_t words = (bytes + 7) / 8;
    const size_t threads = size_t{launch.blocks} * launch.threads;
    CHECK(launch.threads % 32 == 0);
    CHECK(launch.threads <= kMailThreads);
    CHECK(launch.blocks <= kMostBlocks);
    CHECK(threads >= words);                                   // each word at once: none waits behind another
    CHECK(size_t{launch.blocks - 1} * launch.threads < words); // no block without a word
    CHECK((bytes > 8 * kMailThreads || launch.blocks == 1));   // one block needs no ticket
    // Nor a warp; but blocks that are smaller do not start beside large ones.
    CHECK((launch.blocks > 1 || launch.threads == kFewestThreads || launch.threads - 32 < words));
    CHECK(launch.threads >= kFewestThreads);
}

} // namespace

TEST_CASE("a mail is put by as many threads as it has words, in few blocks") {
    Bench bench;
    std::byte* const source = reinterpret_cast<std::byte*>(0x4003);
    for (const size_t bytes : kMailSizes) {
        const device::Mail mail = mail_of(bytes);
        const auto [launch, arguments] = bench.launched<PutMailArguments>(
            [&](CudaDevice& device) { return device.put_mail(mail, source, kStream); });
        CHECK(launch.kernel == kPutMail);
        check_mail_launch(launch, bytes);
        CHECK(static_cast<const void*>(arguments.source) == source);
        CHECK(arguments.words == mail.words);
        CHECK(arguments.bytes == bytes);
        CHECK(static_cast<void*>(arguments.sent) == mail.sent);
        CHECK(arguments.value == mail.value);
        CHECK(arguments.ticket == mail.ticket);
        CHECK(arguments.mark == mail.mark);
    }
}

TEST_CASE("a mail is taken by as many threads as words are taken, however many it has") {
    Bench bench;
    std::byte* const destination = reinterpret_cast<std::byte*>(0x4003);
    for (const size_t bytes : kMailSizes)
        for (const bool seen : {false, true}) {
            const device::Mail mail = mail_of(seen ? 65536 : 0); // what was put is not known to the target
            const auto [launch, arguments] = bench.launched<TakeMailArguments>(
                [&](CudaDevice& device) { return device.take_mail(mail, destination, bytes, seen, kStream); });
            CHECK(launch.kernel == kTakeMail);
            check_mail_launch(launch, bytes);
            CHECK(static_cast<void*>(arguments.destination) == destination);
            CHECK(arguments.words == mail.words);
            CHECK(arguments.bytes == bytes);
            CHECK(static_cast<const void*>(arguments.sent) == mail.sent);
            CHECK(static_cast<void*>(arguments.taken) == mail.taken);
            CHECK(arguments.value == mail.value);
            CHECK(arguments.ticket == mail.ticket);
            CHECK(arguments.mark == mail.mark);
            CHECK((arguments.seen != 0) == seen);
        }
}

TEST_CASE("the mails of an exchange have blocks of their own, those that are put before those that are taken") {
    Bench bench;
    auto* const memory = reinterpret_cast<std::byte*>(0x4000);
    const device::OutgoingMail puts[] = {{mail_of(8), memory}, {mail_of(65536), memory}};
    const device::CopyBeside copies[] = {{memory + 64, memory, 12288}};
    const device::IncomingMail takes[] = {{mail_of(8192), memory, 8192}, {mail_of(65536), memory, 65536, 3}};
    const auto [launch, arguments] = bench.launched<FewExchanged>(
        [&](CudaDevice& device) { return device.exchange({.puts = puts, .takes = takes, .copies = copies}, kStream); });
    CHECK(launch.kernel == kExchangeFew);
    CHECK(launch.blocks == 1 + 16 + 3 + 2 + 3);
    CHECK(launch.threads == kMailThreads);
    CHECK(arguments.number_of_puts == 2);
    CHECK(arguments.number_of_copies == 1);
    CHECK(arguments.parts[2].copy.bytes == 12288);
    CHECK(arguments.number == 5);
    const unsigned first_blocks[] = {0, 1, 17, 20, 22, 25};
    for (size_t i = 0; i < std::size(first_blocks); ++i)
        CHECK(arguments.first_blocks[i] == first_blocks[i]);
    CHECK(arguments.parts[1].put.bytes == 65536);
    CHECK(arguments.parts[1].put.ticket == puts[1].mail.ticket);
    CHECK(arguments.parts[4].take.bytes == 65536);
    CHECK(arguments.parts[4].take.ticket == takes[1].mail.ticket);
    const auto small = bench.launched<FewExchanged>([&](CudaDevice& device) {
        return device.exchange({.puts = {puts, 1}}, kStream);
    });
    CHECK(small.first.blocks == 1);
    CHECK(small.first.threads == kFewestThreads);
}

TEST_CASE(
    "where processes share the device, an exchange has as few blocks as may start early, if they are not too few") {
    Bench bench(true, true);
    auto* const memory = reinterpret_cast<std::byte*>(0x4000);
    const auto exchanged = [&](size_t bytes, size_t mails, bool signals) {
        const std::vector<device::OutgoingMail> puts(mails, {mail_of(bytes), memory});
        const std::vector<device::IncomingMail> takes(mails, {mail_of(bytes), memory, bytes});
        const device::CounterValue edge{puts[0].mail.sent, 1};
        return bench
            .launched<FewExchanged>([&](CudaDevice& device) {
                return device.exchange({.puts = puts, .takes = takes, .signals = {&edge, signals ? 1U : 0U}}, kStream);
            })
            .first;
    };
    CHECK(exchanged(size_t{128} << 10, 1, false).blocks == 64);
    bench.device.share_among(4);
    for (const size_t bytes : {size_t{128} << 10, size_t{256} << 10}) {
        const FakeLaunch launch = exchanged(bytes, 1, false);
        CHECK(launch.blocks == 32);
        CHECK(launch.early);
    }
    CHECK(exchanged(size_t{256} << 10, 1, true).blocks ==
          65); // the edges take a block, and 15 would have more bytes each
    CHECK(exchanged(size_t{128} << 10, 1, true).blocks == 31);
    CHECK(exchanged((size_t{256} << 10) + 1, 1, false).blocks == 64);
    CHECK(exchanged(size_t{64} << 10, 3, false).blocks == 30);
    CHECK(exchanged(8, 3, true).blocks == 7);
    const auto alone = [&](size_t bytes) {
        return bench
            .launched<PutMailArguments>(
                [&](CudaDevice& device) { return device.put_mail(mail_of(bytes), memory, kStream); })
            .first.blocks;
    };
    CHECK(alone(size_t{240} << 10) == 32);
    CHECK(alone(size_t{600} << 10) == device::kMostMailBlocks);
    Bench late(true, false); // nothing starts early there
    late.device.share_among(4);
    CHECK(late.launched<PutMailArguments>(
                  [&](CudaDevice& device) { return device.put_mail(mail_of(size_t{240} << 10), memory, kStream); })
              .first.blocks == 60);
}

TEST_CASE("an exchange of many has a kernel with room for its arguments") {
    Bench bench;
    auto* const memory = reinterpret_cast<std::byte*>(0x4000);
    const std::vector<device::OutgoingMail> puts(device::kMostExchanged, {mail_of(8), memory});
    const std::vector<device::IncomingMail> takes(device::kMostExchanged, {mail_of(100), memory, 100});
    const auto is_seen = [](const auto& take) { return take.seen != 0; };
    const auto [launch, arguments] = bench.launched<AllExchanged>(
        [&](CudaDevice& device) { return device.exchange({.puts = puts, .takes = takes, .seen = true}, kStream); });
    CHECK(launch.kernel == kExchange);
    CHECK(launch.blocks == puts.size() + takes.size());
    CHECK(arguments.parts[puts.size() + takes.size() - 1].take.bytes == 100);
    CHECK(is_seen(arguments.parts[puts.size()].take));
    const device::CounterValue edge{puts[0].mail.sent, 1};
    const std::vector<device::CounterValue> edges(FewExchanged::kMostEdges + 1, edge);
    const auto signalling = bench.launched<AllExchanged>([&](CudaDevice& device) {
        return device.exchange({.puts = {puts.data(), 1}, .signals = {edges.data(), 3}, .awaits = {edges.data(), 6}},
                               kStream);
    });
    CHECK(signalling.first.kernel == kExchange);
    CHECK(signalling.second.number_of_signals == 3);
    CHECK(signalling.second.number_of_awaits == 6);
    // Mails that share a kernel go by one of those, too, if they are few.
    const auto few = bench.launched<FewExchanged>([&](CudaDevice& device) {
        return device.take_mails({takes.data(), FewExchanged::kMostParts}, kStream);
    });
    CHECK(few.first.kernel == kExchangeFew);
    CHECK(is_seen(few.second.parts[0].take));
    const auto more = bench.launched<TakeMailsArguments>([&](CudaDevice& device) {
        return device.take_mails({takes.data(), FewExchanged::kMostParts + 1}, kStream);
    });
    CHECK(more.first.kernel == kTakeMails);
}

} // namespace gpurun::test
