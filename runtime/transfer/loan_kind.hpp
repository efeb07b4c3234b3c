// What the two sides of a loan may do with the memory until it is given back, and what it began with.
#pragma once

#include <cstdint>

namespace gpurun::transfer {

// The values are those of the C API's gpurun_loan_kind.
enum class LoanKind : uint8_t {
    kNone = 0,      // no loan: a message that is copied
    kReadOnly = 1,  // all read
    kExclusive = 2, // only the borrower reads and writes
    kShared = 3,    // all read and write
    kReadOrCopy =
        4,     // all read, and who cannot map it gets a copy; of a loan that was borrowed, it is kReadOnly or kCopy
    kCopy = 5, // of a loan that was borrowed: this rank reads a copy
};

constexpr bool is_read_only(LoanKind kind) { return kind != LoanKind::kExclusive && kind != LoanKind::kShared; }

// Travels in records.
struct Loan {
    LoanKind kind = LoanKind::kNone;
    bool has_tensors = false; // which a message in front of it describes (comm/tensor_list.hpp)
};
static_assert(sizeof(Loan) == 2);

// Of the loan by which a rank, the owner, has lent its own memory, and of all loans by which that is lent on. Travels
// in records.
struct LoanOrigin {
    uint32_t number = 0; // of the owner's loan
    uint16_t owner = 0;  // its rank
    uint16_t depth = 0;  // how often it has been lent on

    bool same_loan(const LoanOrigin& other) const { return number == other.number && owner == other.owner; }
};
static_assert(sizeof(LoanOrigin) == 8);

} // namespace gpurun::transfer
