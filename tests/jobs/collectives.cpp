#include "collectives.hpp"

#include <cstdlib>
#include <ctime>

namespace gpurun::test {

namespace {

constexpr size_t kGuardBytes = 16;
constexpr uint8_t kGuard = 0x5a;
constexpr const char* kFormNames[] = {", blocking", ", request", ", persistent"};

} // namespace

Choices::Choices() {
    const char* const given = std::getenv("GPURUN_TEST_SEED");
    seed_ = given != nullptr ? std::strtoull(given, nullptr, 10) : static_cast<uint64_t>(std::time(nullptr));
    REQUIRE_OK(gpurun_bcast(&seed_, 1, GPURUN_UINT64, 0, kWorld, GPURUN_HOST));
    random_.seed(seed_);
}

Manner Choices::manner(gpurun_stream stream) {
    Manner manner;
    manner.domain = one_of({GPURUN_HOST, stream});
    manner.form = kForms[number() % std::size(kForms)];
    manner.in_place = number() % 2 == 0;
    manner.kind = kKinds[number() % std::size(kKinds)];
    manner.root = static_cast<int>(number() % static_cast<uint64_t>(size()));
    return manner;
}

doctest::String describe(const Manner& manner) {
    return name(manner.kind) + (manner.domain == GPURUN_HOST ? ", host order" : ", in a stream") +
           kFormNames[static_cast<int>(manner.form)] + (manner.in_place ? ", in place" : "") + ", root " +
           doctest::toString(manner.root);
}

Guarded::Guarded(Kind kind, const Bytes& content) : bytes_(content.size()), memory_(kind, bytes_ + kGuardBytes) {
    Bytes all = content;
    all.resize(memory_.size(), kGuard);
    memory_.write(all);
}

Bytes Guarded::read() const {
    Bytes all = memory_.read();
    CHECK(Bytes(all.begin() + static_cast<ptrdiff_t>(bytes_), all.end()) == Bytes(kGuardBytes, kGuard));
    all.resize(bytes_);
    return all;
}

namespace {

void start_and_wait(gpurun_request& request, gpurun_stream domain) {
    REQUIRE_OK(gpurun_start(&request));
    REQUIRE_OK(gpurun_wait(&request, domain, nullptr));
    synchronize(domain);
}

void call_persistent(const Manner& manner, const StartCall& prepare, std::initializer_list<Guarded*> buffers) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    REQUIRE_OK(prepare(&request));
    std::vector<Bytes> contents;
    for (Guarded* const each : buffers) {
        contents.push_back(each->read());
        each->write(Bytes(contents.back().size(), 0));
    }
    start_and_wait(request, manner.domain);
    auto content = contents.begin();
    for (Guarded* const each : buffers)
        each->write(*content++);
    start_and_wait(request, manner.domain);
    REQUIRE_OK(gpurun_request_free(&request));
}

} // namespace

void call(const Manner& manner, const Calls& calls, std::initializer_list<Guarded*> buffers) {
    if (manner.form == Form::kPersistent) {
        call_persistent(manner, calls.prepare, buffers);
        return;
    }
    if (manner.form == Form::kRequest) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        REQUIRE_OK(calls.start(&request));
        REQUIRE_OK(gpurun_wait(&request, manner.domain, nullptr));
    } else {
        REQUIRE_OK(calls.blocking());
    }
    synchronize(manner.domain);
}

} // namespace gpurun::test
