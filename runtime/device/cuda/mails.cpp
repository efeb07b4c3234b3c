// Mails, fenced copies and the watching of counters, each one kernel.
#include "device/cuda/launch.hpp"

namespace gpurun::device::cuda {

base::Result<uint64_t*> CudaDevice::device_address(const Times* times) const {
    if (times == nullptr)
        return nullptr;
    GPURUN_ASSIGN(const CUdeviceptr where, device_address(reinterpret_cast<const Counter*>(times)));
    return address(where);
}

base::Result<PutMailArguments> CudaDevice::arguments_of(const OutgoingMail& put) const {
    const auto& [mail, source] = put;
    GPURUN_ASSIGN(const CUdeviceptr sent, device_address(mail.sent));
    GPURUN_ASSIGN(uint64_t* const times, device_address(mail.times));
    return PutMailArguments{static_cast<const unsigned char*>(source),
                            mail.words,
                            mail.bytes,
                            address(sent),
                            mail.value,
                            mail.ticket,
                            times,
                            mail.mark};
}

base::Result<TakeMailArguments> CudaDevice::arguments_of(const IncomingMail& take, bool seen) const {
    const auto& [mail, destination, bytes, blocks] = take;
    GPURUN_ASSIGN(const CUdeviceptr sent, device_address(mail.sent));
    GPURUN_ASSIGN(const CUdeviceptr taken, device_address(mail.taken));
    GPURUN_ASSIGN(uint64_t* const times, device_address(mail.times));
    return TakeMailArguments{static_cast<unsigned char*>(destination),
                             mail.words,
                             bytes,
                             address(sent),
                             address(taken),
                             mail.value,
                             mail.ticket,
                             times,
                             mail.mark,
                             seen ? 1U : 0U};
}

// Of each of so many mails of a kernel. Where processes share the device, not more than with which it may start early,
// up to four times as many bytes a block.
uint32_t CudaDevice::most_mail_blocks(size_t mails, size_t longest, uint32_t other_blocks) const {
    constexpr size_t kMostBytesOfBlock = 4 * kMailBytesOfBlock;
    const uint32_t processes = processes_.load(std::memory_order_relaxed);
    const uint64_t early = kMostEarlyThreads / processes / kMailThreads;
    const uint64_t most =
        facts_.early_kernels && processes > 1 && early > other_blocks ? (early - other_blocks) / mails : 0;
    return most != 0 && longest <= most * kMostBytesOfBlock ? static_cast<uint32_t>(most) : kMostMailBlocks;
}

base::Result<void> CudaDevice::put_mail(const Mail& mail, const void* source, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const PutMailArguments arguments, arguments_of(OutgoingMail{mail, source}));
    const uint32_t blocks = std::min(mail_blocks(mail.bytes), most_mail_blocks(1, mail.bytes, 0));
    return launch(kernels_.put_mail, blocks, mail_threads(mail.bytes), arguments, stream);
}

base::Result<void> CudaDevice::take_mail(const Mail& mail, void* destination, size_t bytes, bool seen, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const TakeMailArguments arguments, arguments_of(IncomingMail{mail, destination, bytes}, seen));
    const uint32_t blocks = std::min(mail_blocks(bytes), most_mail_blocks(1, bytes, 0));
    return launch(kernels_.take_mail, blocks, mail_threads(bytes), arguments, stream);
}

uint32_t CudaDevice::most_mail_blocks(const Exchange& exchange, uint32_t other_blocks) const {
    const size_t mails = exchange.puts.size() + exchange.takes.size();
    if (mails == 0 || !exchange.copies.empty() || !exchange.pulls.empty())
        return kMostMailBlocks;
    size_t longest = 0;
    for (const OutgoingMail& each : exchange.puts)
        longest = std::max(longest, each.mail.bytes);
    for (const IncomingMail& each : exchange.takes)
        longest = std::max(longest, each.bytes);
    return most_mail_blocks(mails, longest, other_blocks);
}

template <typename Arguments>
base::Result<void> CudaDevice::exchange_by(CUfunction kernel, const Exchange& exchange, Stream stream) {
    Arguments all; // what is not used is not read
    all.number = 0;
    all.number_of_puts = static_cast<uint16_t>(exchange.puts.size());
    all.number_of_copies = static_cast<uint16_t>(exchange.copies.size());
    all.number_of_pulls = static_cast<uint16_t>(exchange.pulls.size());
    GPURUN_TRY(arguments_of(exchange.signals, all.edges, all.number_of_signals));
    GPURUN_TRY(arguments_of(exchange.awaits, all.edges + exchange.signals.size(), all.number_of_awaits));
    uint32_t blocks = exchange.signals.empty() && exchange.awaits.empty() ? 0 : 1;
    const uint32_t most = most_mail_blocks(exchange, blocks);
    unsigned threads = kFewestThreads;
    const auto add = [&](unsigned its_threads, uint32_t its_blocks) -> ExchangePart& {
        all.first_blocks[all.number] = static_cast<uint16_t>(blocks);
        blocks += its_blocks;
        threads = std::max(threads, its_threads);
        return all.parts[all.number++];
    };
    for (const OutgoingMail& each : exchange.puts) {
        ExchangePart& part = add(mail_threads(each.mail.bytes), std::min(shared_mail_blocks(each.mail.bytes), most));
        GPURUN_ASSIGN(part.put, arguments_of(each));
    }
    for (const CopyBeside& each : exchange.copies)
        add(mail_threads(each.bytes), shared_mail_blocks(each.bytes)).copy = {each.destination, each.source,
                                                                              each.bytes};
    for (const FencedCopy& each : exchange.pulls) {
        ExchangePart& part = add(kCopyThreads, std::min(each.blocks, copy_blocks(each.bytes)));
        GPURUN_ASSIGN(part.pull, arguments_of(each));
    }
    for (const IncomingMail& each : exchange.takes) {
        ExchangePart& part =
            add(mail_threads(each.bytes), std::min({shared_mail_blocks(each.bytes), each.blocks, most}));
        GPURUN_ASSIGN(part.take, arguments_of(each, exchange.seen));
    }
    all.first_blocks[all.number] = static_cast<uint16_t>(blocks);
    return launch(kernel, blocks, threads, all, stream);
}

// With `seen`, what is taken is seen by others before that; else only the stream, which comes after the kernel, needs
// it.
base::Result<void> CudaDevice::exchange(const Exchange& exchange, Stream stream) {
    static_assert(kExchangedOfLaunch == kMostExchanged && kCopiedOfLaunch == kMostCopiedBeside &&
                  kPulledOfLaunch == kMostPulled);
    const auto current = enter();
    const size_t parts = exchange.puts.size() + exchange.copies.size() + exchange.pulls.size() + exchange.takes.size();
    const size_t edges = exchange.signals.size() + exchange.awaits.size();
    return parts <= FewExchanged::kMostParts && edges <= FewExchanged::kMostEdges
               ? exchange_by<FewExchanged>(kernels_.exchange_few, exchange, stream)
               : exchange_by<AllExchanged>(kernels_.exchange, exchange, stream);
}

base::Result<void> CudaDevice::put_mails(std::span<const OutgoingMail> mails, Stream stream) {
    static_assert(kMailsOfLaunch == kMostMails && kSmallMailBytes <= kMailBytesOfBlock);
    if (mails.size() <= FewExchanged::kMostParts)
        return exchange({.puts = mails}, stream);
    const auto current = enter();
    PutMailsArguments batch; // what is not used is not read
    size_t largest = 0;
    for (size_t i = 0; i < mails.size(); ++i) {
        GPURUN_ASSIGN(batch.mails[i], arguments_of(mails[i]));
        largest = std::max(largest, mails[i].mail.bytes);
    }
    return launch(kernels_.put_mails, static_cast<unsigned>(mails.size()), mail_threads(largest), batch, stream);
}

base::Result<void> CudaDevice::take_mails(std::span<const IncomingMail> mails, Stream stream) {
    if (mails.size() <= FewExchanged::kMostParts)
        return exchange({.takes = mails, .seen = true}, stream);
    const auto current = enter();
    TakeMailsArguments batch;
    size_t largest = 0;
    for (size_t i = 0; i < mails.size(); ++i) {
        GPURUN_ASSIGN(batch.mails[i], arguments_of(mails[i], true));
        largest = std::max(largest, mails[i].bytes);
    }
    return launch(kernels_.take_mails, static_cast<unsigned>(mails.size()), mail_threads(largest), batch, stream);
}

base::Result<void> CudaDevice::watch_counter(Stream stream, Counter* counter, uint64_t value) {
    const auto current = enter();
    GPURUN_ASSIGN(const CUdeviceptr where, device_address(counter));
    return launch(kernels_.watch_counter, 1, 1, WatchCounterArguments{address(where), value}, stream);
}

base::Result<FencedCopyArguments> CudaDevice::arguments_of(const FencedCopy& copy) const {
    CUdeviceptr before = 0;
    if (copy.before != nullptr) {
        GPURUN_ASSIGN(before, device_address(copy.before));
    }
    GPURUN_ASSIGN(const CUdeviceptr after, device_address(copy.after));
    GPURUN_ASSIGN(uint64_t* const times, device_address(copy.times));
    return FencedCopyArguments{copy.destination, copy.source, copy.bytes, address(before), address(after), copy.value,
                               copy.ticket,      copy.gate,   times};
}

base::Result<void> CudaDevice::arguments_of(std::span<const CounterValue> counters, CounterArguments* arguments,
                                            uint32_t& number) const {
    number = static_cast<uint32_t>(counters.size());
    for (size_t i = 0; i < counters.size(); ++i) {
        GPURUN_ASSIGN(const CUdeviceptr counter, device_address(counters[i].counter));
        arguments[i] = {address(counter), counters[i].value};
    }
    return {};
}

base::Result<void> CudaDevice::copy_fenced(const FencedCopy& copy, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const FencedCopyArguments arguments, arguments_of(copy));
    return launch(kernels_.copy_fenced, std::min(copy.blocks, copy_blocks(copy.bytes)), kCopyThreads, arguments,
                  stream);
}

} // namespace gpurun::device::cuda
