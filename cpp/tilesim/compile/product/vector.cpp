// Products on the vector unit, with a multiplication and an addition per tap, if an array would be mostly idle.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

using program::Block;

/// c (+)= sum of a * b over the contraction dims: inner dims are reduced within a compute, outer dims by a loop.
void ProductLowering::emit_on_vector(Block& block) {
  std::vector<int> dims = problem_.batch_dims;
  dims.insert(dims.end(), problem_.m_dims.begin(), problem_.m_dims.end());
  dims.insert(dims.end(), problem_.n_dims.begin(), problem_.n_dims.end());
  const std::vector<int>&reduced = unit_.taps.summed, &looped = unit_.taps.looped;
  const auto tap = [&](int dim) { return Expr::symbol("t_" + domain_.names[static_cast<std::size_t>(dim)]); };
  program::VectorOp compute;
  program::VectorOutputSpec output;
  for (int dim : dims) {
    if (dim == unit_.lane) compute.lane_dim = static_cast<int>(compute.extents.size());
    compute.extents.push_back(extent(dim));
  }
  for (int dim : reduced) {
    output.reduce.push_back(static_cast<int>(compute.extents.size()));
    compute.extents.push_back(extent(dim));
  }
  dims.insert(dims.end(), reduced.begin(), reduced.end());
  Expr before = earlier_sums();
  const auto view = [&](const std::string& slot, const Access& access, const std::vector<std::int64_t>& strides) {
    program::View result = product_view(slot, access, strides, dims, 0);
    const program::View taps = product_view(slot, access, strides, looped, 0);
    for (std::size_t i = 0; i < looped.size(); ++i)
      result.offset = result.offset + tap(looped[i]) * taps.dims[i].stride;
    return result;
  };
  compute.inputs = {view(operands_[0].slot, domain_.operands[0], operands_[0].slot_strides),
                    view(operands_[1].slot, domain_.operands[1], operands_[1].slot_strides)};
  output.view = view("c", domain_.results[0], accumulator_strides_);
  output.view.offset = output.view.offset + window_offset();
  for (int dim : looped) before = before + tap(dim);
  output.accumulate = before.is_constant() ? Expr(0) : less(Expr(0), before);
  compute.nodes.push_back({{.op = VectorNode::Op::input, .index = 0, .dtype = problem_.dtypes[0]}, 0});
  compute.nodes.push_back({{.op = VectorNode::Op::input, .index = 1, .dtype = problem_.dtypes[1]}, 0});
  compute.nodes.push_back({{.op = VectorNode::Op::function,
                            .function = Function::multiply,
                            .arguments = {0, 1, -1},
                            .dtype = problem_.dtypes[2]},
                           0});
  output.node = 2;
  compute.outputs.push_back(std::move(output));
  Block inner;
  inner.push_back(statement(std::move(compute)));
  for (std::size_t i = looped.size(); i-- > 0;) {
    Block body = std::move(inner);
    inner.clear();
    inner.push_back(
        loop("t_" + domain_.names[static_cast<std::size_t>(looped[i])], extent(looped[i]), std::move(body)));
  }
  std::move(inner.begin(), inner.end(), std::back_inserter(block));
}

}  // namespace tilesim::lower
