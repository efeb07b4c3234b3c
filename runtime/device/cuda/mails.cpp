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

base::Result<void> CudaDevice::put_mail(const Mail& mail, const void* source, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const PutMailArguments arguments, arguments_of(OutgoingMail{mail, source}));
    return launch(kernels_.put_mail, mail_blocks(mail.bytes), mail_threads(mail.bytes), arguments, stream);
}

base::Result<void> CudaDevice::take_mail(const Mail& mail, void* destination, size_t bytes, bool seen, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const TakeMailArguments arguments, arguments_of(IncomingMail{mail, destination, bytes}, seen));
    return launch(kernels_.take_mail, mail_blocks(bytes), mail_threads(bytes), arguments, stream);
}

// What the stream does next comes after the kernel, so nothing that is taken need be seen by others before that.
base::Result<void> CudaDevice::exchange(const Exchange& exchange, Stream stream) {
    static_assert(kExchangedOfLaunch == kMostExchanged && kCopiedOfLaunch == kMostCopiedBeside &&
                  kPulledOfLaunch == kMostPulled);
    const auto current = enter();
    ExchangeArguments all; // what is not used is not read
    all.number = 0;
    all.number_of_puts = static_cast<uint32_t>(exchange.puts.size());
    all.number_of_copies = static_cast<uint32_t>(exchange.copies.size());
    all.number_of_pulls = static_cast<uint32_t>(exchange.pulls.size());
    GPURUN_TRY(arguments_of(exchange.signals, all.signals, all.number_of_signals));
    GPURUN_TRY(arguments_of(exchange.awaits, all.awaits, all.number_of_awaits));
    uint32_t blocks = exchange.signals.empty() && exchange.awaits.empty() ? 0 : 1;
    unsigned threads = kFewestThreads;
    const auto add = [&](unsigned its_threads, uint32_t its_blocks) {
        all.first_blocks[all.number++] = static_cast<uint16_t>(blocks);
        blocks += its_blocks;
        threads = std::max(threads, its_threads);
    };
    for (size_t i = 0; i < exchange.puts.size(); ++i) {
        GPURUN_ASSIGN(all.puts[i], arguments_of(exchange.puts[i]));
        add(mail_threads(exchange.puts[i].mail.bytes), shared_mail_blocks(exchange.puts[i].mail.bytes));
    }
    for (size_t i = 0; i < exchange.copies.size(); ++i) {
        const CopyBeside& copy = exchange.copies[i];
        all.copies[i] = {copy.destination, copy.source, copy.bytes};
        add(mail_threads(copy.bytes), shared_mail_blocks(copy.bytes));
    }
    for (size_t i = 0; i < exchange.pulls.size(); ++i) {
        GPURUN_ASSIGN(all.pulls[i], arguments_of(exchange.pulls[i]));
        add(kCopyThreads, std::min(exchange.pulls[i].blocks, copy_blocks(exchange.pulls[i].bytes)));
    }
    for (size_t i = 0; i < exchange.takes.size(); ++i) {
        const IncomingMail& take = exchange.takes[i];
        GPURUN_ASSIGN(all.takes[i], arguments_of(take, false));
        add(mail_threads(take.bytes), std::min(shared_mail_blocks(take.bytes), take.blocks));
    }
    all.first_blocks[all.number] = static_cast<uint16_t>(blocks);
    return launch(kernels_.exchange, blocks, threads, all, stream);
}

base::Result<void> CudaDevice::put_mails(std::span<const OutgoingMail> mails, Stream stream) {
    static_assert(kMailsOfLaunch == kMostMails && kSmallMailBytes <= kMailBytesOfBlock);
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
