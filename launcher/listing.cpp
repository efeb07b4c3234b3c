#include "listing.hpp"

#include "base/format.hpp"
#include "callers.hpp"
#include "job_json.hpp"
#include "platform/sealed_text.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::launcher {

namespace wire = platform::wire;

namespace {
constexpr size_t kMostAskers = 64; // at once
} // namespace

std::optional<std::string> wrong_protocol(std::span<const std::byte> message) {
    wire::Query query;
    query.protocol = 0;
    std::memcpy(&query, message.data(), std::min(message.size(), sizeof query));
    if (query.protocol == wire::kProtocol)
        return std::nullopt;
    return base::format("it runs with another version of gpurun (protocol {}, this one has {}): ask with the gpurun "
                        "that it runs with",
                        wire::kProtocol, query.protocol);
}

void Listing::add(platform::MessageSocket asker) {
    if (askers_.size() >= kMostAskers)
        refuse(asker, base::Status::kLauncher, "too many ask at once: ask again");
    else
        askers_.push_back(std::move(asker));
}

void Listing::answer(const WaitReports& reports) {
    if (askers_.empty())
        return;
    auto text = platform::seal_text(job_as_json(describe_(reports)));
    for (platform::MessageSocket& asker : askers_)
        if (text)
            static_cast<void>(asker.try_send(bytes_of(wire::Listing{}), text->get()));
        else
            refuse(asker, text.error().status, text.error().detail);
    askers_.clear();
}

} // namespace gpurun::launcher
