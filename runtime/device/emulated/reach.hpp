// Which emulated devices can copy from each other's memory: GPURUN_EMULATED_PEER_ACCESS, parsed.
//
// "all", "none", or pairs such as "0-1,2-3". A pair holds in both directions; a device always reaches itself.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace gpurun::device::emulated {

class Reach {
  public:
    // kSetting if the text cannot be read or names an ordinal that is not below `count`.
    static base::Result<Reach> parse(const std::string& text, uint32_t count);

    bool reaches(uint32_t from, uint32_t to) const;

  private:
    bool all_ = false;
    std::set<std::pair<uint32_t, uint32_t>> pairs_; // smaller ordinal first
};

} // namespace gpurun::device::emulated
