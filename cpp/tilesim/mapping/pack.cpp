// Packed contraction: one further contracted loop lies over the array's rows together with the innermost one.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/nest.hpp"

namespace tilesim::mapping {

namespace {

/// The axis of the first operand that a dim runs along, and with which coefficient.
struct Place {
  int axis = -1;
  std::int64_t coefficient = 0;
  bool alone = false;
  int axes = 0;  ///< that it appears on
};

Place place_of(const Problem& problem, int dim) {
  Place place;
  const std::vector<AxisAccess>& axes = problem.domain.operands[0].axes;
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    for (const AxisAccess::Term& term : axes[axis].terms)
      if (term.dim == dim)
        place = {static_cast<int>(axis), term.coefficient, axes[axis].terms.size() == 1, place.axes + 1};
  return place;
}

/// What forbids packing whatever the tiles are; empty: nothing.
std::string never_packed(const Problem& problem, const Share& machine) {
  if (problem.on_vector) return "the vector unit has no rows to pack a contraction over";
  if (machine.core.array.dataflow == Dataflow::output_stationary)
    return "the contraction streams through output-stationary arrays: there are no rows to pack it over";
  if (machine.layout.tile.size() == 2)
    return "tiles arrive with the minor axis over the lanes, as memory holds them: packing would shuffle lanes";
  if (bits(problem.dtypes[0]) < 8) return "rows of elements smaller than a byte cannot begin at any element";
  return {};
}

}  // namespace

std::vector<int> packed_axes(const Problem& problem, int pack) {
  std::vector<int> order;
  const int minor = place_of(problem, problem.k_dims.back()).axis, second = place_of(problem, pack).axis;
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
  const Place outer_place = place_of(problem, nest.pack), inner_place = place_of(problem, k.back());
  if (!inner_place.alone || inner_place.coefficient != 1 || inner_place.axes != 1)
    return channels + " shares its axis with another loop (as channels in groups do): elements along " + name +
           " are not its neighbours";
  if (outer_place.axes != 1 || outer_place.axis == inner_place.axis)
    return name + " does not run along one other axis of the first operand";
  const AxisAccess& axis = problem.domain.operands[0].axes[static_cast<std::size_t>(outer_place.axis)];
  if (outer_place.coefficient != 1 || axis.divisor != 1)
    return "dilation along " + name + ": the elements of a window are not neighbours";
  const std::int64_t tile = tile_of(problem, nest, inner);
  if (problem.domain.extents[inner] % tile != 0 || sub_of(problem, nest, inner) != tile)
    return "packing " + name + " needs equal tiles of " + channels + ", without pieces: a shorter one leaves gaps";
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
  double best = 1;  // passes, as a share of those without packing
  int choice = -1;
  for (std::size_t i = k.size() - 1; i-- > 0;) {  // inner loops first
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

}  // namespace tilesim::mapping
