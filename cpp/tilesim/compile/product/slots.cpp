// Slots of a product kernel: operands, what epilogue and prologue read, partial sums, outputs.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

void ProductLowering::add_slot(const std::string& name, DType dtype, std::int64_t elements, std::int64_t depth,
                               bool accumulator, std::vector<std::string> consumers) {
  program::Slot slot;
  slot.name = name;
  slot.dtype = dtype;
  slot.elements = std::max<std::int64_t>(1, elements);
  slot.depth = depth;
  slot.accumulator = accumulator;
  slot.consumers = std::move(consumers);
  scope_.slots.push_back(std::move(slot));
}

void ProductLowering::make_operand(int index) {
  Operand& operand = operands_[index];
  operand.value = anchor_.operands[static_cast<std::size_t>(index)];
  operand.slot = index == 0 ? "a" : "b";
  operand.prologue = !context_.placed(operand.value);
  const Access& access = domain_.operands[static_cast<std::size_t>(index)];
  const mapping::KernelPlan::Buffer& buffer = plan_.buffers[static_cast<std::size_t>(index)];
  const Shape& extents = buffer.extents;
  operand.slot_strides = row_major_strides(extents);
  if (index == 0 && nest_.pack >= 0) {
    std::int64_t stride = 1;
    const std::vector<int> order = mapping::packed_axes(problem_, nest_.pack);
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      operand.slot_strides[static_cast<std::size_t>(*axis)] = stride;
      stride *= extents[static_cast<std::size_t>(*axis)];
    }
  }
  const DType dtype = problem_.dtypes[static_cast<std::size_t>(index)];
  add_slot(operand.slot, dtype, buffer.elements, buffer.depth, false, mma_queues());
  if (buffer.sent) add_slot(operand.slot + "_stage", dtype, buffer.elements, mapping::sending_buffers, false, {"send"});
  if (!operand.prologue) return;
  for (ValueId value : leaves_of(context_, kernel_, {operand.value}))
    make_leaf(value, prologue_leaves_[index], operand.slot + "_in", access);
}

void ProductLowering::make_leaf(ValueId value, std::vector<Leaf>& leaves, const std::string& stem, const Access& access,
                                std::vector<int> axis_of) {
  Leaf leaf;
  leaf.value = value;
  leaf.slot = stem + std::to_string(leaves.size());
  leaf.axis_of = std::move(axis_of);
  const Shape& shape = context_.value(value).type.shape;
  if (leaf.axis_of.empty())  // numpy alignment: trailing axes match
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      leaf.axis_of.push_back(static_cast<int>(axis + access.axes.size() - shape.size()));
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    std::int64_t extent = 1;
    if (shape[axis] > 1)
      for (const AxisAccess::Term& term : access.axes[static_cast<std::size_t>(leaf.axis_of[axis])].terms) {
        const auto d = static_cast<std::size_t>(term.dim);
        extent += std::abs(term.coefficient) * (std::min(nest_.tiles[d], domain_.extents[d]) - 1);
      }
    extents.push_back(extent);
  }
  leaf.slot_strides = row_major_strides(extents);
  const DType dtype = context_.placements[static_cast<std::size_t>(value)].dtype;
  add_slot(leaf.slot, dtype, element_count(extents), 2, false, {"vector"});
  leaves.push_back(std::move(leaf));
}

void ProductLowering::make_accumulator() {
  const mapping::KernelPlan::Buffer& sums = plan_.buffers[2];
  accumulator_strides_ = row_major_strides(sums.extents);
  const DType stored = context_.placements[static_cast<std::size_t>(kernel_.outputs[0])].dtype;
  direct_ = kernel_.outputs.size() == 1 && kernel_.outputs[0] == anchor_.results[0] && !has_bias() &&
            stored == problem_.dtypes[2];
  add_slot("c", problem_.dtypes[2], sums.elements, sums.depth,
           context_.machine.core.scratchpad.accumulator_bytes > 0 && !problem_.on_vector,
           {direct_ ? "store0" : "vector"});
}

void ProductLowering::make_epilogue() {
  if (direct_) return;
  const Access& result = domain_.results[0];
  if (has_bias()) {
    std::vector<int> axis_of;
    if (anchor_.kind == Kind::convolution)
      axis_of.push_back(static_cast<int>(anchor_.attributes.text("y_labels").find('C')));
    bias_leaf_ = static_cast<int>(epilogue_leaves_.size());
    make_leaf(anchor_.operands[2], epilogue_leaves_, "e", result, axis_of);
  }
  for (ValueId value : leaves_of(context_, kernel_, kernel_.outputs)) make_leaf(value, epilogue_leaves_, "e", result);
}

void ProductLowering::make_outputs() {
  if (direct_) return;
  for (ValueId value : kernel_.outputs) {
    Output output;
    output.value = value;
    output.slot = "out" + std::to_string(outputs_.size());
    for (int op : fused_ops_) {
      const Op& candidate = context_.function.ops[static_cast<std::size_t>(op)];
      if (candidate.kind != Kind::reduce || candidate.results[0] != value) continue;
      output.op = op;
      for (std::int64_t dim : candidate.attributes.integers("dims")) output.reduce.push_back(static_cast<int>(dim));
    }
    std::vector<std::int64_t> extents;
    for (std::size_t axis = 0; axis < result_dim_.size(); ++axis) {
      const bool reduced =
          std::find(output.reduce.begin(), output.reduce.end(), static_cast<int>(axis)) != output.reduce.end();
      std::int64_t extent = 1;
      for (const AxisAccess::Term& term : domain_.results[0].axes[axis].terms) {
        const auto d = static_cast<std::size_t>(term.dim);
        extent += term.coefficient * (std::min(nest_.tiles[d], domain_.extents[d]) - 1);
      }
      extents.push_back(reduced ? 1 : extent);
    }
    output.slot_strides = row_major_strides(extents);
    for (int axis : output.reduce) output.slot_strides[static_cast<std::size_t>(axis)] = 0;
    add_slot(output.slot, context_.placements[static_cast<std::size_t>(value)].dtype, element_count(extents), 2, false,
             {"store0"});
    outputs_.push_back(std::move(output));
  }
}

}  // namespace tilesim::lower
