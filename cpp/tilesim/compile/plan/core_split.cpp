// The part of a product that each core computes.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/machine/parts.hpp"

namespace tilesim::lower {

std::int64_t CoreSplit::used() const {
  std::int64_t product = 1;
  for (const DimSplit& part : parts) product *= part.parts;
  return product;
}

std::int64_t CoreSplit::DimSplit::least() const {
  if (stretches.empty()) return whole - (parts - 1) * chunk;
  std::int64_t left = whole, least = chunk;
  for (const Stretch& stretch : stretches) {
    const std::int64_t cores = std::min(stretch.count, parts - stretch.first);
    if (cores < 1) continue;
    left -= (cores - 1) * stretch.each;
    least = std::min({least, left, stretch.each});
    left -= stretch.each;
  }
  return least;
}

bool CoreSplit::DimSplit::same_steps(std::int64_t step) const {
  return ceil_div(least(), step) == ceil_div(chunk, step);
}

const CoreSplit::DimSplit* CoreSplit::find(int dim) const {
  for (const DimSplit& part : parts)
    if (part.dim == dim) return &part;
  return nullptr;
}

Expr CoreSplit::index(int dim) const {
  std::int64_t inner = 1;
  for (std::size_t i = parts.size(); i-- > 0; inner *= parts[i].parts) {
    if (parts[i].dim != dim) continue;
    const Expr digit = inner == 1 ? Expr::symbol("core") : floor_div(Expr::symbol("core"), inner);
    return i == 0 ? digit : modulo(digit, parts[i].parts);
  }
  return 0;
}

Expr CoreSplit::base(int dim) const {
  const DimSplit* part = find(dim);
  if (!part) return 0;
  return part->stretches.empty() ? index(dim) * Expr(part->chunk) : shares_before(part->stretches);
}

Expr CoreSplit::extent(int dim) const {
  const DimSplit& part = *find(dim);
  if (!part.stretches.empty()) return min(share_of(part.stretches), Expr(part.whole) - base(dim));
  return part.even() ? Expr(part.chunk) : min(Expr(part.chunk), Expr(part.whole) - base(dim));
}

void take_regions_in_turn(program::Block& body, std::int64_t used, const Share& machine) {
  if (used < 2 || used >= machine.core.count || !takes_regions_in_turn(machine, false)) return;
  const std::int64_t regions = machine.memory.regions, each = machine.core.count / regions;
  const Expr core = Expr::symbol("core");
  substitute(body, {{"core", modulo(core, each) * Expr(regions) + floor_div(core, each)}});
}

}  // namespace tilesim::lower
