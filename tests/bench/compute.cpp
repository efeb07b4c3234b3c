#include "compute.hpp"

#include "call.hpp"

#include <algorithm>

namespace gpurun::bench {

namespace {

constexpr double kCalibrationUs = 2000; // long against the cost of starting and waiting
constexpr uint64_t kMostAmount = uint64_t{1} << 40;
constexpr int kTries = 3; // the fastest counts: others were disturbed

void work(void* argument) {
    uint64_t word = 1;
    for (uint64_t left = *static_cast<const uint64_t*>(argument); left > 0; --left) {
        word = word * 6364136223846793005u + 1442695040888963407u;
        asm volatile("" : "+r"(word)); // each step is made, one after the other
    }
}

} // namespace

Compute::Compute(const gpurun_device_info& device)
    : on_gpu_(device.kind == GPURUN_DEVICE_CUDA), ordinal_(device.ordinal) {}

void Compute::start(Order order, gpurun_stream stream) {
    if (order == Order::kHost)
        work(&amount_);
    else if (on_gpu_)
        enqueue_kernel(ordinal_, stream, amount_);
    else
        CALL(gpurun_launch_host(stream, work, &amount_));
}

double Compute::amount_a_us(Order order) {
    double& known = amount_a_us_[order == Order::kHost ? 1 : 0];
    if (known > 0)
        return known;
    gpurun_stream stream = nullptr;
    CALL(gpurun_stream_create(&stream));
    double us = 0;
    for (amount_ = 1024; us < kCalibrationUs && amount_ < kMostAmount;) {
        amount_ *= 2;
        for (int i = 0; i < kTries; ++i) {
            const double start = gpurun_wtime();
            this->start(order, stream);
            CALL(gpurun_stream_synchronize(stream));
            const double taken = (gpurun_wtime() - start) * 1e6;
            us = i == 0 ? taken : std::min(us, taken);
        }
    }
    CALL(gpurun_stream_destroy(stream));
    known = static_cast<double>(amount_) / us;
    return known;
}

void Compute::set_us(double us, Order order) {
    const double rate = amount_a_us(order); // before amount_ is set: calibrating uses it
    amount_ = std::max<uint64_t>(1, static_cast<uint64_t>(us * rate));
}

} // namespace gpurun::bench
