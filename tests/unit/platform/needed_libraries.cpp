// What programs say that they need, also those that are damaged.
#include "platform/needed_libraries.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace gpurun;

namespace {

std::string own_bytes(size_t most) {
    std::ifstream own("/proc/self/exe", std::ios::binary);
    std::string bytes(most, '\0');
    own.read(bytes.data(), static_cast<std::streamsize>(most));
    bytes.resize(static_cast<size_t>(own.gcount()));
    return bytes;
}

class File {
  public:
    File() : path_(std::filesystem::temp_directory_path() / ("needed." + std::to_string(::getpid()))) {}
    ~File() { std::filesystem::remove(path_); }
    std::vector<std::string> needs(const std::string& content) const {
        std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
        return platform::needed_libraries(path_);
    }

  private:
    std::string path_;
};

} // namespace

TEST_SUITE_BEGIN("needed libraries");

TEST_CASE("a program's libraries are found") {
    const std::vector<std::string> needed = platform::needed_libraries("/proc/self/exe");
    CHECK(
        std::any_of(needed.begin(), needed.end(), [](const std::string& each) { return each.starts_with("libc.so"); }));
}

TEST_CASE("what is no program needs nothing") {
    CHECK(platform::needed_libraries("/no/such/program").empty());
    CHECK(platform::needed_libraries("/").empty());
    CHECK(platform::needed_libraries("/proc/self/cmdline").empty());
    const File file;
    CHECK(file.needs("").empty());
    CHECK(file.needs("#!/bin/sh\nlibmpi.so\n").empty());
    CHECK(file.needs(own_bytes(16)).empty());
}

TEST_CASE("a damaged program is read without harm") {
    const File file;
    const std::string whole = own_bytes(size_t{64} << 20);
    const size_t headers = 64 + 16 * 56; // the front, and program headers
    for (size_t at = 0; at < headers; at += 3) {
        std::string damaged = whole.substr(0, 64 * 1024);
        damaged[at] = static_cast<char>(0xff);
        for (const std::string& each : file.needs(damaged))
            CHECK(each.size() < 256);
    }
    for (size_t length = 0; length < 4096; length += 61)
        CHECK(file.needs(whole.substr(0, length)).size() < 100);
}

TEST_SUITE_END();
