// A loan of the same memory to several ranks, as one request: a loan to each, and what is complete when all have come
// back. The loans are requests of the table's, which nobody but this knows by name.
#pragma once

#include "comm/request.hpp"

#include <vector>

namespace gpurun::comm {

class LoanToAll final : public CollectiveOp {
  public:
    explicit LoanToAll(RequestTable& table) : table_(table) {}

    // REQUIRES that it has been started.
    void add(Request& loan) { loans_.push_back(&loan); }
    bool in_use() const { return !loans_.empty(); }

    const char* name() const override { return "loan to all ranks"; }
    bool done() const override;
    bool enqueued() const override;
    base::Result<void> complete_into(device::Stream stream) override GPURUN_REQUIRES(engine_lock);
    const base::Error* error() const override; // of the first one that has failed
    size_t received_bytes() const override { return 0; }
    base::Result<void> arm(Alarms& alarms) const override GPURUN_REQUIRES(engine_lock);
    void for_each_message(base::FunctionRef<void(const transfer::Send&)> send,
                          base::FunctionRef<void(const PostedReceive&)> receive) const override;
    void for_each_absent(base::FunctionRef<void(WorldRank rank, uint32_t context)>) const override {}
    void for_each_loan(base::FunctionRef<void(transfer::Send&)> loan) override;
    bool was_cancelled() const override;
    void release() override;

  private:
    RequestTable& table_;
    std::vector<Request*> loans_;
};

} // namespace gpurun::comm
