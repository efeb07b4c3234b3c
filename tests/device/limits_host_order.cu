// A message of 8 bytes in the host's order: who sends knows that it has sent, who receives that the bytes are there,
// on their CPUs. Each rank sends what it has received, and the leader takes the time of a round trip.
#include "limits_kernels.cuh"

#include <memory>

namespace limits {

namespace {

constexpr int kMessages = 1000; // round trips of a round
constexpr int kFirst = 50;      // which do not count
constexpr size_t kBytes = 8;

struct Move {
    unsigned char* to;
    const unsigned char* from;
    uint64_t* done;
    uint64_t value;
};

// Loads or stores across the link, whichever of the two is there.
__global__ void move_word(const Move move) {
    if (threadIdx.x != 0)
        return;
    uint64_t value;
    asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(value) : "l"(move.from) : "memory");
    asm volatile("st.volatile.global.u64 [%0], %1;" ::"l"(move.to), "l"(value) : "memory");
    __threadfence_system();
    store_host(move.done, move.value);
}

class HostOrder {
  public:
    explicit HostOrder(Pair& pair) : pair_(pair), shared_(pair.shared()), arena_(pair), event_(cudaEventDisableTiming) {
        for (uint64_t i = 0; i < 2; i++) { // once each, so that nothing is first when it counts
            launch(pair_, move_, out_, Move{arena_.data(), arena_.data(), told_by_me(), 0});
            pull();
        }
        pair_.finish(out_);
        pair_.finish(in_);
    }

    Samples flag_only() {
        constexpr int kBatch = 100; // a reading of the clock is not much less than a message
        pair_.meet();
        Samples samples;
        for (int batch = 0; batch < kMessages / 10; batch++) {
            const double begin = now_seconds();
            for (int i = 0; i < kBatch; i++) {
                ++number_;
                if (pair_.leads())
                    raise_flag();
                await_flag();
                if (!pair_.leads())
                    raise_flag();
            }
            samples.push_back((now_seconds() - begin) / (2 * kBatch) * 1e6);
        }
        return samples;
    }

    Samples pull_and_synchronize() {
        return ping_pong([&] { raise_flag(); },
                         [&] {
                             await_flag();
                             pull();
                             MUST(cudaStreamSynchronize(in_));
                         });
    }

    Samples pull_and_query() {
        return ping_pong([&] { raise_flag(); },
                         [&] {
                             await_flag();
                             pull();
                             pair_.finish(in_);
                         });
    }

    Samples pull_and_event() {
        return ping_pong([&] { raise_flag(); },
                         [&] {
                             await_flag();
                             pull();
                             MUST(cudaEventRecord(event_, in_));
                             pair_.await("an event", [&] { return cudaEventQuery(event_) == cudaSuccess; });
                         });
    }

    Samples pull_and_counter() {
        return ping_pong([&] { raise_flag(); },
                         [&] {
                             await_flag();
                             pull();
                             pair_.write(in_, &done().value, number_);
                             pair_.await("a signal of a stream", done(), number_);
                         });
    }

    Samples pull_by_kernel() {
        return ping_pong(
            [&] { raise_flag(); },
            [&] {
                await_flag();
                launch(pair_, move_, in_, Move{arena_.data(), arena_.their_data(), done().address(), number_});
                pair_.await("a signal of a kernel", done(), number_);
            });
    }

    Samples push_by_kernel() {
        return ping_pong(
            [&] {
                launch(pair_, move_, out_, Move{arena_.their_data(), arena_.data(), told_by_me(), number_});
            },
            [&] { pair_.await("a signal of the sender's kernel", shared_.told[pair_.other()], number_); });
    }

    enum class Flag { kFirst, kLast };
    // `waits`: who sends does not go on before its kernel has put the mail.
    Samples mail(Flag flag, bool waits) {
        return ping_pong(
            [&] {
                if (flag == Flag::kFirst)
                    raise_flag();
                put_mail(waits ? told_by_me() : nullptr);
                if (flag == Flag::kLast)
                    raise_flag();
                if (waits)
                    pair_.await("a put", shared_.told[pair_.rank()], number_);
            },
            [&] {
                await_flag();
                take_mail(number_);
                pair_.await("a mail", done(), number_);
            });
    }

    // No flag, and each take's kernel runs before its mail is put: the leader launches it behind its own put, the other
    // behind its answer to the mail before.
    Samples mail_taken_early() {
        const uint64_t last = number_ + kFirst + kMessages;
        return ping_pong(
            [&] {
                put_mail(nullptr);
                if (pair_.leads())
                    take_mail(number_);
                else if (number_ < last)
                    take_mail(number_ + 1);
            },
            [&] { pair_.await("a mail", done(), number_); },
            [&] {
                if (!pair_.leads())
                    take_mail(number_ + 1);
            });
    }

  private:
    template <typename Send, typename Receive>
    Samples ping_pong(
        const Send& send, const Receive& receive, const std::function<void()>& before = [] {}) {
        arena_.begin();
        before();
        Samples samples;
        for (int i = 0; i < kFirst + kMessages; i++) {
            ++number_;
            const double begin = now_seconds();
            if (pair_.leads())
                send();
            receive();
            if (!pair_.leads())
                send();
            if (i >= kFirst)
                samples.push_back((now_seconds() - begin) / 2 * 1e6);
        }
        pair_.finish(out_);
        pair_.finish(in_);
        arena_.check(kBytes);
        return samples;
    }

    Word& done() { return shared_.done[pair_.rank()]; }
    uint64_t* told_by_me() { return shared_.told[pair_.rank()].address(); }
    void raise_flag() { shared_.flag[pair_.rank()].value.store(number_, std::memory_order_release); }
    void await_flag() { pair_.await("a flag", shared_.flag[pair_.other()], number_); }
    void pull() { MUST(cudaMemcpyAsync(arena_.data(), arena_.their_data(), kBytes, cudaMemcpyDefault, in_)); }

    void put_mail(uint64_t* told) { launch(pair_, put_, out_, mail_of(arena_.their_mailbox(0), told, number_)); }
    void take_mail(uint64_t number) { launch(pair_, take_, in_, mail_of(arena_.mailbox(0), done().address(), number)); }
    Mail mail_of(unsigned char* mailbox, uint64_t* told, uint64_t number) {
        Mail mail{};
        mail.data = arena_.data();
        mail.mailbox = mailbox;
        mail.over = shared_.over.address();
        mail.done = told;
        mail.value = number;
        mail.bytes = kBytes;
        mail.mark = static_cast<uint32_t>(number);
        return mail;
    }

    Pair& pair_;
    Shared& shared_;
    Arena arena_;
    Stream out_, in_;
    Event event_;
    const Kernel move_ = kernel(move_word, 1, 32);
    const Kernel put_ = kernel(put<1>, 1, 32);
    const Kernel take_ = kernel(take<1>, 1, 32);
    uint64_t number_ = 0; // of the message, the same on both ranks, never used twice
};

} // namespace

void host_order(Pair& pair, Report& report) {
    std::unique_ptr<HostOrder> on;
    using Flag = HostOrder::Flag;
    const std::vector<Case> cases = {
        {"1 two CPUs, a word of host memory each way", "a record of a line each way", [&] { return on->flag_only(); }},
        {"2a 8 B, host order: pull, cudaStreamSynchronize", "is the reference 'copy'",
         [&] { return on->pull_and_synchronize(); }},
        {"2b pull, cudaStreamQuery", "no", [&] { return on->pull_and_query(); }},
        {"2b pull, cudaEventQuery", "with GPURUN_FENCE=event", [&] { return on->pull_and_event(); }},
        {"2b pull, a word that the stream writes", "direct copies in host order",
         [&] { return on->pull_and_counter(); }},
        {"2c pull by a kernel that stores a word", "middle sizes (copy_fenced)", [&] { return on->pull_by_kernel(); }},
        {"2d push by the sender's kernel, no launch there", "no: where to is not known",
         [&] { return on->push_by_kernel(); }},
        {"2e put and take, both launched at a host flag", "mailbox, of a request",
         [&] { return on->mail(Flag::kFirst, false); }, "us", 0, true},
        {"2e the same, and the sender waits for its put", "mailbox, of a blocking send",
         [&] { return on->mail(Flag::kFirst, true); }, "us", 0, true},
        {"2e put launched before its flag", "no: the record goes first", [&] { return on->mail(Flag::kLast, false); },
         "us", 0, true},
        {"2f take launched before, no flag", "no: what comes is not known", [&] { return on->mail_taken_early(); },
         "us", 0, true},
    };
    if (!report.selects(cases))
        return;
    on = std::make_unique<HostOrder>(pair);
    report.take_turns(cases);
}

} // namespace limits
