// The benchmark's command line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::bench {

enum class Memory { kDevice, kHost, kPinned, kAsync };
enum class Order { kStream, kHost };

struct Options {
    std::vector<size_t> sizes;
    int iterations = 500; // ping-pongs of a small size; large sizes take fewer
    std::vector<Order> orders{Order::kStream, Order::kHost};
    Memory memory = Memory::kDevice;
    bool raw = false;

    size_t largest() const;
};

const char* name(Memory memory);
const char* name(Order order);

// LOW:HIGH is LOW, the powers of four between, and HIGH; or a list with commas. Suffixes K, M, G are powers of 1024.
std::optional<std::vector<size_t>> parse_sizes(const std::string& text);

// Ends the process with a message, as command lines do, if `argv` cannot be understood or asks for help.
Options parse_options(int argc, char** argv);

} // namespace gpurun::bench
