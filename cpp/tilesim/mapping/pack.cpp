// Packed contraction: further contracted loops share the array's rows with the innermost loop, because of the tile's
// layout or after the cross-lane unit has unfolded windows.
#include <algorithm>
#include <cstdlib>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/nest.hpp"
#include "tilesim/mapping/plan.hpp"
#include "tilesim/mapping/unfolding.hpp"
#include "tilesim/tile/movement.hpp"

namespace tilesim::mapping {

namespace {

/// The axis of the first operand on which a dim runs, and its coefficient.
struct DimAxis {
  int axis = -1;
  std::int64_t coefficient = 0;
  bool alone = false;
  int axes = 0;  ///< number of axes with this dim
};

DimAxis axis_of(const Problem& problem, int dim) {
  DimAxis place;
  const std::vector<AxisAccess>& axes = problem.domain.operands[0].axes;
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    for (const AxisAccess::Term& term : axes[axis].terms)
      if (term.dim == dim)
        place = {static_cast<int>(axis), term.coefficient, axes[axis].terms.size() == 1, place.axes + 1};
  return place;
}

/// Why no tile sizes permit packing; empty if some may.
std::string never_packed(const Problem& problem, const Share& machine) {
  if (problem.on_vector) return "the vector unit has no rows to pack a contraction over";
  if (machine.core.array.dataflow == Dataflow::output_stationary)
    return "the contraction streams through output-stationary arrays, which have no rows to pack it over";
  if (machine.layout.tile.size() == 2)
    return "tiles arrive with the minor axis over the lanes, as memory holds them: packing would shuffle lanes";
  if (bits(problem.dtypes[0]) < 8) return "rows of elements smaller than a byte cannot begin at any element";
  return {};
}

}  // namespace

std::vector<int> packed_axes(const Problem& problem, int pack) {
  std::vector<int> order;
  const int minor = axis_of(problem, problem.k_dims.back()).axis, second = axis_of(problem, pack).axis;
  for (int axis = 0; axis < static_cast<int>(problem.domain.operands[0].axes.size()); ++axis)
    if (axis != minor && axis != second) order.push_back(axis);
  order.push_back(second);
  order.push_back(minor);
  return order;
}

std::string wrong_pack(const Problem& problem, const Nest& nest, const Share& machine) {
  if (nest.pack < 0) return {};
  const std::vector<int>& k = problem.k_dims;
  const auto found = std::find(k.begin(), k.end(), nest.pack);
  if (found == k.end() || found + 1 == k.end())
    return "only a contracted loop outside the innermost one can be packed with it";
  if (nest.on_vector) return "the vector unit has no rows to pack a contraction over";
  if (std::string never = never_packed(problem, machine); !never.empty()) return never;
  const auto inner = static_cast<std::size_t>(k.back());
  const std::string &name = problem.domain.names[static_cast<std::size_t>(nest.pack)],
                    &channels = problem.domain.names[inner];
  const DimAxis outer_place = axis_of(problem, nest.pack), inner_place = axis_of(problem, k.back());
  if (!inner_place.alone || inner_place.coefficient != 1 || inner_place.axes != 1)
    return channels + " shares its axis with another loop (as channels in groups do): elements along " + name +
           " are not adjacent";
  if (outer_place.axes != 1 || outer_place.axis == inner_place.axis)
    return name + " does not run along one other axis of the first operand";
  const AxisAccess& axis = problem.domain.operands[0].axes[static_cast<std::size_t>(outer_place.axis)];
  if (outer_place.coefficient != 1 || axis.divisor != 1)
    return "dilation along " + name + ": the elements of a window are not adjacent";
  const std::int64_t tile = tile_of(problem, nest, inner);
  if (problem.domain.extents[inner] % tile != 0 || sub_of(problem, nest, inner) != tile)
    return "packing " + name + " needs equal tiles of " + channels + ", without remainder: a shorter one leaves gaps";
  if (const std::vector<int> order = packed_axes(problem, nest.pack);
      problem.computed[0] && !std::is_sorted(order.begin(), order.end()))
    return "the first operand is computed on chip, in its own order of axes";
  return {};
}

namespace {

Nest with_packed_loop(const Problem& problem, Nest nest, const Share& machine) {
  nest.pack = -1;
  nest.unfold = 0;
  const std::vector<int>& k = problem.k_dims;
  if (k.size() < 2 || !never_packed(problem, machine).empty()) return nest;
  const auto tile = [&](int dim) { return sub_of(problem, nest, static_cast<std::size_t>(dim)); };
  const std::int64_t rows = machine.core.array.rows;
  const std::int64_t each = ceil_div(tile(k.back()), rows);
  double best = 1;  // passes with packing / passes without
  int choice = -1;
  for (std::size_t i = k.size() - 1; i-- > 0;) {  // innermost loops first
    if (tile(k[i]) < 2) continue;
    const double share =
        static_cast<double>(ceil_div(tile(k[i]) * tile(k.back()), rows)) / static_cast<double>(tile(k[i]) * each);
    if (share >= best) continue;
    nest.pack = k[i];
    if (!wrong_pack(problem, nest, machine).empty()) continue;
    best = share;
    choice = k[i];
  }
  nest.pack = choice;
  return nest;
}

}  // namespace

Nest packed(const Problem& problem, Nest nest, const Share& machine) {
  return unfolded(problem, with_packed_loop(problem, std::move(nest), machine), machine);
}

std::vector<int> packable(const Problem& problem, const Share& machine) {
  std::vector<int> dims;
  Nest nest{problem.domain.extents, {}, {}};
  for (int dim : problem.k_dims) {
    nest.pack = dim;
    if (problem.domain.extents[static_cast<std::size_t>(dim)] > 1 && wrong_pack(problem, nest, machine).empty())
      dims.push_back(dim);
  }
  return dims;
}

namespace {

std::size_t unfoldable(const Problem& problem) { return problem.k_dims.size(); }

/// The contracted dims that share the rows, in the contraction's order.
std::vector<int> unfolded_dims(const Problem& problem, std::int64_t count) {
  return {problem.k_dims.end() - count, problem.k_dims.end()};
}

bool lies_beside(const std::vector<int>& dims, int dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

std::int64_t unfolded_extent(const UnfoldedAxis& axis, const Problem& problem, const Nest& nest) {
  std::int64_t extent = 1;
  for (const AxisAccess::Term& term : axis.access.terms)
    extent += std::abs(term.coefficient) * (tile_of(problem, nest, static_cast<std::size_t>(term.dim)) - 1);
  return extent;
}

/// Why no tile sizes permit unfolding; empty if some may.
std::string never_unfolded(const Problem& problem, const Share& machine) {
  if (problem.on_vector) return "the vector unit has no rows to unfold windows over";
  if (machine.core.array.dataflow == Dataflow::output_stationary)
    return "the contraction streams through output-stationary arrays, which have no rows to unfold windows over";
  if (machine.core.cross_lane.bytes_per_cycle <= 0) return "the machine has no cross-lane unit to unfold windows";
  if (bits(problem.dtypes[0]) < 8) return "elements smaller than a byte cannot be moved one by one";
  if (problem.computed[0]) return "the first operand is computed on chip";
  if (problem.counted_by_data >= 0) return "the number of rows depends on data";
  return {};
}

/// Array passes of one tile if the last `unfold` contracted dims share the rows (1: no unfolding).
std::int64_t unfolded_passes(const Problem& problem, const Nest& nest, std::int64_t rows, std::int64_t unfold) {
  const std::vector<int>& k = problem.k_dims;
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < k.size(); ++i) {
    const std::int64_t tile = tile_of(problem, nest, static_cast<std::size_t>(k[i]));
    const bool beside = k[i] == nest.pack || i + static_cast<std::size_t>(unfold) >= k.size();
    (beside ? inner : outer) *= tile;
  }
  return outer * ceil_div(inner, rows);
}

/// Array cycles per pass, summed over all tiles.
double unfolded_pass_cycles(const Problem& problem, const Nest& nest, const Share& machine) {
  const ArraySpec& array = machine.core.array;
  double tiles = 1;
  for (std::size_t d = 0; d < nest.tiles.size(); ++d)
    tiles *= static_cast<double>(ceil_div(problem.domain.extents[d], nest.tiles[d]));
  const auto product = [&](const std::vector<int>& dims) {
    std::int64_t count = 1;
    for (int dim : dims) count *= tile_of(problem, nest, static_cast<std::size_t>(dim));
    return count;
  };
  const auto rate = array.rates.find(problem.dtypes[0]);
  const double slower = 1 / (rate == array.rates.end() || rate->second <= 0 ? 1 : rate->second);
  const auto one = [&](const std::vector<int>& streamed, const std::vector<int>& across) {
    return static_cast<double>(ceil_div(product(across), array.columns)) *
           std::max(slower * static_cast<double>(product(streamed)), static_cast<double>(array.rows));
  };
  double pass = one(problem.m_dims, problem.n_dims);
  if (machine.layout.tile.empty()) pass = std::min(pass, one(problem.n_dims, problem.m_dims));
  return tiles * static_cast<double>(product(problem.batch_dims)) * pass / static_cast<double>(array.count);
}

}  // namespace

std::vector<UnfoldedAxis> unfolded_axes(const Problem& problem, std::int64_t count) {
  const std::vector<int> beside = unfolded_dims(problem, count);
  std::vector<UnfoldedAxis> axes, rows(beside.size());
  const std::vector<AxisAccess>& own = problem.domain.operands[0].axes;
  for (std::size_t axis = 0; axis < own.size(); ++axis) {
    const bool apart = std::any_of(own[axis].terms.begin(), own[axis].terms.end(),
                                   [&](const AxisAccess::Term& term) { return lies_beside(beside, term.dim); });
    if (!apart) {
      axes.push_back({axis, 1, own[axis], false});
      continue;
    }
    for (const AxisAccess::Term& term : own[axis].terms) {
      UnfoldedAxis one{axis, term.coefficient, {}, true};
      one.access.terms.push_back({term.dim, 1});
      const auto row = std::find(beside.begin(), beside.end(), term.dim);
      (row == beside.end() ? axes.emplace_back() : rows[static_cast<std::size_t>(row - beside.begin())]) = one;
    }
  }
  axes.insert(axes.end(), rows.begin(), rows.end());
  return axes;
}

Shape unfolded_extents(const Problem& problem, const Nest& nest) {
  Shape extents;
  for (const UnfoldedAxis& axis : unfolded_axes(problem, nest.unfold))
    extents.push_back(unfolded_extent(axis, problem, nest));
  return extents;
}

namespace {

std::int64_t bounded_count(const Shape& extents) {
  constexpr std::int64_t most = std::int64_t{1} << 56;
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents)
    elements = extent > 0 && elements > most / extent ? most : elements * extent;
  return elements;
}

}  // namespace

std::int64_t unfolded_elements(const Problem& problem, const Nest& nest) {
  return bounded_count(unfolded_extents(problem, nest));
}

Descriptor unfolding(const Problem& problem, const Nest& nest) {
  constexpr std::int64_t most = std::int64_t{1} << 40;  // larger tiles fit no memory, and their strides might overflow
  const std::vector<UnfoldedAxis> axes = unfolded_axes(problem, nest.unfold);
  Shape own, unfolded;
  for (const UnfoldedAxis& axis : axes) unfolded.push_back(unfolded_extent(axis, problem, nest));
  if (const std::int64_t elements = bounded_count(unfolded); elements > most) {
    Descriptor moved = permute_descriptor(problem.dtypes[0], {}, false);
    return moved.elements = elements, moved;
  }
  for (const AxisAccess& axis : problem.domain.operands[0].axes) {
    own.push_back(axis.window);
    for (const AxisAccess::Term& term : axis.terms)
      own.back() += std::abs(term.coefficient) * (tile_of(problem, nest, static_cast<std::size_t>(term.dim)) - 1);
  }
  const Shape from = row_major_strides(own), to = row_major_strides(unfolded);
  std::vector<ViewDim> in, out;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    in.push_back({unfolded[i], axes[i].coefficient * from[axes[i].axis]});
    out.push_back({unfolded[i], to[i]});
  }
  return permute_descriptor(problem.dtypes[0], move_of(in, out), false);
}

std::string wrong_unfold(const Problem& problem, const Nest& nest, const Share& machine) {
  if (nest.unfold == 0) return {};
  if (nest.unfold < 2 || nest.unfold > static_cast<std::int64_t>(unfoldable(problem)))
    return std::to_string(nest.unfold) + " contracted loops are unfolded; 2 to " + std::to_string(unfoldable(problem)) +
           " are possible here";
  if (nest.on_vector) return "the vector unit has no rows to unfold windows over";
  if (std::string never = never_unfolded(problem, machine); !never.empty()) return never;
  if (nest.pack >= 0) return "a loop cannot be packed while windows are unfolded";
  if (!nest.sub.empty()) return "unfolded tiles cannot have sub-tiles";
  const std::vector<int> beside = unfolded_dims(problem, nest.unfold);
  for (std::size_t i = 1; i < beside.size(); ++i)
    if (const auto d = static_cast<std::size_t>(beside[i]); nest.tiles[d] < problem.domain.extents[d])
      return "unfolding needs the full extent of " + problem.domain.names[d] + " in a tile: a shorter one leaves gaps";
  for (int dim : beside) {
    int axes = 0;
    for (const AxisAccess& axis : problem.domain.operands[0].axes)
      for (const AxisAccess::Term& term : axis.terms) {
        if (term.dim != dim) continue;
        ++axes;
        if (axis.divisor != 1 ||
            std::any_of(axis.terms.begin(), axis.terms.end(), [](const auto& t) { return t.coefficient < 0; }))
          return problem.domain.names[static_cast<std::size_t>(dim)] + " does not run forward over stored elements";
      }
    if (axes != 1)
      return problem.domain.names[static_cast<std::size_t>(dim)] + " does not run along one axis of the first operand";
  }
  return {};
}

double unfolding_cycles(const Problem& problem, const Nest& nest, const Share& machine) {
  if (nest.unfold == 0) return 0;
  double elements = 1;
  for (const UnfoldedAxis& axis : unfolded_axes(problem, nest.unfold)) {
    double tiles = 1, whole = 0;
    for (const AxisAccess::Term& term : axis.access.terms)
      tiles *= static_cast<double>(ceil_div(problem.domain.extents[static_cast<std::size_t>(term.dim)],
                                            nest.tiles[static_cast<std::size_t>(term.dim)]));
    for (const AxisAccess::Term& term : axis.access.terms) {
      const auto d = static_cast<std::size_t>(term.dim);
      const auto trips = static_cast<double>(ceil_div(problem.domain.extents[d], nest.tiles[d]));
      whole += static_cast<double>(std::abs(term.coefficient)) *
               (static_cast<double>(problem.domain.extents[d]) - trips) * (tiles / trips);
    }
    elements *= tiles + whole;
  }
  const OwnDims own = own_dims(problem);
  elements *= static_cast<double>(plan_loops(problem, nest, own).fetches(0, own).repeats);
  // The cycles are proportional to the elements of a full tile.
  const Descriptor whole = unfolding(problem, nest);
  return elements * static_cast<double>(ClosedForm(machine).latency(whole, {}, no_source()).busy) /
         static_cast<double>(std::max<std::int64_t>(1, whole.elements));
}

Nest unfolded(const Problem& problem, Nest nest, const Share& machine) {
  nest.unfold = 0;
  const LoweringProfile& profile = machine.whole.lowering;  // with native lowering, the profile decides
  const std::vector<int>& k = problem.k_dims;
  if (k.size() < 2 || !nest.sub.empty() || profile.convolution || profile.product) return nest;
  std::int64_t window = 1;
  for (std::size_t i = 0; i + 1 < k.size(); ++i) window *= tile_of(problem, nest, static_cast<std::size_t>(k[i]));
  if (window < 2 || !never_unfolded(problem, machine).empty()) return nest;
  const std::int64_t rows = machine.core.array.rows;
  std::int64_t least = unfolded_passes(problem, nest, rows, 1);
  const double pass = unfolded_pass_cycles(problem, nest, machine);
  double best = pass * static_cast<double>(least);
  Nest choice = nest;
  nest.pack = -1;
  for (nest.unfold = 2; nest.unfold <= static_cast<std::int64_t>(k.size()); ++nest.unfold) {
    const std::int64_t count = unfolded_passes(problem, nest, rows, nest.unfold);
    if (count >= least || !wrong_unfold(problem, nest, machine).empty()) continue;
    const std::int64_t bytes = packed_bytes(problem.dtypes[0], unfolded_elements(problem, nest));
    if (2 * unfolded_buffers * bytes > machine.core.scratchpad.bytes) continue;
    const double lanes = unfolding_cycles(problem, nest, machine), cycles = pass * static_cast<double>(count);
    if (std::max(lanes, cycles) >= best) continue;
    best = std::max(lanes, cycles);
    least = count;
    choice = nest;
  }
  return choice;
}

}  // namespace tilesim::mapping
