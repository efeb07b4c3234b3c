#include "comm/matcher.hpp"

namespace gpurun::comm {

void Matcher::keep(WorldRank source, uint64_t ordinal, const transfer::Record& record,
                   std::span<const std::byte> payload) {
    if (unused_.empty()) {
        unused_.reserve(all_.size() + 1); // so that give_back() never allocates
        unused_.push_back(&all_.emplace_back());
    }
    Unexpected& message = *unused_.back();
    unused_.pop_back();
    message.source = source;
    message.ordinal = ordinal;
    transfer::copy_record(message.record, record);
    message.payload.assign(payload.begin(), payload.end());
    unexpected_.push_back(message,
                          key_of(record.envelope.context, source.value, static_cast<uint32_t>(record.envelope.tag)));
    of_source_[source.value].push_back(message);
    by_arrival_.push_back(message);
}

void Matcher::forget(Unexpected& message) {
    unexpected_.remove(message);
    of_source_[message.source.value].remove(message);
    by_arrival_.remove(message);
}

Unexpected* Matcher::find(const Pattern& pattern) const {
    const auto fits = [&](const Unexpected& each) { return pattern.fits(each.source, each.record.envelope); };
    if (pattern.any_source)
        return by_arrival_.find(fits);
    if (pattern.any_tag())
        return of_source_[pattern.source.value].find(fits);
    return unexpected_.find(key_of(pattern), fits);
}

Unexpected& Matcher::take_now(const Pattern& pattern) {
    Unexpected* const message = find(pattern);
    GPURUN_ASSERT(message != nullptr);
    forget(*message);
    return *message;
}

uint64_t Matcher::take(const Pattern& pattern) {
    last_taken_ += Names::kUse;
    taken_.emplace(last_taken_, &take_now(pattern));
    return last_taken_;
}

Unexpected& Matcher::release_taken(uint64_t number) {
    const auto taken = taken_.find(number);
    GPURUN_ASSERT(taken != taken_.end());
    Unexpected& message = *taken->second;
    taken_.erase(taken);
    return message;
}

} // namespace gpurun::comm
