#include "trace_file.hpp"

#include "base/format.hpp"
#include "platform/byte_stream.hpp"
#include "platform/process.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace gpurun::launcher {

namespace fs = std::filesystem;
using base::Result;

namespace {

base::Error refused(const std::string& name, const std::string& why) {
    return base::error(base::Status::kArgument, "--trace {}: {}", name, why);
}

// What the name leads to. A device or a pipe must not be replaced by a file.
Result<std::string> resolve(const std::string& name) {
    std::error_code failed;
    const fs::file_status there = fs::status(name, failed);
    if (there.type() == fs::file_type::directory)
        return refused(name, "is a folder: give the name of a file in it");
    if (fs::exists(there) && there.type() != fs::file_type::regular)
        return refused(name, "is there and no ordinary file: give another name");
    const fs::path target = fs::weakly_canonical(name, failed);
    if (failed)
        return refused(name, failed.message());
    return target.string();
}

} // namespace

Result<void> TraceFile::check(const std::string& path) {
    auto file = create(path);
    return file ? Result<void>() : Result<void>(std::move(file).error());
}

Result<TraceFile> TraceFile::create(const std::string& path) {
    GPURUN_ASSIGN(std::string target, resolve(path));
    std::string partial = base::format("{}.{}.partial", target, platform::own_pid());
    auto fd = platform::create_file(partial, "--trace " + path);
    if (!fd)
        return base::error(base::Status::kArgument, "{}", fd.error().detail);
    return TraceFile(path, std::move(target), std::move(partial), std::move(*fd));
}

TraceFile::TraceFile(TraceFile&& other) noexcept
    : name_(std::move(other.name_)), target_(std::move(other.target_)),
      partial_(std::exchange(other.partial_, std::string())), fd_(std::move(other.fd_)) {}

TraceFile::~TraceFile() {
    std::error_code ignored;
    if (!partial_.empty())
        fs::remove(partial_, ignored);
}

Result<void> TraceFile::write(std::string_view text) {
    const platform::Transfer written = platform::write_now(fd_.get(), text);
    if (written.bytes == text.size())
        return {};
    return base::error(base::Status::kSystem, "--trace {}: {}", name_,
                       std::generic_category().message(written.error_number));
}

Result<void> TraceFile::finish() {
    fd_.reset();
    std::error_code failed;
    fs::rename(partial_, target_, failed);
    if (failed)
        return base::error(base::Status::kSystem, "--trace {}: {}", name_, failed.message());
    partial_.clear();
    return {};
}

} // namespace gpurun::launcher
