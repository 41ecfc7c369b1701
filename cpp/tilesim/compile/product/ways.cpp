#include "tilesim/compile/product/ways.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"

namespace tilesim::lower {

namespace {

/// Whether the dim shares an axis of the result with a dim of longer steps: a range of the axis then spans several
/// parts.
bool lies_inside(const mapping::Problem& problem, int dim) {
  for (const AxisAccess& axis : problem.domain.results[0].axes)
    for (const AxisAccess::Term& own : axis.terms)
      for (const AxisAccess::Term& other : axis.terms)
        if (own.dim == dim && other.dim != dim && problem.domain.extents[static_cast<std::size_t>(other.dim)] > 1 &&
            std::abs(other.coefficient) >= std::abs(own.coefficient))
          return true;
  return false;
}

}  // namespace

CoreSplit::DimSplit part_of(const CutChoice& choice, std::int64_t wanted) {
  std::int64_t chunk = ceil_div(choice.extent, wanted);
  if (chunk > choice.granule) chunk = round_up(chunk, choice.granule);
  return {choice.dim, ceil_div(choice.extent, chunk), chunk, choice.extent};
}

std::int64_t moved_together(const mapping::Problem& problem, const Shape& tile, int dim) {
  std::int64_t granule = 1;
  if (tile.size() != 2) return granule;
  for (std::size_t operand = 0; operand < 3; ++operand) {
    const Access& access = operand < 2 ? problem.domain.operands[operand] : problem.domain.results[0];
    const std::vector<int>& order = problem.minor_to_major[operand];
    const std::size_t rank = access.axes.size();
    for (std::size_t i = 0; i < 2 && rank >= 2; ++i) {
      const std::size_t axis = order.size() == rank ? static_cast<std::size_t>(order[i]) : rank - 1 - i;
      for (const AxisAccess::Term& term : access.axes[axis].terms)
        if (term.dim == dim) granule = std::max(granule, tile[1 - i]);
    }
  }
  return granule;
}

std::vector<CutChoice> cut_choices(const Context& context, const mapping::Problem& problem,
                                   const std::vector<int>& kept) {
  std::vector<CutChoice> result;
  const auto add = [&](const std::vector<int>& dims, std::int64_t innermost) {
    for (int dim : dims) {
      const std::int64_t extent = problem.domain.extents[static_cast<std::size_t>(dim)];
      if (extent < 2 || dim == problem.siblings || lies_inside(problem, dim) ||
          std::find(kept.begin(), kept.end(), dim) != kept.end())
        continue;
      const std::int64_t together = moved_together(problem, context.machine.layout.tile, dim);
      result.push_back({dim, extent, std::max(dim == dims.back() ? innermost : 1, together)});
      // Also parts that leave array columns idle: more cores have more memory and network bandwidth.
      if (result.back().granule > together) result.push_back({dim, extent, together});
    }
  };
  add(problem.batch_dims, 1);
  add(problem.m_dims, 1);
  add(problem.n_dims, problem.on_vector ? 1 : std::max<std::int64_t>(1, context.machine.core.array.columns));
  return result;
}

namespace {

/// Splits the dim in proportion to the cores' speeds.
CoreSplit::DimSplit weighted_part(const CutChoice& choice, const Share& machine, const std::vector<double>& speeds) {
  CoreSplit::DimSplit part{choice.dim, 0, 0, choice.extent};
  double all = 0;
  for (std::size_t i = 0; i < speeds.size(); ++i) all += speeds[i] * static_cast<double>(machine.sorts[i].core.count);
  std::int64_t first = 0, at = 0;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const std::int64_t count = machine.sorts[i].core.count;
    const double share = static_cast<double>(choice.extent) * speeds[i] / all;
    std::int64_t chunk = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(share)));
    if (chunk > choice.granule) chunk = round_up(chunk, choice.granule);
    part.stretches.push_back({first, count, chunk});
    if (at < choice.extent) {
      part.parts = first + std::min(count, ceil_div(choice.extent - at, chunk));
      part.chunk = std::max(part.chunk, std::min(chunk, choice.extent - at));
    }
    first += count;
    at += count * chunk;
  }
  return part;
}

/// All splits of at most two dims into at most `cores` parts.
std::vector<CoreSplit> candidates(const std::vector<CutChoice>& dims, std::int64_t cores) {
  std::vector<CoreSplit> result{CoreSplit{}};
  const auto add = [&](CoreSplit split) {
    std::erase_if(split.parts, [](const CoreSplit::DimSplit& part) { return part.parts < 2; });
    const auto known = [&](const CoreSplit& other) { return same_parts(split, other); };
    if (std::none_of(result.begin(), result.end(), known)) result.push_back(std::move(split));
  };
  const auto fewer = [](std::int64_t count) { return count % 2 == 0 ? count / 2 : count - 1; };
  for (std::size_t i = 0; i < dims.size(); ++i)
    for (std::int64_t all = cores; all > 1; all = fewer(all)) {
      add({{part_of(dims[i], all)}});
      for (std::size_t j = i + 1; j < dims.size(); ++j)
        for (std::int64_t first = all; first > 1; first = fewer(first))
          if (all / first > 1 && dims[i].dim != dims[j].dim)
            add({{part_of(dims[i], first), part_of(dims[j], all / first)}});
    }
  return result;
}

}  // namespace

bool same_parts(const CoreSplit& a, const CoreSplit& b) {
  return std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                    [](const auto& x, const auto& y) { return x.dim == y.dim && x.chunk == y.chunk; });
}

std::vector<CoreSplit> ways_to_cut(const Context& context, const mapping::Problem& problem,
                                   const std::vector<int>& kept) {
  const Share& machine = context.machine;
  const std::vector<CutChoice> dims = cut_choices(context, problem, kept);
  std::vector<CoreSplit> result = candidates(dims, machine.core.count);
  if (machine.sorts.empty()) return result;
  // Either the first core type only, or all in proportion to their speeds.
  for (CoreSplit& split : candidates(dims, machine.sorts.front().core.count)) result.push_back(std::move(split));
  const std::vector<double> speeds = product_speeds(machine, problem.dtypes[0], problem.on_vector);
  for (const CutChoice& choice : dims)
    if (CoreSplit::DimSplit part = weighted_part(choice, machine, speeds); part.parts > 1)
      result.push_back({{std::move(part)}});
  return result;
}

}  // namespace tilesim::lower
