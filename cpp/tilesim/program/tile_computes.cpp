// Converts computes of a program to tile computes, on buffers or, for timing, without data.
#include <algorithm>
#include <map>

#include "tilesim/base/shape.hpp"
#include "tilesim/program/run/operation.hpp"

namespace tilesim::program {

namespace {

/// Returns view number i of an operation.
using ViewOf = std::function<TileView(std::size_t)>;

VectorCompute vector_of(const VectorOp& spec, const Operation& op, const ViewOf& view) {
  VectorCompute compute;
  compute.extents = op.extents;
  compute.lane = spec.lane_dim;
  const std::size_t inputs = spec.inputs.size();
  for (std::size_t i = 0; i < inputs; ++i) compute.inputs.push_back(view(i));
  std::size_t scalar = 0;
  for (const VectorNodeSpec& node : spec.nodes) {
    compute.nodes.push_back(node.node);
    if (node.node.op == VectorNode::Op::scalar) compute.nodes.back().number = static_cast<double>(op.scalars[scalar++]);
  }
  for (std::size_t o = 0; o < spec.outputs.size(); ++o) {
    const VectorOutputSpec& output = spec.outputs[o];
    compute.outputs.push_back({output.node, view(inputs + o), output.reduce, output.combiner, op.accumulates[o] != 0});
  }
  return compute;
}

Opaque opaque_of(const OpaqueOp& spec, const Operation& op, const ViewOf& view) {
  Opaque opaque;
  opaque.target = spec.target;
  for (std::size_t i = 0; i < op.views.size(); ++i)
    (i < spec.reads.size() ? opaque.reads : opaque.writes).push_back(view(i));
  return opaque;
}

TileCompute compute_of(const Operation& op, const ViewOf& view) {
  const Action& action = op.instruction->statement->action;
  switch (op.opcode) {
    case Opcode::mma: {
      const auto& mma = std::get<MmaOp>(action);
      return Mma{mma.batch_dims, mma.m_dims,    mma.n_dims,   mma.k_dims,       view(0),   view(1),
                 view(2),        op.accumulate, mma.numerics, mma.stationary_a, mma.packed};
    }
    case Opcode::vector:
      return vector_of(std::get<VectorOp>(action), op, view);
    case Opcode::permute:
      return Permute{view(0), view(1)};
    case Opcode::indexed: {
      const auto& indexed = std::get<IndexedOp>(action);
      return Indexed{view(0), view(1), view(2), indexed.scatter, indexed.combiner};
    }
    case Opcode::sort:
      return Sort{view(0), view(1), view(2), std::get<SortOp>(action).descending};
    default:
      return opaque_of(std::get<OpaqueOp>(action), op, view);
  }
}

std::int64_t bytes_before(DType dtype, std::int64_t elements) { return elements * bits(dtype) / 8; }

}  // namespace

TileView tile_view(const CompiledProgram& program, const SlotView& view, std::byte* buffer) {
  const CompiledSlot& slot = program.slots[static_cast<std::size_t>(view.slot)];
  TileView tile;
  tile.data = buffer + view.offset * host_bytes(slot.dtype);
  tile.dtype = slot.dtype;
  tile.dims = view.dims;
  tile.address = slot.address + view.version % slot.depth * slot.bytes + bytes_before(slot.dtype, view.offset);
  tile.memory = slot.accumulator ? TileMemory::accumulator : TileMemory::scratchpad;
  return tile;
}

TileCompute tile_compute(const CompiledProgram& program, const Operation& op, const BufferOf& buffer) {
  return compute_of(op, [&](std::size_t i) { return tile_view(program, op.views[i], buffer(op.views[i])); });
}

TileCompute tile_compute(const CompiledProgram& program, const Cursor& cursor, std::int64_t core,
                         const Instruction& instruction) {
  constexpr std::int64_t granule = 4096;  // makes the alignment of a view independent of the previous view
  Operation op;
  resolve(program, cursor, core, instruction, op);
  std::map<std::pair<int, std::int64_t>, std::int64_t> first, bases;  // by slot and version
  for (const SlotView& view : op.views) {
    std::int64_t& own = first.try_emplace({view.slot, view.version}, view.offset).first->second;
    own = std::min(own, view.offset);
  }
  std::int64_t next[2] = {0, 0};
  TileCompute compute = compute_of(op, [&](std::size_t i) {
    const SlotView& view = op.views[i];
    const CompiledSlot& slot = program.slots[static_cast<std::size_t>(view.slot)];
    const auto [base, fresh] = bases.try_emplace({view.slot, view.version}, next[slot.accumulator ? 1 : 0]);
    if (fresh) next[slot.accumulator ? 1 : 0] += round_up(std::max<std::int64_t>(1, slot.bytes), granule);
    TileView tile;
    tile.dtype = slot.dtype;
    tile.dims = view.dims;
    tile.address = base->second + bytes_before(slot.dtype, view.offset - first.at({view.slot, view.version}));
    tile.memory = slot.accumulator ? TileMemory::accumulator : TileMemory::scratchpad;
    return tile;
  });
  if (auto* opaque = std::get_if<Opaque>(&compute)) opaque->cycles = cursor.value(instruction.count);
  return compute;
}

}  // namespace tilesim::program
