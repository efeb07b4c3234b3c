#include "platform/node_meeting.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <charconv>
#include <random>

namespace gpurun::platform {

namespace {

constexpr size_t kMostAddresses = 16; // of at most 45 characters: with port and key they are a word

template <typename Number>
bool read_whole(std::string_view text, Number& number, int base) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    return failed == std::errc() && end == text.data() + text.size();
}

// Up to the separator, which is taken too.
std::string_view take_until(std::string_view& text, char separator) {
    const std::string_view part = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    return part;
}

} // namespace

NodeKey make_node_key() {
    NodeKey key{};
    std::random_device random; // of the kernel
    for (std::byte& each : key)
        each = static_cast<std::byte>(random());
    return key;
}

std::string as_word(const NodeMeeting& meeting) {
    std::string word;
    for (const std::string& address : meeting.addresses)
        word += (word.empty() ? "" : ",") + address;
    word += base::format(";{};", meeting.port);
    for (const std::byte each : meeting.key)
        word += base::format("{:02x}", std::to_integer<unsigned>(each));
    return word;
}

std::optional<NodeMeeting> parse_meeting(std::string_view word) {
    NodeMeeting meeting;
    std::string_view addresses = take_until(word, ';');
    while (!addresses.empty())
        meeting.addresses.emplace_back(take_until(addresses, ','));
    const std::string_view port = take_until(word, ';');
    if (meeting.addresses.empty() || !read_whole(port, meeting.port, 10) || word.size() != 2 * meeting.key.size())
        return std::nullopt;
    for (size_t i = 0; i < meeting.key.size(); ++i) {
        uint8_t byte = 0;
        if (!read_whole(word.substr(2 * i, 2), byte, 16))
            return std::nullopt;
        meeting.key[i] = std::byte{byte};
    }
    return meeting;
}

base::Result<OpenMeeting> open_meeting() {
    OpenMeeting open;
    GPURUN_ASSIGN(TcpListener listener, TcpListener::create());
    GPURUN_ASSIGN(open.meeting.addresses, own_addresses());
    if (open.meeting.addresses.size() > kMostAddresses)
        open.meeting.addresses.resize(kMostAddresses);
    open.meeting.port = listener.port;
    open.meeting.key = make_node_key();
    open.listener = std::move(listener.fd);
    return open;
}

} // namespace gpurun::platform
