// Temporary folders of a process's own, and being told of what appears in one.
#include "platform/private_folder.hpp"
#include "platform/byte_stream.hpp"
#include "support/unit.hpp"

#include <cstdlib>
#include <filesystem>
#include <poll.h>
#include <sys/stat.h>

using namespace gpurun::platform;
using gpurun::base::Status;
using gpurun::test::detail_of;
using gpurun::test::must;

namespace {

mode_t mode_of(const std::string& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 0777;
}

bool readable(int fd) {
    pollfd query{fd, POLLIN, 0};
    return ::poll(&query, 1, 0) == 1;
}

} // namespace

TEST_SUITE_BEGIN("private folder");

TEST_CASE("a private folder is its owner's only, and goes with all that is in it") {
    std::string path;
    {
        PrivateFolder folder = must(PrivateFolder::create("gpurun-unit-"));
        const PrivateFolder moved(std::move(folder));
        path = moved.path();
        CHECK(path.starts_with('/'));
        CHECK(path.find("/gpurun-unit-") != std::string::npos);
        CHECK(mode_of(path) == 0700);
        const std::string inner = must(moved.add_folder("inner"));
        CHECK(inner == path + "/inner");
        CHECK(mode_of(inner) == 0700);
        write_all(must(moved.add_file("file")).get(), "text");
        CHECK(mode_of(path + "/file") == 0600);
        CHECK_STATUS(moved.add_file("file"), Status::kSystem);
        CHECK_STATUS(moved.add_folder("inner"), Status::kSystem);
    }
    CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a temporary folder that cannot be made is named, with what chooses it") {
    const char* before = std::getenv("TMPDIR");
    const std::string restored = before != nullptr ? before : "";
    ::setenv("TMPDIR", "/no/such/place", 1);
    const auto folder = PrivateFolder::create("gpurun-unit-");
    before != nullptr ? ::setenv("TMPDIR", restored.c_str(), 1) : ::unsetenv("TMPDIR");
    CHECK_STATUS(folder, Status::kSystem);
    CHECK(detail_of(folder).find("/no/such/place") != std::string::npos);
    CHECK(detail_of(folder).find("TMPDIR") != std::string::npos);
}

TEST_CASE("what appears in a watched folder is told once") {
    const PrivateFolder folder = must(PrivateFolder::create("gpurun-unit-"));
    FolderWatch watch = must(FolderWatch::create(folder.path()));
    CHECK_FALSE(readable(watch.fd()));
    const UniqueFd file = must(folder.add_file("one"));
    CHECK(readable(watch.fd()));
    watch.acknowledge();
    CHECK_FALSE(readable(watch.fd()));
    write_all(file.get(), "text"); // it is there already
    CHECK_FALSE(readable(watch.fd()));
    static_cast<void>(must(folder.add_folder("two")));
    CHECK(readable(watch.fd()));
    CHECK_STATUS(FolderWatch::create(folder.path() + "/none"), Status::kSystem);
}

TEST_SUITE_END();
