#include "raw_copy.hpp"

#include <cstring>
#include <vector>

namespace gpurun::bench {

namespace {

class ProcessorCopy final : public RawCopy {
  public:
    // Filled, so that no page is touched for the first time inside a measurement.
    explicit ProcessorCopy(size_t largest) : source_(largest, 1), destination_(largest, 2) {}

    std::string how() const override { return "memcpy by one processor"; }

    double one_us(size_t bytes) override { return window_us(bytes, 1); }

    double window_us(size_t bytes, int copies) override {
        const double start = gpurun_wtime();
        for (int i = 0; i < copies; ++i) {
            std::memcpy(destination_.data(), source_.data(), bytes);
            asm volatile("" : : "r"(destination_.data()) : "memory"); // the copy is not optimized away
        }
        return (gpurun_wtime() - start) * 1e6 / copies;
    }

  private:
    std::vector<unsigned char> source_;
    std::vector<unsigned char> destination_;
};

} // namespace

std::unique_ptr<RawCopy> make_processor_copy(int rank, size_t largest) {
    return std::make_unique<ProcessorCopy>(rank == 1 ? largest : 0);
}

} // namespace gpurun::bench
