#include "platform/needed_libraries.hpp"

#include "platform/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <optional>
#include <unistd.h>

namespace gpurun::platform {

namespace {

// Of a file that nobody has checked: more is not looked at.
constexpr size_t kMostHeaders = 256;
constexpr size_t kMostEntries = 4096; // of the dynamic section
constexpr size_t kLongestLibraryName = 256;

class File {
  public:
    explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

    template <typename T>
    bool read(uint64_t offset, T* into, size_t count) const {
        const auto bytes = static_cast<ssize_t>(count * sizeof(T));
        return ::pread(fd_.get(), into, count * sizeof(T), static_cast<off_t>(offset)) == bytes;
    }
    // Up to its NUL; "" if there is none.
    std::string text(uint64_t offset) const {
        std::array<char, kLongestLibraryName> bytes{};
        const ssize_t got = ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        const auto end = std::find(bytes.begin(), bytes.begin() + std::max<ssize_t>(got, 0), '\0');
        return got <= 0 || end == bytes.begin() + got ? std::string() : std::string(bytes.begin(), end);
    }

  private:
    UniqueFd fd_;
};

std::vector<Elf64_Phdr> read_headers(const File& file) {
    Elf64_Ehdr front{};
    constexpr unsigned char kOwnOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
    if (!file.read(0, &front, 1) || std::memcmp(front.e_ident, ELFMAG, SELFMAG) != 0 ||
        front.e_ident[EI_CLASS] != ELFCLASS64 || front.e_ident[EI_DATA] != kOwnOrder ||
        front.e_phentsize != sizeof(Elf64_Phdr) || front.e_phnum > kMostHeaders)
        return {};
    std::vector<Elf64_Phdr> headers(front.e_phnum);
    if (!file.read(front.e_phoff, headers.data(), headers.size()))
        headers.clear();
    return headers;
}

std::vector<Elf64_Dyn> read_dynamic(const File& file, const std::vector<Elf64_Phdr>& headers) {
    const auto found = std::find_if(headers.begin(), headers.end(),
                                    [](const Elf64_Phdr& header) { return header.p_type == PT_DYNAMIC; });
    if (found == headers.end())
        return {};
    std::vector<Elf64_Dyn> entries(std::min(found->p_filesz / sizeof(Elf64_Dyn), kMostEntries));
    if (!file.read(found->p_offset, entries.data(), entries.size()))
        return {};
    entries.erase(
        std::find_if(entries.begin(), entries.end(), [](const Elf64_Dyn& entry) { return entry.d_tag == DT_NULL; }),
        entries.end());
    return entries;
}

// Where in the file that address lies, once it is loaded.
std::optional<uint64_t> offset_of(uint64_t address, const std::vector<Elf64_Phdr>& headers) {
    for (const Elf64_Phdr& header : headers)
        if (header.p_type == PT_LOAD && address >= header.p_vaddr && address - header.p_vaddr < header.p_filesz)
            return address - header.p_vaddr + header.p_offset;
    return std::nullopt;
}

} // namespace

std::vector<std::string> needed_libraries(const std::string& path) {
    const File file(path);
    const std::vector<Elf64_Phdr> headers = read_headers(file);
    const std::vector<Elf64_Dyn> entries = read_dynamic(file, headers);
    const auto names =
        std::find_if(entries.begin(), entries.end(), [](const Elf64_Dyn& entry) { return entry.d_tag == DT_STRTAB; });
    if (names == entries.end())
        return {};
    const std::optional<uint64_t> first = offset_of(names->d_un.d_ptr, headers);
    std::vector<std::string> needed;
    for (const Elf64_Dyn& entry : entries)
        if (first && entry.d_tag == DT_NEEDED)
            if (std::string name = file.text(*first + entry.d_un.d_val); !name.empty())
                needed.push_back(std::move(name));
    return needed;
}

// Open MPI's and Spectrum MPI's, MPICH's and its kin's. Not libmpir, which is about numbers.
bool is_mpi_library(std::string_view name) {
    constexpr std::string_view kLibraries[] = {"libmpi.so",    "libmpi_",        "libmpich.so",  "libmpich_",
                                               "libmpicxx.so", "libmpichcxx.so", "libmpifort.so"};
    return std::any_of(std::begin(kLibraries), std::end(kLibraries),
                       [&](std::string_view each) { return name.starts_with(each); });
}

} // namespace gpurun::platform
