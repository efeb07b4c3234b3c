// What `gpurun jobs` tells of a job: its ranks, what each waits for, and what it has lent. Pure functions.
//
// Made by whoever watches over the job, of what Inquiry has heard; sent as JSON (job_json.hpp); shown by job_table.hpp.
#pragma once

#include "wait_reports.hpp"
#include "wait_text.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct ListedWait {
    std::string call; // "": none
    int64_t ms = -1;  // that it has waited; -1: not known
    EntryWords words;
    std::string waits_for;
};

struct ListedLoan {
    std::string bytes;
    std::string to; // the rank that has it, or is to have it
    std::string tag;
    std::string communicator; // "-": all ranks of the job
    bool borrowed = false;
    int64_t ms = 0; // since it was lent
};

struct ListedRank {
    uint32_t rank = 0;
    int pid = 0; // 0: it has not joined
    uint32_t node = 0;
    std::string program;
    std::string device; // "": not known yet
    std::string state;
    std::vector<ListedWait> waits;
    uint32_t more_waits = 0; // not among `waits`
    std::vector<ListedLoan> loans;
    uint32_t more_requests = 0; // not looked at, of which some may be loans
};

struct ListedJob {
    std::string name;
    std::string started_by; // "gpurun", or "its ranks"
    int pid = 0;            // of the gpurun that watches over it
    uint32_t size = 0;      // ranks of the job, on all nodes
    std::vector<ListedRank> ranks;
};

// Of a rank: state, waits and loans. The rest is the caller's to fill in.
ListedRank listed(const RankReport& report, int64_t now_ns);

} // namespace gpurun::launcher
