#include "stress/complete.hpp"

#include "stress/execute.hpp"

#include <algorithm>
#include <numeric>
#include <thread>

namespace gpurun::stress {

namespace {

bool expected_result(gpurun_status result) { return result == GPURUN_OK || result == GPURUN_ERR_TRUNCATED; }

void complete_by_one(Completing& all, Place& place) {
    std::vector<gpurun_request>& requests = all.requests;
    const gpurun_stream end = all.end;
    const bool any = all.way == CompleteWay::kAny || all.way == CompleteWay::kTestAny;
    const bool tests = all.way == CompleteWay::kTestEach || all.way == CompleteWay::kTestAny;
    place.call = tests ? "testing one by one" : any ? "gpurun_waitany" : "gpurun_wait";
    std::vector<bool> done(requests.size(), false);
    size_t next = 0;
    for (size_t left = requests.size(); left > 0;) {
        gpurun_message_status status{};
        int index = static_cast<int>(next), now = 1;
        const gpurun_status result =
            any     ? tests ? gpurun_testany(requests.size(), requests.data(), end, &index, &now, &status)
                            : gpurun_waitany(requests.size(), requests.data(), end, &index, &status)
                : tests ? gpurun_test(&requests[next], end, &now, &status)
                    : gpurun_wait(&requests[next], end, &status);
        if (!expected_result(result))
            fail(std::string("completing one: ") + gpurun_status_string(result) + ": " + gpurun_error_detail());
        if (now == 1) {
            if (index < 0 || at(index) >= requests.size() || done[at(index)])
                fail("completed a request that was none, or was complete: " + std::to_string(index));
            done[at(index)] = true;
            all.settle(at(index), requests[at(index)], result, status);
            left--;
        } else {
            std::this_thread::yield();
        }
        for (size_t tries = 0; !any && left > 0 && (tries == 0 || done[next]); tries++)
            next = (next + 1) % requests.size();
    }
}

void complete_all(Completing& all, Place& place) {
    std::vector<gpurun_request>& requests = all.requests;
    const gpurun_stream end = all.end;
    std::vector<gpurun_message_status> statuses(requests.size());
    gpurun_status result = GPURUN_OK;
    place.call = all.way == CompleteWay::kAll ? "gpurun_waitall" : "gpurun_testall";
    if (all.way == CompleteWay::kAll)
        result = gpurun_waitall(requests.size(), requests.data(), end, statuses.data());
    else
        for (int done = 0; done == 0; std::this_thread::yield()) {
            result = gpurun_testall(requests.size(), requests.data(), end, &done, statuses.data());
            if (!expected_result(result))
                break;
        }
    if (!expected_result(result))
        fail(std::string("completing all: ") + gpurun_status_string(result) + ": " + gpurun_error_detail());
    gpurun_status first = GPURUN_OK;
    for (size_t i = 0; i < requests.size(); i++) {
        first = first == GPURUN_OK ? statuses[i].error : first;
        all.settle(i, requests[i], statuses[i].error, statuses[i]);
    }
    if (first != result)
        fail("completing all did not return the first error");
}

void complete_some(Completing& all, Place& place) {
    std::vector<gpurun_request>& requests = all.requests;
    const gpurun_stream end = all.end;
    std::vector<gpurun_message_status> statuses(requests.size());
    std::vector<int> indices(requests.size());
    place.call = all.way == CompleteWay::kSome ? "gpurun_waitsome" : "gpurun_testsome";
    for (size_t left = requests.size(); left > 0;) {
        int count = 0;
        const gpurun_status result = (all.way == CompleteWay::kSome ? gpurun_waitsome : gpurun_testsome)(
            requests.size(), requests.data(), end, &count, indices.data(), statuses.data());
        if (!expected_result(result))
            fail(std::string("completing some: ") + gpurun_status_string(result) + ": " + gpurun_error_detail());
        if (count < (all.way == CompleteWay::kSome ? 1 : 0) || at(count) > left)
            fail("completed " + std::to_string(count) + " of " + std::to_string(left) + " requests");
        for (size_t i = 0; i < at(count); i++) {
            if (i > 0 && indices[i] <= indices[i - 1])
                fail("the indices of completed requests do not ascend");
            all.settle(at(indices[i]), requests.at(at(indices[i])), statuses[i].error, statuses[i]);
        }
        left -= at(count);
        if (count == 0)
            std::this_thread::yield();
    }
}

} // namespace

void complete(Completing& all, Place& place) {
    switch (all.way) {
    case CompleteWay::kEach:
    case CompleteWay::kTestEach:
    case CompleteWay::kAny:
    case CompleteWay::kTestAny: complete_by_one(all, place); break;
    case CompleteWay::kAll:
    case CompleteWay::kTestAll: complete_all(all, place); break;
    case CompleteWay::kSome:
    case CompleteWay::kTestSome: complete_some(all, place); break;
    }
}

} // namespace gpurun::stress
