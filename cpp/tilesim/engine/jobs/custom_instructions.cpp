#include "tilesim/engine/jobs/custom_instructions.hpp"

#include <algorithm>

#include "tilesim/isa/kernel/vector_values.hpp"

namespace tilesim::engine {

namespace {

/// The compute with types. An extent that is not constant becomes the largest possible extent.
VectorCompute shape_of(const program::VectorOp& op, const program::DTypeOf& dtype_of) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  VectorCompute shape;
  for (const Expr& extent : op.extents) shape.extents.push_back(extent.is_constant() ? extent.value() : most);
  for (const program::View& view : op.inputs) shape.inputs.emplace_back().dtype = dtype_of(view);
  for (const program::VectorNodeSpec& spec : op.nodes) shape.nodes.push_back(spec.node);
  for (const program::VectorOutputSpec& output : op.outputs) {
    VectorOutput& made = shape.outputs.emplace_back();
    made.view.dtype = dtype_of(output.view);
    made.node = output.node, made.reduce = output.reduce, made.combiner = output.combiner;
    made.accumulate = !output.accumulate.is_constant() || output.accumulate.value() != 0;
  }
  return shape;
}

bool is_function(const VectorNode& node) { return node.op == VectorNode::Op::function; }

}  // namespace

program::CustomInstructions custom_instructions(const program::VectorOp& op, const program::DTypeOf& dtype_of,
                                                const UserInstructions& known) {
  program::CustomInstructions own(op.nodes.size(), nullptr);
  const auto has_one = [&](const program::VectorNodeSpec& spec) {
    return is_function(spec.node) && known.contains(spec.node.function);
  };
  if (std::ranges::none_of(op.nodes, has_one)) return own;
  const isa::TypedCompute typed(shape_of(op, dtype_of));
  // TypedCompute adds conversions between nodes, but keeps the order of functions.
  auto node = typed.compute().nodes.begin();
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!is_function(op.nodes[i].node)) continue;
    node = std::find_if(node, typed.compute().nodes.end(), is_function);
    if (const auto found = known.find(op.nodes[i].node.function); found != known.end())
      if (isa::held_as(parse_dtype(found->second.element)) == typed.value_at(*node).work) own[i] = &found->second;
    ++node;
  }
  return own;
}

}  // namespace tilesim::engine
