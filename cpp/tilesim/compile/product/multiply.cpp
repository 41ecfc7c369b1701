// Emits the compute statements of a tile for the arrays.
#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

/// Extent of an array's part of the tile along a split dim.
Expr ProductLowering::split_extent(std::size_t cut, std::int64_t array) const {
  const auto& [dim, parts, chunk] = unit_.grid.cuts[cut];
  return max(Expr(0), min(Expr(chunk), extent(dim) - Expr(unit_.grid.part(cut, array) * chunk)));
}

View ProductLowering::product_view(const std::string& slot, const Access& access,
                                   const std::vector<std::int64_t>& strides, const std::vector<int>& dims,
                                   std::int64_t array) const {
  View view{slot, 0, 0, {}};
  for (int dim : dims) {
    std::int64_t stride = 0;
    for (std::size_t axis = 0; axis < access.axes.size(); ++axis)
      for (const AxisAccess::Term& term : access.axes[axis].terms)
        if (term.dim == dim) stride += term.coefficient * strides[axis];
    Expr size = extent(dim);
    for (std::size_t cut = 0; cut < unit_.grid.cuts.size(); ++cut) {
      if (unit_.grid.cuts[cut].dim != dim) continue;
      size = split_extent(cut, array);
      view.offset = view.offset + Expr(unit_.grid.part(cut, array) * unit_.grid.cuts[cut].chunk * stride);
    }
    view.dims.push_back({size, stride});
    if (at_piece_.count(dim)) view.offset = view.offset + piece_start(dim) * Expr(stride);
  }
  return view;
}

/// Start of the current window in an accumulator that spans several windows.
Expr ProductLowering::window_offset() const {
  Expr offset = 0;
  for (std::size_t axis = 0; axis < result_dim_.size(); ++axis)
    for (const AxisAccess::Term& term : domain_.results[0].axes[axis].terms)
      if (plan_.is_whole(term.dim))
        offset = offset +
                 (tile_start(term.dim) - split_.base(term.dim)) * Expr(term.coefficient * accumulator_strides_[axis]);
  return offset;
}

void ProductLowering::emit_one_mma(std::int64_t array, Block& block) {
  const mapping::ArrayDims& dims = unit_.dims;
  const auto rows = dims.order.begin() + dims.batch, contraction = rows + dims.rows,
             columns = contraction + dims.contraction;
  const auto join = [](auto first, auto end, auto then, auto last) {
    std::vector<int> all(first, end);
    all.insert(all.end(), then, last);
    return all;
  };
  program::MmaOp mma;
  mma.packed = dims.packed;
  mma.batch_dims = dims.batch;
  mma.m_dims = dims.rows;
  mma.n_dims = dims.columns;
  mma.k_dims = dims.contraction;
  mma.stationary_a = dims.stationary_a;
  mma.a = product_view(operands_[0].slot, domain_.operands[0], operands_[0].slot_strides, {dims.order.begin(), columns},
                       array);
  if (nest_.unfold > 0) {
    Access apart;
    for (const mapping::UnfoldedAxis& axis : mapping::unfolded_axes(problem_, nest_.unfold))
      apart.axes.push_back(axis.access);
    mma.a = product_view(unfolded_slot, apart, row_major_strides(plan_.unfolded.extents), {dims.order.begin(), columns},
                         array);
  }
  mma.b = product_view(operands_[1].slot, domain_.operands[1], operands_[1].slot_strides,
                       join(dims.order.begin(), rows, contraction, dims.order.end()), array);
  if (is_two_of_four(problem_.dtypes[1])) name_neighbours(mma);
  mma.c = product_view("c", domain_.results[0], accumulator_strides_,
                       join(dims.order.begin(), contraction, columns, dims.order.end()), array);
  mma.c.offset = mma.c.offset + window_offset();
  mma.numerics = context_.machine.core.array.numerics;
  const Expr before = skips() ? tiles_before(false) : earlier_sums();
  mma.accumulate = before.is_constant() ? Expr(0) : less(Expr(0), before);
  block.push_back(on("mma" + std::to_string(array), std::move(mma)));
}

/// Adds a contraction dim over the adjacent elements that one element of a 2:4 operand replaces.
void ProductLowering::name_neighbours(program::MmaOp& mma) const {
  const AxisAccess* along = nullptr;
  std::int64_t stride = 1;
  for (std::size_t axis = 0; axis < domain_.operands[0].axes.size(); ++axis)
    if (domain_.operands[0].axes[axis].window > 1)
      along = &domain_.operands[0].axes[axis], stride = operands_[0].slot_strides[axis];
  require(along != nullptr, "a product with a 2:4 operand has no window over the other one");
  mma.a.dims.push_back({Expr(along->window), stride});
  mma.b.dims.insert(mma.b.dims.begin() + mma.batch_dims + mma.k_dims, {Expr(along->window), 0});
  ++mma.k_dims;
  mma.packed = 2;
}

/// An expression that is positive once an earlier reduction step has written the sum.
Expr ProductLowering::earlier_sums() const {
  Expr before = 0;
  for (int dim : nest_.order)
    if (loops(dim) && domain_.reduction[static_cast<std::size_t>(dim)])
      before = before + Expr::symbol("i_" + domain_.names[static_cast<std::size_t>(dim)]);
  for (int dim : plan_.cut)
    if (domain_.reduction[static_cast<std::size_t>(dim)]) before = before + piece_start(dim);
  return before;
}

void ProductLowering::emit_mma(Block& block) {
  if (problem_.on_vector) return emit_on_vector(block);
  if (in_pieces()) return multiply_in_pieces(block);
  Block product;
  emit_arrays(product);
  if (skips()) product = where_left(is_left(), std::move(product));
  std::move(product.begin(), product.end(), std::back_inserter(block));
}

void ProductLowering::emit_arrays(Block& block) {
  for (std::int64_t array = 0; array < unit_.grid.used(); ++array) {
    Expr has_part = 1;
    for (std::size_t cut = 0; cut < unit_.grid.cuts.size(); ++cut)
      if (unit_.grid.part(cut, array) > 0) has_part = logical_and(has_part, less(Expr(0), split_extent(cut, array)));
    program::If some{has_part, {}, {}};
    emit_one_mma(array, some.then);
    if (!has_part.is_constant())
      block.push_back(on("", std::move(some)));
    else if (has_part.value() != 0)
      std::move(some.then.begin(), some.then.end(), std::back_inserter(block));
  }
}

}  // namespace tilesim::lower
