// Slots of a product kernel: operands, inputs of epilogue and prologue, partial sums, outputs.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

Ring& ProductLowering::add_ring(const std::string& name, DType dtype, std::int64_t elements, std::int64_t depth) {
  Ring& ring = rings_.emplace_back(Ring{name, dtype, elements, depth});
  ring.renewed = true;
  return ring;
}

void ProductLowering::make_operand(int index) {
  Operand& operand = operands_[index];
  operand.value = anchor_.operands[static_cast<std::size_t>(index)];
  operand.slot = index == 0 ? "a" : "b";
  operand.prologue = !context_.placed(operand.value);
  const mapping::KernelPlan::TileRing& buffer = plan_.buffers[static_cast<std::size_t>(index)];
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
  const std::int64_t queue = index % load_queues_;
  for (std::int64_t leader = 0; leader < buffer.leaders; ++leader) {
    Ring& ring = add_ring(ring_name(index, leader), dtype, buffer.elements, buffer.depth / buffer.leaders);
    ring.load_queue = queue;
    if (buffer.pieces > 1)
      for (const int dim : buffer.cut) ring.pieces.push_back("s_" + domain_.names[static_cast<std::size_t>(dim)]);
  }
  if (index == 0 && nest_.unfold > 0) add_ring(unfolded_slot, dtype, plan_.unfolded.elements, plan_.unfolded.depth);
  if (buffer.sent)
    add_ring(std::string(index == 0 ? "a" : "b") + "_stage", dtype, buffer.elements, mapping::sending_buffers)
        .load_queue = queue;
}

void ProductLowering::make_leaf(const LeafSource& source, const Shape& extents) {
  std::vector<Leaf>& leaves = source.of < 2 ? prologue_leaves_[source.of] : epilogue_leaves_;
  const std::string stem = source.of == 0 ? "a_in" : source.of == 1 ? "b_in" : "e";
  Leaf leaf{source.value, stem + std::to_string(leaves.size()), row_major_strides(extents), source.axis_of};
  if (source.bias_of >= 0) bias_leaf_[source.bias_of] = static_cast<int>(leaves.size());
  const DType dtype = context_.placements[static_cast<std::size_t>(source.value)].dtype;
  add_ring(leaf.slot, dtype, element_count(extents), mapping::vector_buffers).load_queue = 1 % load_queues_;
  leaves.push_back(std::move(leaf));
}

/// Adds the leaves in the order of the mapping problem.
void ProductLowering::make_leaves() {
  const std::vector<LeafSource> sources = leaf_sources(context_, kernel_, problem_.dtypes[2]);
  require(sources.size() == plan_.leaves.size(), "a product's leaves differ from those of its mapping problem");
  for (std::size_t i = 0; i < sources.size(); ++i) make_leaf(sources[i], plan_.leaves[i].extents);
}

void ProductLowering::make_accumulator() {
  const mapping::KernelPlan::TileRing& sums = plan_.buffers[2];
  accumulator_strides_ = row_major_strides(sums.extents);
  direct_ = stores_sums(context_, kernel_, problem_.dtypes[2]);
  Ring& ring = add_ring("c", problem_.dtypes[2], sums.elements, sums.depth);
  ring.accumulator = context_.machine.core.scratchpad.accumulator_bytes > 0 && !problem_.on_vector;
  ring.counted = true;
}

void ProductLowering::make_outputs() {
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    Output output;
    output.value = kernel_.outputs[i];
    output.slot = "out" + std::to_string(i);
    output.reduced_by = reduction_of(context_, kernel_, output.value);
    output.reduce = problem_.outputs[i].reduced;
    output.slot_strides = row_major_strides(plan_.outputs[i].extents);
    for (int axis : output.reduce) output.slot_strides[static_cast<std::size_t>(axis)] = 0;
    add_ring(output.slot, problem_.outputs[i].dtype, plan_.outputs[i].elements, plan_.outputs[i].depth);
    outputs_.push_back(std::move(output));
  }
}

}  // namespace tilesim::lower
