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
base::Result<void> CudaDevice::exchange_mails(std::span<const OutgoingMail> puts, std::span<const IncomingMail> takes,
                                              std::span<const CopyBeside> copies, Stream stream) {
    static_assert(kExchangedOfLaunch == kMostExchanged && kCopiedOfLaunch == kMostCopiedBeside);
    const auto current = enter();
    ExchangeMailsArguments all; // what is not used is not read
    all.number_of_puts = static_cast<uint32_t>(puts.size());
    all.number = 0;
    uint32_t blocks = 0;
    size_t largest = 0;
    const auto add = [&](size_t bytes, uint32_t most_blocks) {
        all.first_blocks[all.number++] = static_cast<uint16_t>(blocks);
        blocks += std::min(mail_blocks(bytes), most_blocks);
        largest = std::max(largest, bytes);
    };
    for (size_t i = 0; i < puts.size(); ++i) {
        GPURUN_ASSIGN(all.puts[i], arguments_of(puts[i]));
        add(puts[i].mail.bytes, kMostMailBlocks);
    }
    all.number_of_copies = static_cast<uint32_t>(copies.size());
    for (size_t i = 0; i < copies.size(); ++i) {
        all.copies[i] = {copies[i].destination, copies[i].source, copies[i].bytes};
        add(copies[i].bytes, kMostMailBlocks);
    }
    for (size_t i = 0; i < takes.size(); ++i) {
        GPURUN_ASSIGN(all.takes[i], arguments_of(takes[i], false));
        add(takes[i].bytes, takes[i].blocks);
    }
    all.first_blocks[all.number] = static_cast<uint16_t>(blocks);
    return launch(kernels_.exchange_mails, blocks, mail_threads(largest), all, stream);
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

base::Result<void> CudaDevice::copy_fenced(const FencedCopy& copy, Stream stream) {
    const auto current = enter();
    CUdeviceptr before = 0;
    if (copy.before != nullptr) {
        GPURUN_ASSIGN(before, device_address(copy.before));
    }
    GPURUN_ASSIGN(const CUdeviceptr after, device_address(copy.after));
    GPURUN_ASSIGN(uint64_t* const times, device_address(copy.times));
    const FencedCopyArguments arguments{copy.destination, copy.source,    copy.bytes,
                                        address(before),  address(after), copy.value,
                                        copy.ticket,      copy.gate,      times};
    return launch(kernels_.copy_fenced, std::min(copy.blocks, copy_blocks(copy.bytes)), kCopyThreads, arguments,
                  stream);
}

} // namespace gpurun::device::cuda
