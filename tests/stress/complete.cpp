// Completing requests, in each of the ways in which that can be done.
#include "stress/worker.hpp"

#include <algorithm>
#include <numeric>
#include <thread>

namespace gpurun::stress {

namespace {

size_t at(int index) { return static_cast<size_t>(index); }

bool expected_result(gpurun_status result) { return result == GPURUN_OK || result == GPURUN_ERR_TRUNCATED; }

} // namespace

void Worker::complete(const Completion& completion) {
    std::vector<gpurun_request> requests;
    for (const Started& started : completion.requests) {
        gpurun_request& request = started.is_send ? sent_[at(started.index)].request : got_[at(started.index)].request;
        if (!started.is_send && part_->receives[at(started.index)].way == ReceiveWay::kCancelled)
            REQUIRE_OK(gpurun_cancel(&request));
        requests.push_back(request);
    }
    switch (completion.way) {
    case CompleteWay::kEach:
    case CompleteWay::kTestEach:
    case CompleteWay::kAny:
    case CompleteWay::kTestAny: complete_by_one(completion, requests); break;
    case CompleteWay::kAll:
    case CompleteWay::kTestAll: complete_all(completion, requests); break;
    case CompleteWay::kSome:
    case CompleteWay::kTestSome: complete_some(completion, requests); break;
    }
}

void Worker::settle(const Started& started, gpurun_request& request, gpurun_stream end, gpurun_status result,
                    const gpurun_message_status& status) {
    const size_t index = at(started.index);
    const bool persistent = started.is_send ? part_->messages[index].way == SendWay::kPersistent ||
                                                  part_->messages[index].way == SendWay::kPersistentSync
                                            : part_->receives[index].way == ReceiveWay::kPersistent;
    if ((request.id != 0) != persistent)
        fail("a completed request is not null, or a persistent one is");
    if (persistent)
        REQUIRE_OK(gpurun_request_free(&request));
    if (started.is_send) {
        if (result != GPURUN_OK || status.error != GPURUN_OK)
            fail(std::string("a send failed: ") + gpurun_status_string(result));
        after_send(started.index, end);
        return;
    }
    got_[index].status = status;
    after_receive(started.index, end, result);
}

void Worker::complete_by_one(const Completion& completion, std::vector<gpurun_request>& requests) {
    const gpurun_stream end = domain(completion.domain);
    const bool any = completion.way == CompleteWay::kAny || completion.way == CompleteWay::kTestAny;
    const bool tests = completion.way == CompleteWay::kTestEach || completion.way == CompleteWay::kTestAny;
    g_places[thread_].call = tests ? "testing one by one" : any ? "gpurun_waitany" : "gpurun_wait";
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
            settle(completion.requests[at(index)], requests[at(index)], end, result, status);
            left--;
        } else {
            std::this_thread::yield();
        }
        for (size_t tries = 0; !any && left > 0 && (tries == 0 || done[next]); tries++)
            next = (next + 1) % requests.size();
    }
}

void Worker::complete_all(const Completion& completion, std::vector<gpurun_request>& requests) {
    const gpurun_stream end = domain(completion.domain);
    std::vector<gpurun_message_status> statuses(requests.size());
    gpurun_status result = GPURUN_OK;
    g_places[thread_].call = completion.way == CompleteWay::kAll ? "gpurun_waitall" : "gpurun_testall";
    if (completion.way == CompleteWay::kAll)
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
        settle(completion.requests[i], requests[i], end, statuses[i].error, statuses[i]);
    }
    if (first != result)
        fail("completing all did not return the first error");
}

void Worker::complete_some(const Completion& completion, std::vector<gpurun_request>& requests) {
    const gpurun_stream end = domain(completion.domain);
    std::vector<gpurun_message_status> statuses(requests.size());
    std::vector<int> indices(requests.size());
    g_places[thread_].call = completion.way == CompleteWay::kSome ? "gpurun_waitsome" : "gpurun_testsome";
    for (size_t left = requests.size(); left > 0;) {
        int count = 0;
        const gpurun_status result = (completion.way == CompleteWay::kSome ? gpurun_waitsome : gpurun_testsome)(
            requests.size(), requests.data(), end, &count, indices.data(), statuses.data());
        if (!expected_result(result))
            fail(std::string("completing some: ") + gpurun_status_string(result) + ": " + gpurun_error_detail());
        if (count < (completion.way == CompleteWay::kSome ? 1 : 0) || at(count) > left)
            fail("completed " + std::to_string(count) + " of " + std::to_string(left) + " requests");
        for (size_t i = 0; i < at(count); i++) {
            if (i > 0 && indices[i] <= indices[i - 1])
                fail("the indices of completed requests do not ascend");
            settle(completion.requests.at(at(indices[i])), requests.at(at(indices[i])), end, statuses[i].error,
                   statuses[i]);
        }
        left -= at(count);
        if (count == 0)
            std::this_thread::yield();
    }
}

} // namespace gpurun::stress
