// What the tests of collectives share: rounds of one collective that a seed has chosen, the same on all ranks.
#pragma once

#include "support/job.hpp"
#include "support/reduction_reference.hpp"

#include <functional>
#include <random>

namespace gpurun::test {

enum class Form { kBlocking, kRequest, kPersistent };
constexpr Form kForms[] = {Form::kBlocking, Form::kRequest, Form::kPersistent};

// How a collective is called.
struct Manner {
    gpurun_stream domain = GPURUN_HOST;
    Form form = Form::kBlocking;
    bool in_place = false;
    Kind kind = Kind::kPageable;
    int root = 0;
};

// The same numbers on all ranks, from a seed that rank 0 chooses, unless GPURUN_TEST_SEED says it.
class Choices {
  public:
    Choices();
    uint64_t seed() const { return seed_; }
    template <typename T>
    const T& one_of(std::initializer_list<T> all) {
        return all.begin()[random_() % all.size()];
    }
    uint64_t number() { return random_(); }
    Manner manner(gpurun_stream stream);

  private:
    uint64_t seed_ = 0;
    std::mt19937_64 random_;
};

// For the messages of failed checks.
doctest::String describe(const Manner& manner);

// A buffer of a collective, with bytes behind it that nobody may touch.
class Guarded {
  public:
    Guarded(Kind kind, const Bytes& content);
    uint8_t* get() const { return memory_.get(); }
    void write(const Bytes& content) { memory_.write(content); }
    // Without the guard, which is checked.
    Bytes read() const;

  private:
    const size_t bytes_;
    Memory memory_;
};

// Calls the blocking function, or the one that starts a request, and waits in the order domain, then on the host. Or
// prepares a persistent one, starts it with zeros in the buffers, and then again with what they had.
using Call = std::function<gpurun_status()>;
using StartCall = std::function<gpurun_status(gpurun_request*)>;
struct Calls {
    Call blocking;
    StartCall start;
    StartCall prepare;
};
void call(const Manner& manner, const Calls& calls, std::initializer_list<Guarded*> buffers);

} // namespace gpurun::test
