#include "job_json.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;

Json seconds(int64_t ms) { return ms < 0 ? Json() : Json(static_cast<double>(ms) / 1000); }

int64_t ms_of(const Json& seconds) {
    return seconds.is_null() ? -1 : static_cast<int64_t>(seconds.get<double>() * 1000 + 0.5);
}

Json as_json(const ListedWait& wait) {
    return {{"call", wait.call},         {"seconds", seconds(wait.ms)}, {"does", wait.words.does},
            {"peer", wait.words.peer},   {"tag", wait.words.tag},       {"communicator", wait.words.communicator},
            {"bytes", wait.words.bytes}, {"path", wait.words.path},     {"waits_for", wait.waits_for}};
}

Json as_json(const ListedLoan& loan) {
    return {{"bytes", loan.bytes},       {"to", loan.to},
            {"tag", loan.tag},           {"communicator", loan.communicator},
            {"borrowed", loan.borrowed}, {"seconds", seconds(loan.ms)}};
}

Json as_json(const ListedRank& rank);

template <typename T>
Json list_of(const std::vector<T>& all) {
    Json array = Json::array();
    for (const T& each : all)
        array.push_back(as_json(each));
    return array;
}

Json as_json(const ListedRank& rank) {
    return {{"rank", rank.rank},
            {"pid", rank.pid},
            {"node", rank.node},
            {"program", rank.program},
            {"device", rank.device},
            {"state", rank.state},
            {"waits", list_of(rank.waits)},
            {"more_waits", rank.more_waits},
            {"loans", list_of(rank.loans)},
            {"more_requests", rank.more_requests}};
}

Json as_json(const ListedJob& job) {
    return {{"job", job.name},
            {"started_by", job.started_by},
            {"pid", job.pid},
            {"size", job.size},
            {"ranks", list_of(job.ranks)}};
}

std::string text_of(const Json& object, const char* key) {
    auto text = object.at(key).get<std::string>();
    std::replace_if(
        text.begin(), text.end(), [](unsigned char each) { return each < ' ' || each == 0x7f; }, '?');
    return text;
}

ListedWait wait_of(const Json& object) {
    return {text_of(object, "call"),
            ms_of(object.at("seconds")),
            {text_of(object, "does"), text_of(object, "peer"), text_of(object, "tag"), text_of(object, "communicator"),
             text_of(object, "bytes"), text_of(object, "path")},
            text_of(object, "waits_for")};
}

ListedLoan loan_of(const Json& object) {
    return {text_of(object, "bytes"),
            text_of(object, "to"),
            text_of(object, "tag"),
            text_of(object, "communicator"),
            object.at("borrowed").get<bool>(),
            ms_of(object.at("seconds"))};
}

ListedRank rank_of(const Json& object) {
    ListedRank rank;
    rank.rank = object.at("rank").get<uint32_t>();
    rank.pid = object.at("pid").get<int>();
    rank.node = object.at("node").get<uint32_t>();
    rank.program = text_of(object, "program");
    rank.device = text_of(object, "device");
    rank.state = text_of(object, "state");
    for (const Json& each : object.at("waits"))
        rank.waits.push_back(wait_of(each));
    rank.more_waits = object.at("more_waits").get<uint32_t>();
    for (const Json& each : object.at("loans"))
        rank.loans.push_back(loan_of(each));
    rank.more_requests = object.at("more_requests").get<uint32_t>();
    return rank;
}

// Throws what json does: it is read in one place.
ListedJob job_of(const Json& object) {
    ListedJob job;
    job.name = text_of(object, "job");
    job.started_by = text_of(object, "started_by");
    job.pid = object.at("pid").get<int>();
    job.size = object.at("size").get<uint32_t>();
    for (const Json& each : object.at("ranks"))
        job.ranks.push_back(rank_of(each));
    return job;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

} // namespace

std::string job_as_json(const ListedJob& job) { return dump(as_json(job)); }

base::Result<ListedJob> job_from_json(const std::string& text) {
    try {
        return job_of(Json::parse(text));
    } catch (const nlohmann::json::exception& error) {
        return base::error(base::Status::kLauncher, "what it said of itself cannot be read ({})", error.what());
    }
}

std::string jobs_as_json(std::span<const ListedJob> jobs, std::span<const SilentJob> silent) {
    Json array = Json::array();
    for (const ListedJob& job : jobs)
        array.push_back(as_json(job));
    for (const SilentJob& job : silent)
        array.push_back({{"job", job.name}, {"problem", job.why}});
    return dump(array) + "\n";
}

} // namespace gpurun::launcher
