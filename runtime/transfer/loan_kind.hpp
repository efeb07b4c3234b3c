// What the two sides of a loan may do with the memory until it is given back.
#pragma once

#include <cstdint>

namespace gpurun::transfer {

// The values are those of the C API's gpurun_loan_kind.
enum class LoanKind : uint8_t {
    kNone = 0,      // no loan: a message that is copied
    kReadOnly = 1,  // all read
    kExclusive = 2, // only the borrower reads and writes
    kShared = 3,    // all read and write
};

// Travels in records.
struct Loan {
    LoanKind kind = LoanKind::kNone;
    bool has_tensors = false; // which a message in front of it describes (comm/tensor_list.hpp)
};
static_assert(sizeof(Loan) == 2);

} // namespace gpurun::transfer
