// What calls of CUDA cost the host that makes them, one behind the other, while the GPU does what they ask for; and how
// many small messages a launch is worth. Both ranks do so at once, as they do when they exchange messages.
#include "limits_kernels.cuh"

#include <iterator>
#include <memory>

namespace limits {

namespace {

constexpr int kBatches = 20; // of a round; the first does not count
constexpr int kCalls = 100;

template <size_t kBytes>
struct Payload {
    unsigned char bytes[kBytes];
};

template <size_t kBytes>
__global__ void do_nothing(const Payload<kBytes>) {
    let_next_start();
    await_predecessors();
}

// A block puts one.
__global__ void __launch_bounds__(32) put_many(const __grid_constant__ Mails batch) {
    const Mail& mail = batch.mails[blockIdx.x];
    let_next_start();
    await_predecessors();
    const uint64_t at = uint64_t{8} * threadIdx.x;
    if (at < mail.bytes)
        store_word(mail.mailbox + 2 * at, eight_bytes(mail.data, at), mail.mark);
}

class Calls {
  public:
    enum class Until { kCalled, kOver }; // by the host's time alone, or until the GPU is through

    explicit Calls(Pair& pair) : pair_(pair), arena_(pair), event_(cudaEventDisableTiming) {
        MUST(cudaEventRecord(event_, stream_));
        pair_.finish(stream_);
    }

    // Microseconds of a call.
    Samples each(const std::function<void()>& call) {
        Samples samples;
        pair_.meet();
        for (int batch = 0; batch <= kBatches; batch++) {
            const double begin = now_seconds();
            for (int i = 0; i < kCalls; i++)
                call();
            if (batch > 0)
                samples.push_back((now_seconds() - begin) / kCalls * 1e6);
            pair_.finish(stream_);
        }
        return samples;
    }

    template <size_t kBytes>
    Samples launches(bool early) {
        const Kernel nothing = kernel(do_nothing<kBytes>, 1, 32, early);
        const Payload<kBytes> payload{};
        return each([&] { launch(pair_, nothing, stream_, payload); });
    }
    Samples writes() {
        return each([&] { pair_.write(stream_, &pair_.shared().freed[pair_.rank()], 1); });
    }
    Samples waits() { // for what has come
        return each([&] { pair_.await_in(stream_, &pair_.shared().freed[pair_.rank()], 0); });
    }
    Samples pairs_of_operations() {
        CUstreamBatchMemOpParams both[2] = {};
        const auto word = reinterpret_cast<CUdeviceptr>(&pair_.shared().freed[pair_.rank()]);
        both[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
        both[0].waitValue.address = word;
        both[0].waitValue.value64 = 0;
        both[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
        both[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        both[1].writeValue.address = word;
        both[1].writeValue.value64 = 1;
        both[1].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
        return each([&] { pair_.must(pair_.driver().batch(stream_, 2, both, 0), "cuStreamBatchMemOp"); });
    }
    // For what has come: microseconds of a wait, by the host's time or until the stream has passed it.
    Samples many_waits(bool together, Until until) {
        const auto word = reinterpret_cast<CUdeviceptr>(&pair_.shared().freed[pair_.rank()]);
        CUstreamBatchMemOpParams waits[kMailsOfLaunch] = {};
        for (auto& each : waits) {
            each.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
            each.waitValue.address = word;
            each.waitValue.value64 = 0;
            each.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
        }
        return by_group(until, [&] {
            if (together)
                pair_.must(pair_.driver().batch(stream_, kMailsOfLaunch, waits, 0), "cuStreamBatchMemOp");
            for (unsigned i = 0; i < kMailsOfLaunch && !together; i++)
                pair_.await_in(stream_, &pair_.shared().freed[pair_.rank()], 0);
        });
    }
    Samples records() {
        return each([&] { MUST(cudaEventRecord(event_, stream_)); });
    }
    // From a record in an idle stream until a query says that it has come.
    Samples marks() {
        Samples samples;
        pair_.meet();
        for (int i = 0; i <= kBatches * kCalls; i++) {
            const double begin = now_seconds();
            MUST(cudaEventRecord(event_, stream_));
            while (cudaEventQuery(event_) == cudaErrorNotReady)
                ;
            if (i >= kCalls)
                samples.push_back((now_seconds() - begin) * 1e6);
        }
        return samples;
    }
    Samples event_queries() {
        return each([&] { (void)cudaEventQuery(event_); });
    }
    Samples stream_queries() {
        return each([&] { (void)cudaStreamQuery(stream_); });
    }
    Samples copies() {
        return each([&] { MUST(cudaMemcpyAsync(arena_.data(), arena_.their_data(), 8, cudaMemcpyDefault, stream_)); });
    }

    // What a message asks of its stream and its buffer before anything is enqueued.
    Samples contexts_of_stream() {
        CUcontext context = nullptr;
        return each([&] { pair_.must(pair_.driver().context_of(stream_, &context), "cuStreamGetCtx"); });
    }
    Samples captures_of_stream() {
        CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
        return each([&] { pair_.must(pair_.driver().is_capturing(stream_, &capturing), "cuStreamIsCapturing"); });
    }
    Samples current_contexts() {
        CUcontext context = nullptr;
        return each([&] { pair_.must(pair_.driver().current_context(&context), "cuCtxGetCurrent"); });
    }
    Samples attributes(unsigned count) {
        CUpointer_attribute questions[] = {
            CU_POINTER_ATTRIBUTE_BUFFER_ID,      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
            CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        };
        uint64_t found[std::size(questions)] = {};
        void* answers[std::size(questions)];
        for (size_t i = 0; i < std::size(questions); i++)
            answers[i] = &found[i];
        const auto address = reinterpret_cast<CUdeviceptr>(arena_.data());
        return each([&] {
            pair_.must(pair_.driver().attributes(count, questions, answers, address), "cuPointerGetAttributes");
        });
    }
    Samples clocks() {
        return each([] { (void)now_seconds(); });
    }

    // Microseconds of a mail. Nobody takes them.
    Samples mails(bool together, Until until) {
        const Kernel many = kernel(put_many, kMailsOfLaunch, 32, true);
        const Kernel alone = kernel(put<1>, 1, 32, true);
        Mails batch{};
        for (unsigned i = 0; i < kMailsOfLaunch; i++)
            batch.mails[i] = mail(i);
        return by_group(until, [&] {
            if (together)
                launch(pair_, many, stream_, batch);
            for (unsigned i = 0; i < kMailsOfLaunch && !together; i++)
                launch(pair_, alone, stream_, batch.mails[i]);
        });
    }

  private:
    // Of what a group enqueues kMailsOfLaunch times, microseconds each.
    Samples by_group(Until until, const std::function<void()>& group) {
        constexpr int kGroups = 8;
        Samples samples;
        pair_.meet();
        for (int n = 0; n <= kBatches; n++) {
            const double begin = now_seconds();
            for (int i = 0; i < kGroups; i++)
                group();
            const double called = now_seconds();
            pair_.finish(stream_);
            const double end = until == Until::kCalled ? called : now_seconds();
            if (n > 0)
                samples.push_back((end - begin) / (kGroups * kMailsOfLaunch) * 1e6);
        }
        pair_.meet();
        return samples;
    }
    Mail mail(unsigned number) const {
        Mail made{};
        made.data = arena_.data();
        made.mailbox = arena_.their_mailbox(number);
        made.over = pair_.shared().over.address();
        made.bytes = 8;
        made.mark = 1;
        return made;
    }

    Pair& pair_;
    Arena arena_;
    Stream stream_;
    Event event_;
};

} // namespace

void calls(Pair& pair, Report& report) {
    std::unique_ptr<Calls> on;
    using Until = Calls::Until;
    const std::vector<Case> cases = {
        {"3 call: cuLaunchKernel, 64 B of arguments", "no", [&] { return on->launches<64>(false); }},
        {"3 call: cuLaunchKernel, 256 B", "no", [&] { return on->launches<256>(false); }},
        {"3 call: cuLaunchKernelEx, early, 64 B", "a put: 64 B, a take: 72 B", [&] { return on->launches<64>(true); }},
        {"3 call: cuLaunchKernelEx, early, 256 B", "no", [&] { return on->launches<256>(true); }},
        {"3 call: cuStreamWriteValue64", "large messages, an edge", [&] { return on->writes(); }},
        {"3 call: cuStreamWaitValue64", "large messages, an edge", [&] { return on->waits(); }},
        {"3 call: cuStreamBatchMemOp, a wait and a write", "no", [&] { return on->pairs_of_operations(); }},
        {"3 call: a wait of 32 of a cuStreamBatchMemOp", "no", [&] { return on->many_waits(true, Until::kCalled); }},
        {"3 a wait of its own, until it is over", "large messages",
         [&] { return on->many_waits(false, Until::kOver); }},
        {"3 a wait of 32 of a cuStreamBatchMemOp, until over", "no",
         [&] { return on->many_waits(true, Until::kOver); }},
        {"3 from cudaEventRecord until a query sees it", "no", [&] { return on->marks(); }},
        {"3 call: cudaEventRecord", "places of requests", [&] { return on->records(); }},
        {"3 call: cudaEventQuery", "GPURUN_FENCE=event", [&] { return on->event_queries(); }},
        {"3 call: cudaStreamQuery", "no", [&] { return on->stream_queries(); }},
        {"3 call: cudaMemcpyAsync, 8 B from the peer", "large messages", [&] { return on->copies(); }},
        {"3 call: cuStreamGetCtx", "every message", [&] { return on->contexts_of_stream(); }},
        {"3 call: cuStreamIsCapturing", "every message", [&] { return on->captures_of_stream(); }},
        {"3 call: cuCtxGetCurrent", "every call", [&] { return on->current_contexts(); }},
        {"3 call: cuPointerGetAttributes, 9 of them", "every message", [&] { return on->attributes(9); }},
        {"3 call: cuPointerGetAttributes, the buffer's id", "no", [&] { return on->attributes(1); }},
        {"3 call: the clock of the host", "traces, waits", [&] { return on->clocks(); }},
        {"9 a mail of 32 of a launch, the host's time", "requests, host order",
         [&] { return on->mails(true, Until::kCalled); }},
        {"9 a mail of a launch of its own, the host's time", "requests on streams",
         [&] { return on->mails(false, Until::kCalled); }},
        {"9 a mail of 32 of a launch, until they are there", "requests, host order",
         [&] { return on->mails(true, Until::kOver); }},
        {"9 a mail of a launch of its own, until they are there", "requests on streams",
         [&] { return on->mails(false, Until::kOver); }},
    };
    if (!report.selects(cases))
        return;
    on = std::make_unique<Calls>(pair);
    report.take_turns(cases);
}

} // namespace limits
