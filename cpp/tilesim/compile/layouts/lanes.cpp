#include "tilesim/compile/layouts/lanes.hpp"

#include <algorithm>
#include <cstdlib>
#include <variant>

#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

std::vector<MemoryAxis> memory_axes(const Context& context, const Placement& placement) {
  const program::Tensor* tensor = find_tensor(context, placement.tensor);
  const std::size_t axes = placement.axes.size();
  const bool ordered = tensor && tensor->minor_to_major.size() == axes;
  std::vector<MemoryAxis> result;
  if (!placement.through.empty()) {
    result.push_back({placement.axes.back(), placement.tensor_shape.back()});
    const program::Tensor* ids = find_tensor(context, placement.through);
    for (std::size_t axis = placement.through_axes.size(); axis-- > 0;)
      result.push_back({placement.through_axes[axis], ids->shape[axis].value()});
    return result;
  }
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t axis = ordered ? static_cast<std::size_t>(tensor->minor_to_major[i]) : axes - 1 - i;
    result.push_back({placement.axes[axis], placement.tensor_shape[axis]});
  }
  return result;
}

std::vector<std::int64_t> memory_strides(const Context& context, const Placement& placement, const Shape& tile) {
  std::vector<std::int64_t> strides(tile.size(), 0);
  std::int64_t stride = 1;
  for (MemoryAxis& axis : memory_axes(context, placement)) {
    std::vector<AxisAccess::Term>& terms = axis.access.terms;
    std::sort(terms.begin(), terms.end(), [](const AxisAccess::Term& a, const AxisAccess::Term& b) {
      return std::abs(a.coefficient) < std::abs(b.coefficient);
    });
    for (const AxisAccess::Term& term : terms) {
      const auto dim = static_cast<std::size_t>(term.dim);
      if (strides[dim] != 0) continue;
      strides[dim] = stride;
      stride *= std::max<std::int64_t>(1, tile[dim]);
    }
  }
  return strides;
}

namespace {

/// Appends the names of kernels whose tiles use the cross-lane unit, in order; `kernel`: the one around the block.
void find_permutes(const program::Block& block, const std::string& kernel, std::vector<std::string>& kernels) {
  for (const program::Statement& statement : block) {
    if (std::holds_alternative<program::PermuteOp>(statement.action)) {
      if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) kernels.push_back(kernel);
    } else {
      const auto* scope = std::get_if<program::Scope>(&statement.action);
      const std::string& inner = scope && !scope->kernel.empty() ? scope->kernel : kernel;
      program::for_each_body(statement, [&](const program::Block& body) { find_permutes(body, inner, kernels); });
    }
  }
}

}  // namespace

void note_lane_changes(program::Program& program) {
  constexpr std::size_t named = 3;
  std::vector<std::string> kernels;
  find_permutes(program.body, program.name, kernels);
  for (const program::Function& function : program.functions) find_permutes(function.body, function.name, kernels);
  if (kernels.empty()) return;
  std::string text = "lanes: tiles of " + std::to_string(kernels.size()) +
                     (kernels.size() == 1 ? " kernel" : " kernels") + " pass the cross-lane unit: ";
  for (std::size_t i = 0; i < std::min(named, kernels.size()); ++i) text += (i > 0 ? ", " : "") + kernels[i];
  program.notes.push_back(text + (kernels.size() > named ? ", ..." : ""));
}

}  // namespace tilesim::lower
