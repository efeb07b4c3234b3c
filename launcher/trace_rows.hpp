// Rows for slices that overlap: each goes into the first row in which it overlaps nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

namespace gpurun::launcher {

class TraceRows {
  public:
    static constexpr size_t kMost = 99'999; // what overlaps more than this shares the last row, and looks wrong there

    // The row for a slice from `begin_ns` to `end_ns`. Fast if slices come in about the order in which they begin.
    size_t place(int64_t begin_ns, int64_t end_ns) {
        while (!busy_.empty() && busy_.top().first <= begin_ns) {
            free_.insert(busy_.top().second);
            busy_.pop();
        }
        size_t row = ends_.size();
        if (!free_.empty() && ends_[*free_.begin()] <= begin_ns) { // not so if this one began before the last
            row = *free_.begin();
            free_.erase(free_.begin());
        } else if (row < kMost) {
            ends_.push_back(0);
        } else {
            return row - 1;
        }
        ends_[row] = end_ns;
        busy_.emplace(end_ns, row);
        return row;
    }
    size_t count() const { return ends_.size(); }

  private:
    using Busy = std::pair<int64_t, size_t>; // until when, and which row

    std::vector<int64_t> ends_; // of each row's last slice
    std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy_;
    std::set<size_t> free_;
};

} // namespace gpurun::launcher
