#include "transfer/pool/graph_notes.hpp"

#include <cstring>
#include <new>

namespace gpurun::transfer {

using base::Result;

GraphNotes::~GraphNotes() {
    for (void* block : blocks_)
        (void)device_.free_pinned(block); // goes with the process otherwise
    if (cut_marks_ != nullptr)
        (void)device_.free_pinned(cut_marks_);
}

Result<device::Counter*> GraphNotes::cut_mark(size_t peer) {
    if (cut_marks_ == nullptr) {
        GPURUN_ASSIGN(void* const memory, device_.allocate_pinned(peers_ * sizeof(device::Counter)));
        std::memset(memory, 0, peers_ * sizeof(device::Counter));
        cut_marks_ = static_cast<device::Counter*>(memory);
    }
    return &cut_marks_[peer];
}

bool GraphNotes::take_cut(size_t peer) {
    return cut_marks_ != nullptr && cut_marks_[peer].load(std::memory_order_relaxed) != 0 &&
           cut_marks_[peer].exchange(0, std::memory_order_acquire) != 0;
}

Result<device::ChannelWait*> GraphNotes::take_wait() {
    if (idle_.empty()) {
        GPURUN_ASSIGN(void* const block, device_.allocate_pinned(kOfBlock * sizeof(device::ChannelWait)));
        blocks_.push_back(block);
        for (size_t i = 0; i < kOfBlock; ++i)
            idle_.push_back(static_cast<device::ChannelWait*>(block) + i);
    }
    device::ChannelWait* const wait = idle_.back();
    idle_.pop_back();
    return new (wait) device::ChannelWait{};
}

} // namespace gpurun::transfer
