// Parts of a piece of memory that somebody else addresses. First fit.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace gpurun::transfer {

class Allotment {
  public:
    static constexpr size_t kUnit = 128;

    explicit Allotment(size_t bytes) : left_(bytes), free_{{0, bytes}} {}
    std::optional<size_t> take(size_t bytes); // the offset
    void give_back(size_t offset, size_t bytes);
    size_t left() const { return left_; }

  private:
    size_t left_;
    std::map<size_t, size_t> free_; // bytes, by offset
};

} // namespace gpurun::transfer
