#include "stress/row.hpp"

#include "stress/complete.hpp"
#include "stress/execute.hpp"

#include <numeric>

namespace gpurun::stress {

RowCall::RowCall(const Row& row, gpurun_comm comm)
    : row_(row), random_(row.content + static_cast<uint64_t>(test::rank())), requests_(row.joints.size()) {
    for (int turn = 0; turn < row.turns; turn++)
        for (const Joint& each : row.joints)
            calls_.emplace_back(each, comm);
}

// Mostly as programs do it: the same in each turn.
void RowCall::run(gpurun_stream start, gpurun_stream end, Place& place) {
    constexpr int kForms = 4;
    const auto usual = static_cast<Form>(random_.below(kForms));
    for (int turn = 0; turn < row_.turns; turn++) {
        first_ = static_cast<size_t>(turn) * row_.joints.size();
        run_turn(random_.chance(80) ? usual : static_cast<Form>(random_.below(kForms)), start, end, place);
    }
}

void RowCall::run_turn(Form form, gpurun_stream start, gpurun_stream end, Place& place) {
    const size_t count = row_.joints.size();
    place.call = "a row of collectives";
    for (size_t i = 0; i < count; i++)
        call(i).fill(start);
    if (form == Form::kRequests || form == Form::kStartall) {
        start_requests(form, start);
        complete_requests(form, end, place);
        return;
    }
    if (form == Form::kGroup)
        REQUIRE_OK(gpurun_group_begin());
    for (size_t i = 0; i < count; i++)
        REQUIRE_OK(call(i).call(start));
    if (form == Form::kGroup)
        REQUIRE_OK(gpurun_group_end());
    for (size_t i = 0; i < count; i++)
        call(i).take(start);
}

void RowCall::start_requests(Form form, gpurun_stream order) {
    const bool pauses = random_.chance(20);
    for (size_t i = 0; i < requests_.size(); i++) {
        if (form == Form::kStartall)
            REQUIRE_OK(call(i).prepare(order, &requests_[i]));
        else
            REQUIRE_OK(call(i).start(order, &requests_[i]));
        if (pauses && random_.chance(50)) // what follows is started not directly after this
            REQUIRE_OK(gpurun_memset(nullptr, 0, 0, order));
    }
    if (form == Form::kStartall)
        REQUIRE_OK(gpurun_startall(requests_.size(), requests_.data()));
}

// Sometimes in another order, or some of them first.
void RowCall::complete_requests(Form form, gpurun_stream order, Place& place) {
    constexpr int kWays = 8;
    std::vector<size_t> indices(requests_.size());
    std::iota(indices.begin(), indices.end(), size_t{0});
    if (random_.chance(25))
        random_.shuffle(indices);
    const size_t half = random_.chance(25) ? indices.size() / 2 : 0;
    const auto way = random_.chance(60) ? CompleteWay::kAll : static_cast<CompleteWay>(random_.below(kWays));
    for (const auto& [first, last] : {std::pair{size_t{0}, half}, std::pair{half, indices.size()}}) {
        if (first == last)
            continue;
        Completing some{way,
                        order,
                        {},
                        [&, begin = first](size_t index, gpurun_request& request, gpurun_status result,
                                           const gpurun_message_status&) {
                            if (result != GPURUN_OK)
                                fail("a request of a row failed");
                            if (form == Form::kStartall)
                                REQUIRE_OK(gpurun_request_free(&request));
                            call(indices[begin + index]).take(order);
                        }};
        for (size_t i = first; i < last; i++)
            some.requests.push_back(requests_[indices[i]]);
        stress::complete(some, place);
    }
}

void RowCall::check() const {
    for (const JointCall& each : calls_)
        each.check();
}

} // namespace gpurun::stress
