#include "transfer/choose.hpp"

namespace gpurun::transfer {

namespace {

bool is_host(uint32_t placement) {
    return placement == static_cast<uint32_t>(device::Placement::kPageable) ||
           placement == static_cast<uint32_t>(device::Placement::kPinned);
}

Choice between_devices(Context& context, Link& link, const SourceBuffer& source, uint64_t bytes) {
    const base::PathChoice forced = context.settings.path;
    if (forced == base::PathChoice::kStaged)
        return {Path::kStaged, Reason::kForced};
    const Choice reach = link.reach();
    if (reach.path != Path::kDirect)
        return reach;
    if (forced == base::PathChoice::kBounce)
        return {Path::kBounce, Reason::kForced};
    if (source.exportable != 0) {
        const bool is_forced = forced == base::PathChoice::kDirect;
        if (!is_forced && reach.reason == Reason::kPeerAccess && !link.worth_mapping(source, bytes))
            return {Path::kBounce, Reason::kNotYetMapped};
        if (!link.maps(source))
            return {Path::kBounce, Reason::kNotMapped};
        return is_forced ? Choice{Path::kDirect, Reason::kForced} : reach;
    }
    return {Path::kBounce,
            forced == base::PathChoice::kDirect ? Reason::kForcedButNotExportable : Reason::kNotExportable};
}

Choice between_hosts(Context& context, Link& link, const SourceBuffer& source, const Operand& target) {
    if (source.ready == 0 || !target.by_cpu() || !context.settings.single_copy)
        return {Path::kShm, Reason::kHostMemory};
    return {Path::kShm, link.can_read() ? Reason::kSingleCopy : Reason::kSingleCopyRefused};
}

} // namespace

Choice choose_path(Context& context, Link& link, const Record& request, const Operand& target) {
    const SourceBuffer& source = request.source;
    const bool from_host = is_host(source.placement);
    const bool to_host = target.in_host_memory();
    if (link.to_self)
        return {Path::kSelf, Reason::kSameProcess};
    if (request.envelope.bytes == 0)
        return {Path::kStaged, Reason::kSmall};
    if (source.placement == static_cast<uint32_t>(device::Placement::kElsewhere) || target.elsewhere())
        return {Path::kStaged, Reason::kElsewhere};
    if (from_host && to_host)
        return between_hosts(context, link, source, target);
    if (from_host || to_host)
        return {Path::kStaged, Reason::kHostAndDevice};
    return between_devices(context, link, source, request.envelope.bytes);
}

} // namespace gpurun::transfer
