#include "collectives.hpp"

#include <cstdlib>
#include <ctime>

namespace gpurun::test {

namespace {

constexpr size_t kGuardBytes = 16;
constexpr uint8_t kGuard = 0x5a;

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
    manner.started = number() % 2 == 0;
    manner.in_place = number() % 2 == 0;
    manner.kind = kKinds[number() % std::size(kKinds)];
    manner.root = static_cast<int>(number() % static_cast<uint64_t>(size()));
    return manner;
}

doctest::String describe(const Manner& manner) {
    return name(manner.kind) + (manner.domain == GPURUN_HOST ? ", host order" : ", in a stream") +
           (manner.started ? ", request" : ", blocking") + (manner.in_place ? ", in place" : "") + ", root " +
           doctest::toString(manner.root);
}

void call(const Manner& manner, const Call& blocking, const StartCall& start) {
    if (manner.started) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        REQUIRE_OK(start(&request));
        REQUIRE_OK(gpurun_wait(&request, manner.domain, nullptr));
    } else {
        REQUIRE_OK(blocking());
    }
    synchronize(manner.domain);
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

} // namespace gpurun::test
