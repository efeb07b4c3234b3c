// What the two sides of a loan may do with the memory until it is given back.
#pragma once

#include <cstdint>

namespace gpurun::transfer {

// The values are those of the C API's gpurun_loan_kind. Travels in records.
enum class LoanKind : uint16_t {
    kNone = 0,      // no loan: a message that is copied
    kReadOnly = 1,  // all read
    kExclusive = 2, // only the borrower reads and writes
    kShared = 3,    // all read and write
};

} // namespace gpurun::transfer
