#include "tilesim/compile/vector/line_gathers.hpp"

#include "tilesim/base/shape.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

std::string row(std::size_t axis) { return "r" + std::to_string(axis); }

mapping::Lines lines_by_price(const TiledSpace& tiles, std::size_t dim, const Share& machine) {
  ClosedForm closed_form(machine);
  return mapping::lines_of(tiles.space, tiles.tiles, dim, closed_form);
}

}  // namespace

LineGathers::LineGathers(const TiledSpace& tiles, std::size_t dim, const Share& machine, bool apart)
    : t_(tiles),
      dim_(dim),
      lines_(apart ? mapping::Lines{false, tiles.tiles.size() - 1} : lines_by_price(tiles, dim, machine)) {}

/// Emits `inner` for the lines from axis `first` on, in loops over the axes before it.
template <class Inner>
void LineGathers::over_lines(std::size_t first, Inner inner, Block& block) const {
  const Shape strides = row_major_strides(t_.tiles);
  const auto loops = [&](std::size_t axis) { return axis != dim_ && t_.tiles[axis] > 1; };
  Expr offset = 0;
  for (std::size_t axis = 0; axis < first; ++axis)
    if (loops(axis)) offset = offset + Expr::symbol(row(axis)) * Expr(strides[axis]);
  Block body;
  inner(offset, body);
  for (std::size_t axis = first; axis-- > 0;) {
    if (!loops(axis)) continue;
    Block outer;
    outer.push_back(loop(row(axis), t_.extent[axis], std::move(body)));
    body = std::move(outer);
  }
  std::move(body.begin(), body.end(), std::back_inserter(block));
}

/// Number of points of a tile along the axes from `begin` to `end`.
Expr LineGathers::points(std::size_t begin, std::size_t end) const {
  Expr all = 1;
  for (std::size_t axis = begin; axis < end; ++axis) all = all * t_.extent[axis];
  return all;
}

void LineGathers::join(const std::string& places, const std::string& joined, Block& block) const {
  const std::size_t rank = t_.tiles.size();
  const std::int64_t extent = t_.tiles[dim_];
  std::int64_t before = 1, after = 1;
  for (std::size_t axis = lines_.first; axis < rank; ++axis)
    if (axis != dim_) (axis < dim_ ? before : after) *= t_.tiles[axis];
  const auto joins = [&](const Expr& offset, Block& to) {
    program::VectorOp op;
    op.extents = {points(lines_.first, dim_), Expr(extent)};
    std::vector<program::Dim> dims{{op.extents[0], Expr(extent * after)}, {op.extents[1], Expr(after)}};
    if (after > 1) op.extents.push_back(points(dim_ + 1, rank)), dims.push_back({op.extents[2], Expr(1)});
    const auto all = [&](const std::string& slot) { return View{slot, 0, offset, dims}; };
    op.inputs.push_back(all(places));
    for (const VectorNode& node : mapping::places_nodes(before, extent, after)) op.nodes.push_back({node, 0});
    op.outputs.push_back({static_cast<int>(op.nodes.size()) - 1, all(joined), {}, Combiner::add, 0});
    to.push_back(statement(std::move(op)));
  };
  over_lines(lines_.first, joins, block);
}

void LineGathers::gather(const std::string& in, const std::string& index, const std::string& out, Block& block) const {
  const std::size_t rank = t_.tiles.size();
  const std::int64_t stride = lines_.together ? 1 : row_major_strides(t_.tiles)[dim_];
  const Expr count = lines_.together ? points(lines_.first, rank) : t_.extent[dim_];
  const auto moves = [&](const Expr& offset, Block& to) {
    const auto line = [&](const std::string& slot) { return View{slot, 0, offset, {{count, stride}}}; };
    to.push_back(statement(program::IndexedOp{line(in), line(index), line(out), false, {}}));
  };
  over_lines(lines_.together ? lines_.first : rank, moves, block);
}

}  // namespace tilesim::lower
