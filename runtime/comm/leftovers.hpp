// What a rank has left when it calls gpurun_finalize(), for GPURUN_CHECK=1: requests that were not completed, loans
// that are open, communicators that were not freed, and messages that nobody has received.
//
// Looked at twice, because the last can be told only once all ranks have called gpurun_finalize(). What is alike is
// counted together. Messages of collectives are not told of: their ranks are, by their errors; nor is a loan that
// nobody has borrowed told of by its borrower, since its lender tells of it. Used under the engine lock.
#pragma once

#include "comm/loans.hpp"

#include <map>
#include <string>

namespace gpurun::comm {

class Leftovers {
  public:
    Leftovers(Core& core, const Loans& loans) : core_(core), loans_(loans) {}

    // As the call begins.
    void note_open() GPURUN_REQUIRES(engine_lock);
    // Once all that was sent to this rank is here.
    void note_unreceived() GPURUN_REQUIRES(engine_lock);

    // A line for each kind of what was found, at most kMostLines and one that says how many there are beyond. Empty:
    // nothing is left.
    std::string report() const;
    static constexpr size_t kMostLines = 16;

  private:
    struct Tally {
        uint64_t number = 0;
        uint64_t bytes = 0;
    };
    void note_request(const Request& request) GPURUN_REQUIRES(engine_lock);
    // "has not received", "message", " from rank 0, tag 7, GPURUN_COMM_WORLD"
    void count(const char* omission, const char* what, const std::string& which, uint64_t bytes = 0);

    Core& core_;
    const Loans& loans_;
    std::map<std::array<std::string, 3>, Tally> found_;
};

} // namespace gpurun::comm
