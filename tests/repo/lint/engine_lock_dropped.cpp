// ./dev lint has to refuse this: it uses what the engine lock guards after it has let the lock go.
#include "comm/core.hpp"

namespace gpurun::comm {

void note_twice(Core& core);

void note_twice(Core& core) {
    EngineLock lock(core.mutex());
    core.note_change();
    lock.unlock();
    core.note_change();
    lock.lock();
}

} // namespace gpurun::comm
