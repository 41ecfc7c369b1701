#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

program::Tensor* TensorIndex::find(program::Program& program, const std::string& name) {
  for (; seen_ < program.tensors.size(); ++seen_) known_.emplace(program.tensors[seen_].name, seen_);
  const auto found = known_.find(name);
  return found == known_.end() ? nullptr : &program.tensors[found->second];
}

program::Statement on(const std::string& queue, program::Action action) { return {std::move(action), queue, {}}; }

program::Statement loop(const std::string& index, Expr extent, program::Block body) {
  return {program::For{index, std::move(extent), std::move(body)}, {}, {}};
}

program::Transfer region_transfer(const Placement& placement, const std::vector<Expr>& start,
                                  const std::vector<Expr>& extents, const std::vector<std::int64_t>& slot_strides,
                                  const std::string& slot) {
  program::Transfer transfer;
  transfer.tensor = placement.tensor;
  transfer.slot = slot;
  transfer.fill = placement.fill;
  std::vector<bool> used(start.size(), false);
  for (std::size_t axis = 0; axis < placement.axes.size(); ++axis) {
    Expr at(placement.axes[axis].constant);
    if (!placement.moved.empty()) at = at + placement.moved[axis];
    for (const AxisAccess::Term& term : placement.axes[axis].terms)
      at = at + start[static_cast<std::size_t>(term.dim)] * Expr(term.coefficient);
    transfer.at.push_back(at);
  }
  for (std::size_t dim = 0; dim < start.size(); ++dim) {
    program::TransferDim step;
    step.extent = extents[dim];
    step.stride = slot_strides[dim];
    step.step = 0;
    for (std::size_t axis = 0; axis < placement.axes.size(); ++axis)
      for (const AxisAccess::Term& term : placement.axes[axis].terms)
        if (term.dim == static_cast<int>(dim)) {
          step.axis = static_cast<int>(axis);
          step.step = Expr(term.coefficient);
        }
    if (step.axis < 0 && extents[dim].is_constant() && extents[dim].value() == 1) continue;
    transfer.dims.push_back(std::move(step));
  }
  return transfer;
}

std::string Refusal::text() const {
  std::string text = why.what;
  if (!why.value.empty()) text += " (" + why.value + (why.allowed.empty() ? "" : ", " + why.allowed) + ")";
  return text;
}

bool ends_with_tensor(const Context& context, ValueId value) {
  const Placement& placement = context.placements[static_cast<std::size_t>(value)];
  const Shape& shape = context.value(value).type.shape;
  if (!placement.moved.empty()) return false;
  std::vector<bool> seen(shape.size(), false);
  for (std::size_t axis = 0; axis < placement.axes.size(); ++axis) {
    const AxisAccess& access = placement.axes[axis];
    if (access.terms.size() != 1 || access.terms[0].coefficient != 1 || access.constant != 0) return false;
    const auto dim = static_cast<std::size_t>(access.terms[0].dim);
    if (shape[dim] != placement.tensor_shape[axis]) return false;
    seen[dim] = true;
  }
  return std::find(seen.begin(), seen.end(), false) == seen.end();
}

}  // namespace tilesim::lower
