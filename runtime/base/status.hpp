// What can go wrong, as values.
//
// Result<T> is what every call that can fail returns: a value, or an Error with a status (one of the public
// ones, same numbers as gpurun_status) and a sentence for the user that says what to do. Success costs nothing
// beyond the value: Result<void> is one pointer that is null. Errors travel up unchanged; outputs are untouched.
#pragma once

#include "base/check.hpp"

#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace gpurun::base {

// The numbers of gpurun_status (runtime/api asserts that they agree).
enum class Status : int {
    kOk = 0,
    kNotInitialized = 1,
    kAlreadyInitialized = 2,
    kFinalized = 3,
    kArgument = 4,
    kComm = 5,
    kRank = 6,
    kTag = 7,
    kCount = 8,
    kType = 9,
    kBuffer = 10,
    kStream = 11,
    kEvent = 12,
    kTruncated = 13,
    kPeerLost = 14,
    kDevice = 15,
    kMemory = 16,
    kVersion = 17,
    kSystem = 18,
    kSetting = 19,
    kLauncher = 20,
    kUnsupported = 21,
    kInternal = 22,
    kRequest = 23,
    kOp = 24,
    kCollective = 25,
    kLoan = 26,
    kTimeout = 27,
};

struct Error {
    Status status = Status::kInternal;
    std::string detail; // one sentence: what happened, and what to do about it
};

// An error on its way up. One pointer, so that what passes it on stays small.
class [[nodiscard]] Failure {
  public:
    Failure() = default;
    Failure(Error error) : error_(keep(std::move(error))) {}

    bool failed() const { return error_ != nullptr; }
    // REQUIRES failed().
    Error& error() const {
        GPURUN_ASSERT(error_ != nullptr);
        return *error_;
    }

  private:
    [[gnu::noinline]] static std::unique_ptr<Error> keep(Error&& error) {
        return std::make_unique<Error>(std::move(error));
    }
    std::unique_ptr<Error> error_;
};

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
    Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

    explicit operator bool() const { return state_.index() == 0; }
    T& value() {
        GPURUN_ASSERT(state_.index() == 0);
        return *std::get_if<0>(&state_);
    }
    const T& value() const {
        GPURUN_ASSERT(state_.index() == 0);
        return *std::get_if<0>(&state_);
    }
    T& operator*() { return value(); }
    T* operator->() { return &value(); }
    // REQUIRES: !*this, as do the next two.
    Error error() && { return std::move(std::move(*this).failure().error()); }
    const Error& error() const& {
        GPURUN_ASSERT(state_.index() == 1);
        return std::get_if<1>(&state_)->error();
    }
    Failure failure() && {
        GPURUN_ASSERT(state_.index() == 1);
        return std::move(*std::get_if<1>(&state_));
    }

  private:
    std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : failure_(std::move(error)) {}
    Result(Failure failure) : failure_(std::move(failure)) {}

    explicit operator bool() const { return !failure_.failed(); }
    Error error() && { return std::move(failure_.error()); }
    const Error& error() const& { return failure_.error(); }
    Failure failure() && {
        GPURUN_ASSERT(failure_.failed());
        return std::move(failure_);
    }

  private:
    Failure failure_;
};

// Returns the error of `expression` from the enclosing function, or goes on.
#define GPURUN_TRY(expression)                                                                                         \
    do {                                                                                                               \
        if (auto try_result = (expression); !try_result)                                                               \
            return std::move(try_result).failure();                                                                    \
    } while (false)

// GPURUN_ASSIGN(auto x, f()): declares or assigns x from f()'s value, or returns f()'s error.
#define GPURUN_ASSIGN(target, expression)                                                                              \
    GPURUN_ASSIGN_NAMED(target, expression, GPURUN_ASSIGN_JOIN(assign_result_, __LINE__))
#define GPURUN_ASSIGN_JOIN(a, b) GPURUN_ASSIGN_JOIN2(a, b)
#define GPURUN_ASSIGN_JOIN2(a, b) a##b
#define GPURUN_ASSIGN_NAMED(target, expression, name)                                                                  \
    auto name = (expression);                                                                                          \
    if (!name)                                                                                                         \
        return std::move(name).failure();                                                                              \
    target = std::move(*name)

} // namespace gpurun::base
