#include "device/cuda/uuid.hpp"

#include "base/format.hpp"

namespace gpurun::device::cuda {

namespace {

bool dash_before(size_t byte) { return byte == 4 || byte == 6 || byte == 8 || byte == 10; }

int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

} // namespace

std::string format_uuid(std::string_view prefix, const Uuid& uuid) {
    std::string text = base::format("{}-", prefix);
    for (size_t i = 0; i < uuid.size(); ++i)
        text += base::format("{}{:02x}", dash_before(i) ? "-" : "", uuid[i]);
    return text;
}

std::optional<Uuid> parse_uuid(std::string_view text) {
    constexpr size_t kPrefix = 4; // GPU- or MIG-
    constexpr size_t kLength = kPrefix + 32 + 4;
    if (text.size() != kLength || (!text.starts_with("GPU-") && !text.starts_with("MIG-")))
        return std::nullopt;
    Uuid uuid{};
    size_t at = kPrefix;
    for (size_t i = 0; i < uuid.size(); ++i) {
        if (dash_before(i) && text[at++] != '-')
            return std::nullopt;
        const int high = hex_digit(text[at]);
        const int low = hex_digit(text[at + 1]);
        if (high < 0 || low < 0)
            return std::nullopt;
        uuid[i] = static_cast<uint8_t>(high << 4 | low);
        at += 2;
    }
    return uuid;
}

} // namespace gpurun::device::cuda
