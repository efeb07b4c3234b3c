#include "api/ranges.hpp"

namespace gpurun::api {

bool has_range_reader() { return false; }
void begin_range(const char*, const base::CallArguments&) {}
void end_range() {}

} // namespace gpurun::api
