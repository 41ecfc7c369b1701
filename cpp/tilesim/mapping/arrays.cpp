#include "tilesim/mapping/arrays.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"

namespace tilesim::mapping {

std::int64_t ArrayGrid::used() const {
  std::int64_t product = 1;
  for (const Cut& cut : cuts) product *= cut.parts;
  return product;
}

std::int64_t ArrayGrid::part(std::size_t cut, std::int64_t array) const {
  for (std::size_t i = cuts.size() - 1; i > cut; --i) array /= cuts[i].parts;
  return array % cuts[cut].parts;
}

std::int64_t ArrayGrid::largest(int dim, std::int64_t extent) const {
  for (const Cut& cut : cuts)
    if (cut.dim == dim) return std::min(extent, cut.chunk);
  return extent;
}

int sublane_dim(const Problem& problem) {
  const std::vector<AxisAccess>& axes = problem.domain.operands[0].axes;
  const std::vector<int>& order = problem.minor_to_major[0];
  if (axes.size() > 1) {
    const std::size_t second = order.size() == axes.size() ? static_cast<std::size_t>(order[1]) : axes.size() - 2;
    const std::vector<AxisAccess::Term>& terms = axes[second].terms;
    if (!terms.empty() && std::count(problem.m_dims.begin(), problem.m_dims.end(), terms[0].dim) > 0)
      return terms[0].dim;
  }
  return problem.m_dims.back();
}

namespace {

/// Parts of so many of a dim; no cut where that leaves one part.
void add_cut(std::vector<ArrayGrid::Cut>& cuts, int dim, std::int64_t extent, std::int64_t parts,
             std::int64_t granule) {
  std::int64_t chunk = ceil_div(extent, parts);
  if (chunk > granule) chunk = round_up(chunk, granule);
  if (chunk < extent) cuts.push_back({dim, ceil_div(extent, chunk), chunk});
}

}  // namespace

Descriptor array_work(const Problem& problem, const std::vector<std::int64_t>& tile, const ArrayGrid& grid, int pack,
                      const Share& machine) {
  const auto extent = [&](int dim) { return grid.largest(dim, tile[static_cast<std::size_t>(dim)]); };
  const auto product = [&](const std::vector<int>& dims) {
    std::int64_t count = 1;
    for (int dim : dims) count *= extent(dim);
    return count;
  };
  Descriptor d;
  d.kind = ComputeKind::mma;
  d.dtype = problem.dtypes[0];
  d.second = problem.dtypes[1];
  d.batch = product(problem.batch_dims);
  d.m = product(problem.m_dims);
  d.n = product(problem.n_dims);
  d.k = problem.k_dims.empty() ? 1 : extent(problem.k_dims.back()) * (pack < 0 ? 1 : extent(pack));
  d.k_outer = product(problem.k_dims) / std::max<std::int64_t>(1, d.k);
  if (machine.layout.tile.size() == 2 && !problem.m_dims.empty()) {
    const std::int64_t inner = extent(sublane_dim(problem));
    d.m = d.m / std::max<std::int64_t>(1, inner) * round_up(inner, machine.layout.tile[0]);
  }
  return d;
}

ArrayGrid array_grid(const Problem& problem, const Nest& nest, const Share& machine, ClosedForm& latency) {
  const ArraySpec& array = machine.core.array;
  if (array.count < 2 || problem.on_vector) return {};
  std::vector<std::int64_t> tile(nest.tiles.size());
  for (std::size_t d = 0; d < tile.size(); ++d) tile[d] = sub_of(problem, nest, d);
  const auto size = [&](int dim) { return tile[static_cast<std::size_t>(dim)]; };
  struct Choice {
    int dim;
    std::int64_t granule;
  };
  std::vector<Choice> choices;
  const auto add = [&](const std::vector<int>& dims, std::int64_t innermost) {
    for (int dim : dims)
      if (size(dim) > 1) choices.push_back({dim, dim == dims.back() ? innermost : 1});
  };
  add(problem.n_dims, array.columns);
  add(problem.m_dims, machine.layout.tile.size() == 2 ? machine.layout.tile[0] : 1);
  add(problem.batch_dims, 1);
  ArrayGrid best, next;
  std::int64_t least = latency.latency(array_work(problem, tile, best, nest.pack, machine), {false, true}).busy;
  const auto consider = [&] {
    const std::int64_t used = next.used();
    if (used < 2 || used > array.count) return;
    const std::int64_t busy = latency.latency(array_work(problem, tile, next, nest.pack, machine), {false, true}).busy;
    if (busy > least || (busy == least && used >= best.used())) return;
    least = busy;
    best = next;
  };
  for (std::size_t i = 0; i < choices.size(); ++i)
    for (std::int64_t parts = 2; parts <= array.count; ++parts) {
      next.cuts.clear();
      add_cut(next.cuts, choices[i].dim, size(choices[i].dim), parts, choices[i].granule);
      if (next.cuts.empty() || next.cuts[0].parts < parts) continue;
      consider();
      for (std::size_t j = 0; j < choices.size() && parts * 2 <= array.count; ++j) {
        if (j == i) continue;
        next.cuts.resize(1);
        add_cut(next.cuts, choices[j].dim, size(choices[j].dim), array.count / parts, choices[j].granule);
        if (next.cuts.size() == 2) consider();
      }
    }
  return best;
}

}  // namespace tilesim::mapping
