// Some of a job's ranks, as the command line names them: "0,2-5", "all" or "none".
#pragma once

#include "base/status.hpp"
#include "ranges.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpurun::launcher {

class RankSet {
  public:
    static RankSet all();
    static RankSet none() { return {}; }
    static RankSet one(uint32_t rank);
    // `option` names the option for the error's sentence.
    static base::Result<RankSet> parse(const std::string& text, const std::string& option);

    bool has(uint32_t rank) const;
    // kArgument if it names a rank that a job of so many ranks does not have.
    base::Result<void> check(uint32_t ranks, const std::string& option) const;

  private:
    std::vector<Range> ranges_;
};

} // namespace gpurun::launcher
