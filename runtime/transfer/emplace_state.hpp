// The state of a protocol in a variant of all of them, found by its number.
#pragma once

#include "transfer/channel/record.hpp"

#include <utility>
#include <variant>

namespace gpurun::transfer {

// Makes the state of `protocol` in `states`, and returns it; null if it has none.
template <typename Base, typename States>
Base* emplace_state(States& states, ProtocolId protocol) {
    Base* made = nullptr;
    const auto try_one = [&]<size_t kIndex>(std::integral_constant<size_t, kIndex>) {
        using State = std::variant_alternative_t<kIndex, States>;
        if constexpr (!std::is_same_v<State, std::monostate>)
            if (State::kProtocol == protocol)
                made = &states.template emplace<kIndex>();
    };
    [&]<size_t... kIndex>(std::index_sequence<kIndex...>) { (try_one(std::integral_constant<size_t, kIndex>()), ...); }
    (std::make_index_sequence<std::variant_size_v<States>>());
    return made;
}

} // namespace gpurun::transfer
