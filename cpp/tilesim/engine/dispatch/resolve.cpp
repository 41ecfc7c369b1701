// Evaluates the parts of a statement that depend on loop indices.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/engine/dispatch/dispatch.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/movement.hpp"

namespace tilesim::engine {

using program::Opcode;

namespace {

void check_index(const program::Cursor& cursor, const char* what, std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size)
    throw UserError({std::string("the index of a ") + what + " is out of range",
                     cursor.where(),
                     std::to_string(index),
                     "0 to " + std::to_string(size - 1),
                     {}});
}

std::int64_t counter_index(const Stream& stream, const program::Instruction& instruction) {
  const std::int64_t index = stream.cursor.value(instruction.index);
  check_index(stream.cursor, "counter", index, stream.program->counters[at(instruction.counter)].second);
  return index;
}

std::int64_t elements_of(const program::Cursor& cursor, const program::CompiledView& view) {
  std::int64_t count = 1;
  for (const auto& [extent, stride] : view.dims) count *= std::max<std::int64_t>(0, cursor.value(extent));
  return count;
}

/// Throws if packed dims of a product are not adjacent in its first operand, because the array reads them as one row.
void check_packed(const std::string& slot, const program::MmaOp& op, const program::CompiledView& a,
                  const program::Cursor& cursor) {
  std::int64_t neighbour = 1;
  for (int i = 0; i < op.packed; ++i) {
    const auto& dim = a.dims[a.dims.size() - 1 - at(i)];
    const std::int64_t size = cursor.value(dim.first), stride = cursor.value(dim.second);
    if (size > 1 && stride != neighbour)
      throw UserError({"packed dims of a product are not adjacent in its first operand",
                       cursor.where() + ", slot " + slot,
                       "stride " + std::to_string(stride),
                       std::to_string(neighbour),
                       {}});
    neighbour *= size;
  }
}

/// Sets the descriptor of a vector compute from its extents.
void resolve_vector(const Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  const auto& op = std::get<program::VectorOp>(instruction.statement->action);
  const std::ptrdiff_t number = &instruction - stream.program->instructions().data();
  const StaticCost& cost = stream.job->loaded->costs[at(number)];
  statement.descriptor =
      vector_descriptor(statement.descriptor.dtype, cost.work, static_cast<int>(instruction.extents.size()),
                        op.lane_dim, [&](int dim) { return stream.cursor.value(instruction.extents[at(dim)]); });
  statement.work = static_cast<double>(statement.descriptor.elements) * cost.functions_total;
}

/// Sets the descriptor of a sort from its first view.
void resolve_sort(const Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  const program::CompiledView& view = instruction.views[0];
  Descriptor& d = statement.descriptor;
  d.kind = ComputeKind::sort;
  d.elements = elements_of(stream.cursor, view);
  if (!view.dims.empty()) d.lane_extent = stream.cursor.value(view.dims.back().first);
  d.k = stream.cursor.value(instruction.views[1].dims.back().first);
}

TileView placed_view(const Stream& stream, const program::CompiledView& view) {
  TileView tile;
  tile.dtype = stream.program->slots[at(view.slot)].dtype;
  for (const auto& [extent, stride] : view.dims)
    tile.dims.push_back({stream.cursor.value(extent), stream.cursor.value(stride)});
  tile.address = stream.cursor.value(view.offset) * bits(tile.dtype) / 8;
  return tile;
}

void resolve_permute(const Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  const program::CompiledView &from = instruction.views[0], &to = instruction.views[1];
  const TileView in = placed_view(stream, from), out = placed_view(stream, to);
  const bool one_buffer = from.slot == to.slot && from.back == to.back;
  statement.descriptor = permute_descriptor(in.dtype, move_of(in.dims, out.dims), one_buffer && share_bytes(in, out));
}

/// Sets the descriptor of a gather or scatter from the selected rows.
void resolve_indexed(const Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  const auto& op = std::get<program::IndexedOp>(instruction.statement->action);
  const TileView in = placed_view(stream, instruction.views[0]), index = placed_view(stream, instruction.views[1]),
                 out = placed_view(stream, instruction.views[2]);
  const auto row = [](const TileView& view) {
    const std::span<const ViewDim> dims(view.dims);
    return dims.empty() ? dims : dims.subspan(1);
  };
  IndexedRows rows{1, move_of(row(in), row(out)), op.scatter ? op.combiner : std::nullopt};
  if (!index.dims.empty()) rows.count = std::max<std::int64_t>(0, index.dims[0].extent);
  statement.descriptor = indexed_descriptor(in.dtype, index.dtype, rows);
}

void resolve_opaque(const Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  constexpr std::int64_t longest = std::int64_t{1} << 50;
  Descriptor& d = statement.descriptor;
  d.kind = ComputeKind::opaque;
  d.duration = stream.cursor.value(instruction.count);
  if (d.duration < 0 || d.duration > longest)
    throw UserError({"an opaque operation declares an impossible duration",
                     stream.cursor.where(),
                     std::to_string(d.duration) + " cycles",
                     "0 to " + std::to_string(longest),
                     {}});
  constexpr std::size_t products = 1;  // index of a sparse product's number of products in `extents`
  if (instruction.extents.size() > products)
    statement.work = static_cast<double>(stream.cursor.value(instruction.extents[products]));
}

void resolve_send(const Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  const program::CompiledView& view = instruction.views[0];
  statement.bytes = packed_bytes(stream.program->slots[at(view.slot)].dtype, elements_of(stream.cursor, view));
  statement.pieces = instruction.pieces;
  for (const CompiledExpr& core : instruction.cores) {
    const std::int64_t target = stream.cursor.value(core);
    check_index(stream.cursor, "core", target, std::min<std::int64_t>(64, stream.program->program().cores));
    statement.core |= std::int64_t{1} << target;
  }
}

void resolve_signal(const Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  statement.pieces = stream.cursor.value(instruction.count);
  statement.index = counter_index(stream, instruction);
  statement.core = stream.cursor.value(instruction.core);
  check_index(stream.cursor, "core", statement.core, stream.program->program().cores);
}

void resolve_wait(const Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  statement.pieces = stream.cursor.value(instruction.count);
  if (instruction.counter >= 0)
    statement.index = counter_index(stream, instruction);
  else
    statement.version = stream.cursor.version(instruction.slot, instruction.back);
}

}  // namespace

void Dispatch::resolve(Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  const program::Cursor& cursor = stream.cursor;
  statement.opcode = instruction.opcode;
  statement.slot = instruction.slot;
  statement.counter = instruction.counter;
  if (!stream.scopes.empty()) {
    statement.scope = stream.scopes.front();
    statement.kernel = stream.kernels.enter();
  }
  switch (instruction.opcode) {
    case Opcode::acquire:
      statement.version = cursor.version(instruction.slot, 0);
      statement.epoch = stream.slots.epoch();
      stream.slots.announce(instruction.slot, statement.version);
      return;
    case Opcode::commit:
      statement.version = cursor.version(instruction.slot, instruction.back);
      statement.pieces = instruction.pieces;
      statement.sequence = stream.slots.commits(instruction.slot, statement.version);
      return;
    case Opcode::release:
      statement.version = cursor.version(instruction.slot, instruction.back);
      return;
    case Opcode::wait:
      return resolve_wait(stream, instruction, statement);
    case Opcode::signal:
      return resolve_signal(stream, instruction, statement);
    case Opcode::load:
    case Opcode::store:
      return resolve_transfer(stream, instruction, statement);
    case Opcode::send:
      return resolve_send(stream, instruction, statement);
    case Opcode::mma:
      return resolve_mma(stream, instruction, statement);
    default:
      break;
  }
  if (!instruction.views.empty())
    statement.descriptor.dtype = stream.program->slots[at(instruction.views[0].slot)].dtype;
  switch (instruction.opcode) {
    case Opcode::vector:
      return resolve_vector(stream, instruction, statement);
    case Opcode::permute:
      return resolve_permute(stream, instruction, statement);
    case Opcode::indexed:
      return resolve_indexed(stream, instruction, statement);
    case Opcode::sort:
      return resolve_sort(stream, instruction, statement);
    default:
      return resolve_opaque(stream, instruction, statement);
  }
}

void Dispatch::resolve_transfer(Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  const JobState& job = *stream.job;
  const program::CompiledTransfer& transfer = instruction.transfer;
  Pattern* pattern = nullptr;
  const int storage = stream.program->tensors[at(stream.cursor.tensor(transfer.tensor))].storage;
  if (stream.program->tensors[at(storage)].tensor->level == program::Level::scratchpad) {
    statement.on_chip = true;
    OnChip moved = on_chip_bytes(*stream.program, stream.cursor, transfer, stream.virtual_core);
    statement.bytes = moved.bytes;
    if (!moved.held.empty()) statement.held = std::make_shared<const decltype(moved.held)>(std::move(moved.held));
    if (instruction.counter >= 0) statement.index = counter_index(stream, instruction);
    return;
  }
  const bool named = chip_.memory != MemoryKind::ideal && std::any_of(transfer.dims.begin(), transfer.dims.end(),
                                                                      [](const auto& d) { return d.through >= 0; });
  if (memory_.patterned() || named) {
    statement.pattern = memory_.new_pattern(job.place.first_tensor + storage);
    pattern = &memory_.pattern(statement.pattern);
  }
  const Moved moved = moved_bytes(*stream.program, job.loaded->tensors.map, job.place.base, stream.cursor, transfer,
                                  chip_.machine.memory.burst_bytes, pattern, job.reader.get());
  statement.address = moved.address;
  statement.bytes = moved.bytes;
  statement.index_bytes = moved.index_bytes;
  statement.padding_bytes = moved.padding;
  if (instruction.counter >= 0) statement.index = counter_index(stream, instruction);
}

void Dispatch::resolve_mma(Stream& stream, const program::Instruction& instruction,
                           ResolvedStatement& statement) const {
  const program::Cursor& cursor = stream.cursor;
  const auto& op = std::get<program::MmaOp>(instruction.statement->action);
  const program::CompiledView &a = instruction.views[0], &b = instruction.views[1];
  const ProductDims dims{op.batch_dims,
                         op.m_dims,
                         op.k_dims,
                         op.n_dims,
                         op.packed,
                         op.stationary_a,
                         cursor.value(instruction.count) != 0,
                         stream.program->slots[at(a.slot)].dtype,
                         stream.program->slots[at(b.slot)].dtype};
  const int of_a = op.batch_dims + op.m_dims + op.k_dims;
  double work = 1;
  const Descriptor d = product_descriptor(dims, chip_.machine.layout, [&](int dim) {
    const std::int64_t extent = cursor.value((dim < of_a ? a.dims[at(dim)] : b.dims[at(dim - op.m_dims)]).first);
    work *= static_cast<double>(extent);
    return extent;
  });
  if (op.packed > 1) check_packed(stream.program->slots[at(a.slot)].name, op, a, cursor);
  statement.descriptor = d;
  statement.work = is_two_of_four(d.second) ? work / 2 : work;
  const ArraySpec& array = stream.kind->core.array;
  if (!kept_whole(array, d)) return;
  const program::CompiledView& kept = kept_operand(array, op.stationary_a) == 0 ? a : b;
  statement.weights = (cursor.version(kept.slot, kept.back) << 24 | kept.slot) ^ cursor.value(kept.offset) << 40;
}

}  // namespace tilesim::engine
