// The names by which a program knows what an engine has made for it: communicators, requests, loans, probed messages.
//
// A name has, from above: how often its place was used, the engine's number, and the place. A process has an engine for
// each job that it is in: number 0 is that of its own job, the others are of joint jobs (api/joint_worlds.hpp), and
// come and go. So a name says which engine it is of, and one that is not given any more is recognized.
#pragma once

#include <cstdint>

namespace gpurun::comm {

struct Names {
    static constexpr uint64_t kUse = uint64_t{1} << 32;
    static constexpr uint32_t kEngineShift = 28;
    static constexpr uint64_t kPlace = (uint64_t{1} << kEngineShift) - 1;
    static constexpr uint32_t kEngines = 16;

    static constexpr uint32_t engine_of(uint64_t name) {
        return static_cast<uint32_t>(name >> kEngineShift) & (kEngines - 1);
    }
    static constexpr uint32_t use_of(uint64_t name) { return static_cast<uint32_t>(name >> 32); }
    // That of place 0, which is not used yet.
    constexpr uint64_t first() const { return first_use * kUse + (uint64_t{engine} << kEngineShift); }

    uint32_t engine = 0;
    uint32_t first_use = 0; // every earlier engine with this number has used its places less often
};

} // namespace gpurun::comm
