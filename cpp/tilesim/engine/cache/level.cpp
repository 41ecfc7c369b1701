#include "tilesim/engine/cache/level.hpp"

#include <algorithm>

namespace tilesim::engine::cache {

/// Software-managed caches are fully associative, so that tensors that fit together do not evict each other.
Spec Level::own(const Spec& spec) const {
  Spec whole = spec;
  if (tensors_.plan || spec.software) {
    whole.ways *= whole.sets;
    whole.sets = 1;
  }
  return whole;
}

void Level::add_slice(std::unique_ptr<Below> below) {
  below_.push_back(std::move(below));
  slices_.emplace_back(own(spec_), *below_.back());
}

Level::Taken Level::request(std::size_t index, const Access& request, std::int32_t tensor, bool known) {
  Slice& slice = slices_[index];
  Taken taken;
  TensorUse* use = tensor < 0 ? nullptr : &tensors_.uses[static_cast<std::size_t>(tensor)];
  if (!known || !tensors_.kept(tensor, spec_.software)) {
    taken.cycle = slice.bypass(request);
    taken.answers = request.write ? 0 : 1;
    taken.below = request.bytes;
    if (use) use->bypassed_bytes += request.bytes;
    return taken;
  }
  const auto sector = static_cast<std::uint64_t>(spec_.sector_bytes);
  const std::uint64_t end = request.address + static_cast<std::uint64_t>(request.bytes);
  Access part = request;
  part.owner = tensor;
  for (std::uint64_t at = request.address; at < end;) {
    const std::uint64_t next = std::min(end, (at / sector + 1) * sector);
    part.address = at;
    part.bytes = static_cast<std::int64_t>(next - at);
    const Slice::Outcome outcome = slice.access(part);
    ++(outcome.hit ? use->hits : use->misses);
    use->fetched_bytes += outcome.fetched;
    use->returned_bytes += outcome.through;
    taken.below += outcome.fetched + outcome.through;
    for (const Tags::Victim& victim : slice.victims()) {
      tensors_.uses[static_cast<std::size_t>(victim.owner)].returned_bytes += spec_.sector_bytes;
      taken.below += spec_.sector_bytes;
    }
    taken.cycle = outcome.taken;
    ++taken.answers;
    at = next;
  }
  if (request.write) taken.answers = 0;
  return taken;
}

}  // namespace tilesim::engine::cache
