#include "tilesim/compile/lanes.hpp"

#include <algorithm>
#include <cstdlib>

namespace tilesim::lower {

std::vector<std::int64_t> memory_strides(const Context& context, const Placement& placement, const Shape& tile) {
  const program::Tensor* tensor = context.program.find_tensor(placement.tensor);
  const std::size_t axes = placement.axes.size();
  const bool ordered = tensor && tensor->minor_to_major.size() == axes;
  std::vector<std::int64_t> strides(tile.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t axis = ordered ? static_cast<std::size_t>(tensor->minor_to_major[i]) : axes - 1 - i;
    std::vector<AxisAccess::Term> terms = placement.axes[axis].terms;
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

void permute_in_place(program::View in, program::View out, program::Block& block) {
  const std::string slot = in.slot;
  block.push_back(on("cross_lane", program::Wait{slot, 0, {}, 0, 1}));
  block.push_back(on("cross_lane", program::PermuteOp{std::move(in), std::move(out)}));
  block.push_back(on("cross_lane", program::Commit{slot, 0, 1}));
}

}  // namespace tilesim::lower
