// Splits products over several cores by rows, columns and batches.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/compile/product/product.hpp"
#include "tilesim/compile/product/ways.hpp"
#include "tilesim/machine/parts.hpp"
#include "tilesim/mapping/cost.hpp"

namespace tilesim::lower {

namespace {

/// Bytes of the operand's elements that a part uses; a lower bound, since bursts may add other elements.
double part_bytes(const mapping::Problem& part, std::size_t operand) {
  double elements = 1;
  for (const AxisAccess& axis : operand < 2 ? part.domain.operands[operand].axes : part.domain.results[0].axes) {
    auto used = static_cast<double>(axis.window);
    for (const AxisAccess::Term& term : axis.terms)
      used += static_cast<double>(std::abs(term.coefficient) *
                                  (part.domain.extents[static_cast<std::size_t>(term.dim)] - 1));
    elements *= used;
  }
  return elements * bits(part.memory_dtypes[operand]) / 8;
}

double dma_rate(const Share& machine) {
  return static_cast<double>(machine.core.dma.bytes_per_cycle) * static_cast<double>(machine.core.clock.hertz);
}

/// Data of one core of the split: all bytes, its share of bytes that leave the memory, bytes that it sends to others.
struct Needs { double bytes = 0, fetched = 0, sent = 0; };

/// With multicast fewer bytes leave the memory, but data that a core fetches for others passes its port a second time.
Needs needs_of(const mapping::Problem& part, bool multicast) {
  Needs needs;
  for (std::size_t operand = 0; operand < 3; ++operand) {
    const double bytes = part_bytes(part, operand);
    const std::int64_t cores = multicast ? mapping::sharing(part, operand) : 1;
    needs.bytes += bytes;
    needs.fetched += bytes / static_cast<double>(cores);
    if (cores > 1)
      needs.sent = std::max(
          needs.sent, bytes / static_cast<double>(std::min<std::int64_t>(2, mapping::most_leaders(part, operand))));
  }
  return needs;
}

/// Bytes per second of one core's share of the memory if this many cores work.
double share_of_memory(const Share& machine, std::int64_t cores) {
  return static_cast<double>(machine.memory.bytes_per_second) * static_cast<double>(machine.core.count) /
         static_cast<double>(cores);
}

double seconds(const Needs& needs, double memory, const Share& machine) {
  return std::max(needs.fetched / (memory * machine.memory.efficiency),
                  (needs.bytes + needs.sent) / std::min(port_rate(machine), dma_rate(machine)));
}

/// Whether, by a bound, multicast makes shared operands available earlier.
bool promises_multicast(const Share& machine, const mapping::Problem& part, const CoreSplit& split) {
  const double memory = share_of_memory(machine, split.used());
  return split.multicast && multicasts(machine) &&
         seconds(needs_of(part, true), memory, machine) < seconds(needs_of(part, false), memory, machine);
}

/// The machine as each core of the split sees it; the given machine divides the bandwidth by all cores.
Share seen_by(const Share& machine, const CoreSplit& split, bool multicast) {
  Share share = machine;
  share.memory.bytes_per_second =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(share_of_memory(machine, split.used())));
  const std::int64_t neighbours = cores_of_region(machine, split.used(), multicast);  // cores on the region's links
  share.network.region_bytes_per_cycle = std::max<std::int64_t>(1, share.network.region_bytes_per_cycle / neighbours);
  return share;
}

/// Lower bound on cycles, without a nest: the longer of multiplying and of fetching each operand of a part once.
double bound(const mapping::Problem& problem, const Share& machine) {
  const ArraySpec& array = machine.core.array;
  double work = 1;
  for (std::size_t dim = 0; dim < problem.domain.extents.size(); ++dim) {
    const bool column =
        std::find(problem.n_dims.begin(), problem.n_dims.end(), static_cast<int>(dim)) != problem.n_dims.end();
    const std::int64_t extent = problem.domain.extents[dim];
    work *= static_cast<double>(column ? round_up(extent, std::max<std::int64_t>(1, array.columns)) : extent);
  }
  double cells = static_cast<double>(std::max<std::int64_t>(1, array.count * array.rows * array.columns));
  if (const auto rate = array.rates.find(problem.dtypes[0]); rate != array.rates.end()) cells *= rate->second;
  const Needs needs = needs_of(problem, problem.multicast);
  const double hertz = static_cast<double>(machine.core.clock.hertz);
  double moving = hertz * seconds(needs, static_cast<double>(machine.memory.bytes_per_second), machine);
  if (machine.memory.regions > 1 && machine.memory.placement != "local")
    moving =
        std::max(moving, needs.bytes * hertz /
                             (static_cast<double>(machine.memory.regions * machine.network.region_bytes_per_cycle) *
                              static_cast<double>(machine.network.clock.hertz)));
  return std::max(work / cells, moving) + 1e-3 * (work / cells + moving);
}

/// A core type in use: the machine as it sees it, and the largest part of one of its cores.
struct SortAtWork {
  Share machine;
  mapping::Problem part;
  double cycle = 1;  ///< length of a cycle in cycles of the fastest type
};

std::vector<SortAtWork> sorts_at_work(const mapping::Problem& part, const Share& machine, const CoreSplit& split) {
  std::vector<SortAtWork> result;
  if (machine.sorts.empty()) {
    result.push_back({seen_by(machine, split, part.multicast), part});
    return result;
  }
  std::int64_t first = 0;
  for (std::size_t i = 0; i < machine.sorts.size() && first < split.used(); ++i) {
    const Share own = machine.of_sort(i);
    mapping::Problem largest = part;
    for (const CoreSplit::DimSplit& cut : split.parts)
      if (!cut.stretches.empty())
        largest.domain.extents[static_cast<std::size_t>(cut.dim)] = std::min(cut.stretches[i].each, cut.whole);
    const double cycle = static_cast<double>(machine.core.clock.hertz) / static_cast<double>(own.core.clock.hertz);
    result.push_back({seen_by(own, split, part.multicast), std::move(largest), cycle});
    first += machine.sorts[i].core.count;
  }
  return result;
}

/// One core's part: the second part if it is as large as the first and moves more, since the first part is aligned with
/// lanes and padding.
mapping::Problem part_problem(const mapping::Problem& problem, const CoreSplit& split, const Share& machine) {
  mapping::Problem result = problem;
  result.cores = split.used();
  if (split.parts.empty()) return result;
  const std::size_t dims = problem.domain.extents.size();
  result.parts.assign(dims, 1);
  result.first.assign(dims, 0);
  result.least = result.domain.extents;
  for (const CoreSplit::DimSplit& part : split.parts) {
    const auto d = static_cast<std::size_t>(part.dim);
    result.domain.extents[d] = part.chunk;
    result.parts[d] = part.parts;
    result.least[d] = part.least();
    const bool fits = part.chunk % moved_together(problem, machine.layout.tile, part.dim) == 0;
    if (part.stretches.empty() && (part.parts > 2 || !fits)) result.first[d] = part.chunk;
    if (split.counted && !part.even()) result.outside_contraction.push_back(part.dim);
  }
  result.multicast = promises_multicast(machine, result, split);
  return result;
}

/// The nest of a larger part, limited to the extents of a smaller one.
mapping::Nest within(mapping::Nest nest, const mapping::Problem& part) {
  for (std::size_t i = 0; i < nest.tiles.size(); ++i) nest.tiles[i] = std::min(nest.tiles[i], part.domain.extents[i]);
  for (std::size_t i = 0; i < nest.sub.size(); ++i) nest.sub[i] = std::min(nest.sub[i], nest.tiles[i]);
  return nest;
}

/// A split of the product, with cycles and bytes of all cores for the nest of its parts.
struct Ranked {
  double cycles = 0, bytes = 0;
  double spread = 0;  ///< balance of work over all cores: 1 if equal
  CoreSplit split;
};

double spread(const CoreSplit& split, std::int64_t cores) {
  double equal_parts = 1;
  for (const CoreSplit::DimSplit& part : split.parts)
    equal_parts *= static_cast<double>(part.whole) / static_cast<double>(part.chunk);
  return std::min(1.0, equal_parts / static_cast<double>(cores));
}

/// Whether the user gave a nest that is not legal for parts of this size.
bool refuses_given(const Context& context, const Kernel& kernel, mapping::Problem part) {
  const auto given = context.options.mappings.find(context.function.ops[static_cast<std::size_t>(kernel.anchor)].name);
  if (given == context.options.mappings.end()) return false;
  part.on_vector = given->second.on_vector;
  return !mapping::legal(part, given->second, context.machine).legal;
}

void price_as(const Context& context, const Kernel& kernel, const mapping::Problem& problem, Effort effort,
              Ranked& way) {
  mapping::Problem part = part_problem(problem, way.split, context.machine);
  const Share seen = seen_by(context.machine, way.split, part.multicast);
  way.cycles = std::numeric_limits<double>::infinity();
  if (refuses_given(context, kernel, part)) return;
  const mapping::Nest nest = product_nest(context, kernel, part, seen, effort);
  // Cores that send to each other wait for the slowest one, which the model of one core misses: 5 % on average.
  const double waiting = part.multicast ? 1.05 : 1;
  way.split.multicast = part.multicast;
  way.cycles = 0;
  for (const SortAtWork& sort : sorts_at_work(part, context.machine, way.split)) {
    const mapping::Nest own = within(nest, sort.part);
    mapping::CostModel model(sort.part, sort.machine);
    const mapping::Cost cost = model.price(own);
    const double walked = !context.machine.sorts.empty() ? mapping::estimated_cycles(sort.part, own, sort.machine)
                          : effort == Effort::full       ? model.cycles(own)
                                                         : model.steps(own);
    way.cycles = std::max(way.cycles, (std::isinf(walked) ? cost.soft : walked) * sort.cycle * waiting);
    way.bytes = static_cast<double>(cost.total_bytes() * way.split.used());
  }
}

/// Prices the split with and without multicast and keeps the faster one.
void price(const Context& context, const Kernel& kernel, const mapping::Problem& problem, Effort effort, Ranked& way) {
  price_as(context, kernel, problem, effort, way);
  if (!way.split.multicast) return;
  Ranked fetched = way;
  fetched.split.multicast = false;
  price_as(context, kernel, problem, effort, fetched);
  if (fetched.cycles <= way.cycles) way = std::move(fetched);
}

/// The best split among those within a factor `alike` of the fastest: far fewer bytes, then fewest idle cores, then
/// fewest bytes. No split if all splits are slower.
const Ranked& best_of(const std::vector<Ranked>& ways, double alike) {
  double least = std::numeric_limits<double>::infinity(), divided = least;
  for (const Ranked& way : ways) {
    least = std::min(least, way.cycles);
    if (!way.split.parts.empty()) divided = std::min(divided, way.cycles);
  }
  for (const Ranked& way : ways)
    if (way.split.parts.empty() && divided > way.cycles) return way;
  const Ranked* best = nullptr;
  for (const Ranked& way : ways) {
    if (way.cycles > alike * least) continue;
    if (!best || way.bytes < 0.8 * best->bytes) {
      best = &way;
      continue;
    }
    const bool better =
        way.spread > 1.01 * best->spread ||
        (way.spread > 0.99 * best->spread &&
         (way.bytes < 0.999 * best->bytes || (way.bytes < 1.001 * best->bytes && way.cycles < best->cycles)));
    if (better && way.bytes < 1.25 * best->bytes) best = &way;
  }
  return *best;
}

}  // namespace

Divided split_along(const Context& context, mapping::Problem& problem, int dim, bool multicast) {
  const Share& machine = context.machine;
  const Share own = machine.sorts.empty() ? machine : machine.of_sort(0);
  const std::int64_t cores = machine.sorts.empty() ? machine.core.count : machine.sorts.front().core.count;
  CoreSplit split;
  for (const CutChoice& choice : cut_choices(context, problem, {})) {
    const CoreSplit::DimSplit part = part_of(choice, cores);
    if (choice.dim == dim && part.parts > split.used()) split.parts = {part};
  }
  split.multicast = multicast;
  problem = part_problem(problem, split, machine);
  split.multicast = problem.multicast;
  return {split, seen_by(own, split, problem.multicast)};
}

Divided split_product(const Context& context, const Kernel& kernel, mapping::Problem& problem,
                      const std::vector<int>& kept, AllowedSplit allowed) {
  const std::int64_t cores = context.machine.core.count;
  if (cores < 2) return {{}, context.machine};
  std::vector<Ranked> ways;
  for (CoreSplit& split : ways_to_cut(context, problem, kept)) {
    const auto uneven = [](const CoreSplit::DimSplit& part) { return !part.even(); };
    if (allowed == AllowedSplit::even && std::any_of(split.parts.begin(), split.parts.end(), uneven)) continue;
    split.multicast = true;  // with multicast if that is faster
    split.counted = allowed == AllowedSplit::counted;
    const mapping::Problem part = part_problem(problem, split, context.machine);
    Ranked way{0, 0, spread(split, cores), std::move(split)};
    for (const SortAtWork& sort : sorts_at_work(part, context.machine, way.split))
      way.cycles = std::max(way.cycles, bound(sort.part, sort.machine) * sort.cycle);
    ways.push_back(std::move(way));
  }
  const auto sooner = [](const Ranked& a, const Ranked& b) {
    return a.cycles != b.cycles ? a.cycles < b.cycles : a.spread > b.spread;
  };
  constexpr std::ptrdiff_t most_mapped = 8;
  const auto alone = [](const Ranked& way) { return way.split.parts.empty(); };
  std::stable_sort(ways.begin(), ways.end(), sooner);
  const auto first = std::find_if(ways.begin(), ways.end(), alone);
  if (first != ways.end() && first - ways.begin() >= most_mapped) std::iter_swap(first, ways.begin() + most_mapped - 1);
  ways.resize(std::min(static_cast<std::size_t>(most_mapped), ways.size()));
  for (Ranked& way : ways) price(context, kernel, problem, Effort::rough, way);
  const Ranked soonest = *std::min_element(ways.begin(), ways.end(), sooner);
  if (!context.machine.sorts.empty()) ways = {soonest};
  std::vector<Ranked> last{best_of(ways, 1.05)};
  std::stable_sort(ways.begin(), ways.end(), sooner);
  constexpr std::size_t most_searched = 4;
  for (const Ranked& way : ways)
    if (last.size() < most_searched && way.cycles < 1.1 * soonest.cycles && !same_parts(way.split, last[0].split))
      last.push_back(way);
  for (Ranked& way : last) price(context, kernel, problem, Effort::full, way);
  const Ranked& best = best_of(last, 1.01);
  problem = part_problem(problem, best.split, context.machine);
  return {best.split, seen_by(context.machine, best.split, problem.multicast)};
}

}  // namespace tilesim::lower
