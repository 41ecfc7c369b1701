// Sub-tiles: a tile is loaded, multiplied and stored in pieces, so that the array starts on the first piece while the
// others arrive. Pieces of a version are committed in order of use.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

using program::Block;

bool depends_on(const Access& access, int dim) {
  for (const AxisAccess& axis : access.axes)
    for (const AxisAccess::Term& term : axis.terms)
      if (term.dim == dim) return true;
  return false;
}

std::int64_t ProductLowering::piece_trips(int dim) const {
  const auto d = static_cast<std::size_t>(dim);
  return ceil_div(mapping::tile_of(problem_, nest_, d), mapping::sub_of(problem_, nest_, d));
}

Expr ProductLowering::piece_start(int dim) const {
  const auto d = static_cast<std::size_t>(dim);
  return Expr::symbol("s_" + domain_.names[d]) * Expr(mapping::sub_of(problem_, nest_, d));
}

bool ProductLowering::arrives_in_pieces(int index) const {
  return plan_.buffers[static_cast<std::size_t>(index)].pieces > 1;
}

/// Number of the current piece, in loop order.
Expr ProductLowering::piece_number(const std::vector<int>& dims) const {
  Expr number = 0;
  for (int dim : dims)
    number = number * Expr(piece_trips(dim)) + Expr::symbol("s_" + domain_.names[static_cast<std::size_t>(dim)]);
  return number;
}

/// Condition: the current piece has elements; a ragged tile has fewer pieces.
Expr ProductLowering::some_elements(const std::vector<int>& dims) const {
  Expr some = 1;
  for (int dim : dims) some = logical_and(some, less(Expr(0), extent(dim)));
  return some;
}

Expr ProductLowering::piece_offset(const Access& access, const std::vector<std::int64_t>& strides) const {
  Expr offset = 0;
  for (std::size_t axis = 0; axis < access.axes.size(); ++axis)
    for (const AxisAccess::Term& term : access.axes[axis].terms)
      if (at_piece_.count(term.dim)) offset = offset + piece_start(term.dim) * Expr(term.coefficient * strides[axis]);
  return offset;
}

void ProductLowering::wrap_pieces(const std::vector<int>& dims, Block body, Block& block) const {
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    Block inner = std::move(body);
    body.clear();
    body.push_back(
        loop("s_" + domain_.names[static_cast<std::size_t>(*dim)], Expr(piece_trips(*dim)), std::move(inner)));
  }
  std::move(body.begin(), body.end(), std::back_inserter(block));
}

namespace {

/// Appends `body` under a condition.
void guarded(const Expr& condition, Block body, Block& block) {
  if (condition.is_constant() && condition.value() != 0)
    std::move(body.begin(), body.end(), std::back_inserter(block));
  else
    block.push_back(on("", program::If{condition, std::move(body), {}}));
}

}  // namespace

/// Loads slices of the contraction one after the other, so that pieces that one product multiplies arrive together.
void ProductLowering::load_in_pieces(const std::vector<int>& operands, Block& block) {
  bool fetched[2] = {false, false};
  for (int index : operands) fetched[index] = true;
  const mapping::PieceOrder order = mapping::piece_order(problem_, plan_.cut, fetched);
  Block slices;
  for (int index : operands) {
    const Operand& operand = operands_[index];
    const Access& access = domain_.operands[static_cast<std::size_t>(index)];
    const mapping::KernelPlan::TileRing& buffer = plan_.buffers[static_cast<std::size_t>(index)];
    const std::vector<int>& dims = buffer.cut;
    at_piece_.insert(dims.begin(), dims.end());
    std::vector<Expr> from, size;
    bool leaves_tensor = false;
    for (const AxisAccess& axis : access.axes) {
      from.push_back(axis_start(axis));
      size.push_back(axis_extent(axis) + Expr(buffer.along[size.size()]));
      leaves_tensor |= axis.may_leave;
    }
    Block piece, load;
    for (program::Transfer& transfer : transfers_of(index, from, size)) {
      transfer.offset = transfer.offset + piece_offset(access, operand.slot_strides);
      if (leaves_tensor) transfer.fill = 0.0;
      load.push_back(statement(program::Load{std::move(transfer)}));
    }
    if (skips()) load = where_left(is_needed(index), std::move(load));
    guarded(some_elements(dims), std::move(load), piece);
    at_piece_.clear();
    wrap_pieces(order.own[static_cast<std::size_t>(index)], std::move(piece), slices);
  }
  wrap_pieces(order.shared, std::move(slices), block);
}

/// Multiplies each pair of pieces as soon as both are loaded; the last slice of the contraction completes the sums.
void ProductLowering::multiply_in_pieces(Block& block) {
  at_piece_.insert(plan_.cut.begin(), plan_.cut.end());
  Block piece, product;
  emit_arrays(product);
  if (skips()) product = where_left(is_left(), std::move(product));
  guarded(some_elements(plan_.cut), std::move(product), piece);
  if (results_in_pieces() && !skips()) guarded(last_of_sums(), {complete("c")}, piece);
  at_piece_.clear();
  wrap_pieces(plan_.cut, std::move(piece), block);
}

/// Condition: this step completes the sums of its piece of the result.
Expr ProductLowering::last_of_sums() const {
  Expr last = 1;
  for (int dim : nest_.order)
    if (loops(dim) && domain_.reduction[static_cast<std::size_t>(dim)])
      last = logical_and(
          last, equal(Expr::symbol("i_" + domain_.names[static_cast<std::size_t>(dim)]), Expr(trips(dim) - 1)));
  for (int dim : plan_.cut)
    if (domain_.reduction[static_cast<std::size_t>(dim)])
      last = logical_and(
          last, equal(Expr::symbol("s_" + domain_.names[static_cast<std::size_t>(dim)]), Expr(piece_trips(dim) - 1)));
  return last;
}

/// Processes each piece of the result once its sums are complete; a reduction in the epilogue needs the full tile.
void ProductLowering::finish_in_pieces(Block& block) {
  std::int64_t all = unit_.grid.used();
  for (int dim : cut_results()) all *= piece_trips(dim);
  if (skips()) block.push_back(complete("c", all / unit_.grid.used()));  // the contraction's last tile may be skipped
  if (columns_of_zeros_) fill_zero_sums(block);
  // Arrays that skip tiles commit all pieces together, after their last product.
  const std::int64_t together = columns_of_zeros_ ? all + 1 : skips() ? all : 0;
  const bool reduces =
      std::any_of(outputs_.begin(), outputs_.end(), [](const Output& output) { return output.reduced_by != nullptr; });
  if (reduces) {
    block.push_back(counted("c", together > 0 ? together : all));
    return emit_results(block);
  }
  const std::vector<int> cut = cut_results();
  at_piece_.insert(cut.begin(), cut.end());
  Block piece, results;
  // Waits for an empty piece too: its commit must be visible before the tile is released.
  const Expr pieces = together > 0 ? Expr(together) : (piece_number(cut) + Expr(1)) * Expr(unit_.grid.used());
  piece.push_back(counted("c", pieces));
  emit_results(results);
  guarded(some_elements(cut), std::move(results), piece);
  at_piece_.clear();
  wrap_pieces(cut, std::move(piece), block);
}

}  // namespace tilesim::lower
