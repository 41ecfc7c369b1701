#include "tilesim/program/run/operation.hpp"

#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::program {

namespace {

/// Marks which views the instruction reads and writes.
void set_access(Operation& op) {
  const Action& action = op.instruction->statement->action;
  const auto mark = [&](std::size_t index, bool read, bool written) {
    op.views[index].read = read;
    op.views[index].written = written;
  };
  switch (op.opcode) {
    case Opcode::mma:
      mark(0, true, false);
      mark(1, true, false);
      mark(2, op.accumulate, true);
      break;
    case Opcode::vector: {
      const std::size_t inputs = op.views.size() - op.accumulates.size();
      for (std::size_t i = 0; i < op.views.size(); ++i) {
        mark(i, i < inputs || op.accumulates[i - inputs] != 0, i >= inputs);
      }
      break;
    }
    case Opcode::permute:
    case Opcode::send:
      mark(0, true, false);
      mark(1, false, true);
      break;
    case Opcode::indexed: {
      const auto& indexed = std::get<IndexedOp>(action);
      mark(0, true, false);
      mark(1, true, false);
      mark(2, indexed.scatter && indexed.combiner.has_value(), true);
      break;
    }
    case Opcode::sort:
      mark(0, true, false);
      mark(1, false, true);
      mark(2, false, true);
      break;
    case Opcode::opaque:
      for (std::size_t i = 0; i < op.views.size(); ++i) {
        const bool reads = i < std::get<OpaqueOp>(action).reads.size();
        mark(i, reads || (!op.accumulates.empty() && op.accumulates[0] != 0), !reads);
      }
      break;
    default:
      break;
  }
}

void resolve_view(const CompiledProgram& program, const Cursor& cursor, const CompiledView& from, SlotView& to) {
  to.slot = from.slot;
  to.version = cursor.version(from.slot, from.back);
  to.offset = cursor.value(from.offset);
  to.dims.resize(from.dims.size());
  std::int64_t low = to.offset, high = to.offset;
  bool empty = false, overflow = false;
  for (std::size_t i = 0; i < from.dims.size(); ++i) {
    const std::int64_t extent = cursor.value(from.dims[i].first), stride = cursor.value(from.dims[i].second);
    to.dims[i] = {extent, stride};
    if (extent <= 0) {
      empty = true;
      continue;
    }
    std::int64_t reach = 0, &end = stride >= 0 ? high : low;
    overflow |= __builtin_mul_overflow(stride, extent - 1, &reach) || __builtin_add_overflow(end, reach, &end);
  }
  const CompiledSlot& slot = program.slots[static_cast<std::size_t>(from.slot)];
  if (!empty && (overflow || low < 0 || high >= slot.elements)) {
    throw UserError({"A view leaves its slot.",
                     {},
                     slot.name + " elements " + std::to_string(low) + " to " + std::to_string(high),
                     "0 to " + std::to_string(slot.elements - 1),
                     {}});
  }
}

/// Throws above a limit that exceeds every block on chip; products of two such values fit 64 bits.
void check_size(std::int64_t value) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (value < -most || value > most)
    throw UserError(
        {"A transfer has an impossible extent, step or stride.", {}, std::to_string(value), "up to 2^30", {}});
}

/// Requires that the block is in its slot and, without a fill value, in its tensor. Indirect axes are checked when
/// their rows are read.
void check_borders(const ResolvedTransfer& t) {
  for (const ResolvedTransfer::Dim& dim : t.dims)
    if (dim.extent <= 0) return;
  std::int64_t low = t.slot_offset, high = t.slot_offset;
  for (const ResolvedTransfer::Dim& dim : t.dims) {
    std::int64_t& end = dim.stride >= 0 ? high : low;
    if (__builtin_add_overflow(end, dim.stride * (dim.extent - 1), &end)) fail_outside_slot(t, low, high);
  }
  if (low < 0 || high >= t.slot_elements) fail_outside_slot(t, low, high);
  if (t.has_fill) return;
  for (std::size_t axis = 0; axis < t.at.size(); ++axis) {
    std::int64_t first = t.at[axis], last = t.at[axis];
    bool direct = true;
    for (const ResolvedTransfer::Dim& dim : t.dims) {
      if (dim.axis != static_cast<int>(axis)) continue;
      direct &= dim.through < 0;
      (dim.step >= 0 ? last : first) += dim.step * (dim.extent - 1);
    }
    if (!direct) continue;
    if (first < 0) fail_outside_tensor(t, axis, first);
    if (last >= (*t.shape)[axis]) fail_outside_tensor(t, axis, last);
  }
}

void resolve_dim(const CompiledProgram& program, const Cursor& cursor, const CompiledTransferDim& d,
                 ResolvedTransfer::Dim& dim) {
  dim.extent = cursor.value(d.extent);
  dim.axis = d.axis;
  dim.step = cursor.value(d.step);
  dim.stride = cursor.value(d.stride);
  for (const std::int64_t value : {dim.extent, dim.step, dim.stride}) check_size(value);
  dim.through = d.through < 0 ? -1 : cursor.tensor(d.through);
  if (dim.through < 0) return;
  const CompiledTensor& rows = program.tensors[static_cast<std::size_t>(dim.through)];
  if (dim.axis < 0 || d.through_at.size() != rows.shape.size())
    throw UserError({"An indirect dim needs an axis and a start in its tensor of indices.",
                     rows.name,
                     std::to_string(d.through_at.size()) + " axes",
                     std::to_string(rows.shape.size()),
                     {}});
  dim.through_start = 0;
  for (std::size_t a = 0; a < d.through_at.size(); ++a) {
    dim.through_start += cursor.value(d.through_at[a]) * rows.strides[a];
  }
}

void resolve_transfer(const CompiledProgram& program, const Cursor& cursor, const CompiledTransfer& from,
                      Operation& op) {
  op.tensor = cursor.tensor(from.tensor);
  const CompiledTensor& tensor = program.tensors[static_cast<std::size_t>(op.tensor)];
  const CompiledSlot& slot = program.slots[static_cast<std::size_t>(from.slot)];
  ResolvedTransfer& to = op.transfer;
  if (from.at.size() != tensor.shape.size()) {
    throw UserError({"A transfer names the wrong number of axes.",
                     tensor.name,
                     std::to_string(from.at.size()),
                     std::to_string(tensor.shape.size()),
                     {}});
  }
  if (slot.dtype != tensor.dtype) {
    throw UserError({"A transfer cannot change the dtype.",
                     tensor.name + " and " + slot.name,
                     std::string(name(tensor.dtype)) + " and " + std::string(name(slot.dtype)),
                     "equal types",
                     {}});
  }
  to.shape = &tensor.shape;
  to.strides = &tensor.strides;
  to.at.resize(from.at.size());
  for (std::size_t i = 0; i < from.at.size(); ++i) {
    to.at[i] = cursor.value(from.at[i]);
    constexpr std::int64_t farthest = std::int64_t{1} << 45;
    if (to.at[i] < -farthest || to.at[i] > farthest)
      throw UserError({"A transfer starts impossibly far outside.", tensor.name, std::to_string(to.at[i]), {}, {}});
  }
  to.dims.resize(from.dims.size());
  for (std::size_t i = 0; i < from.dims.size(); ++i) {
    resolve_dim(program, cursor, from.dims[i], to.dims[i]);
  }
  to.dtype = slot.dtype;
  to.slot_elements = slot.elements;
  to.has_fill = from.has_fill;
  to.slot_offset = cursor.value(from.offset);
  check_borders(to);
  to.fill = from.fill;
  op.views.resize(1);
  op.views[0] = {from.slot, cursor.version(from.slot, from.back), 0,
                 {},        op.opcode == Opcode::store,           op.opcode == Opcode::load};
}

void evaluate(const Cursor& cursor, const std::vector<CompiledExpr>& from, std::vector<std::int64_t>& to) {
  to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = cursor.value(from[i]);
}

std::int64_t cell_of(const CompiledProgram& program, const Instruction& i, std::int64_t core, std::int64_t index) {
  const Counter& counter = program.program().counters[static_cast<std::size_t>(i.counter)];
  if (index < 0 || index >= counter.size) {
    throw UserError({"A counter's index is out of range.",
                     counter.name,
                     std::to_string(index),
                     "0 to " + std::to_string(counter.size - 1),
                     {}});
  }
  if (core < 0 || core >= program.program().cores) {
    throw UserError({"A signal names an unknown core.",
                     counter.name,
                     std::to_string(core),
                     "0 to " + std::to_string(program.program().cores - 1),
                     {}});
  }
  return counter.semaphore ? core * counter.size + index : index;
}

}  // namespace

void resolve(const CompiledProgram& program, const Cursor& cursor, std::int64_t core, const Instruction& i,
             Operation& op) {
  op.instruction = &i;
  op.opcode = i.opcode;
  op.queue = i.queue;
  op.slot = i.slot;
  op.counter = i.counter;
  op.pieces = i.pieces;
  if (i.slot >= 0) op.version = cursor.version(i.slot, i.back);
  if (i.counter >= 0) {
    op.cell = cell_of(program, i, i.opcode == Opcode::signal ? cursor.value(i.core) : core, cursor.value(i.index));
  }
  if (i.opcode == Opcode::wait || i.opcode == Opcode::signal) op.pieces = cursor.value(i.count);
  if (!op.is_operation()) return;
  if (i.opcode == Opcode::load || i.opcode == Opcode::store) return resolve_transfer(program, cursor, i.transfer, op);
  op.accumulate = i.opcode == Opcode::mma && cursor.value(i.count) != 0;
  op.views.resize(i.views.size());
  for (std::size_t v = 0; v < i.views.size(); ++v) resolve_view(program, cursor, i.views[v], op.views[v]);
  evaluate(cursor, i.extents, op.extents);
  evaluate(cursor, i.scalars, op.scalars);
  evaluate(cursor, i.accumulates, op.accumulates);
  evaluate(cursor, i.cores, op.cores);
  set_access(op);
  check_shapes(program, op);
}

namespace {

/// Rows of an axis that an index may select within the tensor, from `first` to `last`.
struct Nameable { std::int64_t first, last; };

/// Empty if a fill value replaces elements outside, or if several indices select along the axis.
std::optional<Nameable> nameable(const ResolvedTransfer& t, int axis) {
  if (t.has_fill) return std::nullopt;
  Nameable rows{-t.at[at(axis)], (*t.shape)[at(axis)] - 1 - t.at[at(axis)]};
  int indices = 0;
  for (const ResolvedTransfer::Dim& dim : t.dims) {
    if (dim.axis != axis) continue;
    indices += dim.through >= 0;
    if (dim.through < 0) (dim.step >= 0 ? rows.last : rows.first) -= dim.step * (dim.extent - 1);
  }
  return indices == 1 ? std::optional(rows) : std::nullopt;
}

}  // namespace

void read_rows(const CompiledProgram& program, const Tensors& tensors, Operation& op) {
  for (ResolvedTransfer::Dim& dim : op.transfer.dims) {
    if (dim.through < 0) continue;
    const std::optional<Nameable> rows = nameable(op.transfer, dim.axis);
    dim.rows.resize(at(std::max<std::int64_t>(0, dim.extent)));
    for (std::int64_t k = 0; k < dim.extent; ++k) {
      const std::int64_t position = dim.through_start + k * dim.step, row = tensors.read_flat(dim.through, position);
      if (rows && (row < rows->first || row > rows->last))
        throw UserError({"An index is out of range.",
                         "element " + std::to_string(position) + " of " + program.tensors[at(dim.through)].name,
                         std::to_string(row),
                         std::to_string(rows->first) + " to " + std::to_string(rows->last) + " on axis " +
                             std::to_string(dim.axis) + " of " + program.tensors[at(op.tensor)].name,
                         {}});
      dim.rows[at(k)] = row;
    }
  }
}

void perform(const CompiledProgram& program, Operation& op, Tensors& tensors, const BufferOf& buffer,
             TileExecutor& executor) {
  switch (op.opcode) {
    case Opcode::load:
      read_rows(program, tensors, op);
      op.transfer.tensor = tensors.bytes(op.tensor);
      return load_block(op.transfer, buffer(op.views[0]));
    case Opcode::store:
      read_rows(program, tensors, op);
      op.transfer.tensor = tensors.writable(op.tensor);
      return store_block(op.transfer, buffer(op.views[0]));
    case Opcode::opaque:
      if (std::get<OpaqueOp>(op.instruction->statement->action).product)
        return perform_sparse(program, op, buffer, executor);
      [[fallthrough]];
    default:
      return executor.run(tile_compute(program, op, buffer));
  }
}

std::string version_name(const CompiledProgram& program, int slot, std::int64_t version) {
  return program.slots[static_cast<std::size_t>(slot)].name + "[" + std::to_string(version) + "]";
}

std::string describe(const CompiledProgram& program, const Cursor& cursor, std::int64_t core, const Instruction& i) {
  static const char* const names[] = {"scope",   "end of scope", "acquire", "receive", "commit", "release",
                                      "wait",    "signal",       "load",    "store",   "mma",    "vector",
                                      "permute", "indexed",      "sort",    "opaque",  "send"};
  std::string text = "core " + std::to_string(core);
  if (const std::string where = cursor.where(); !where.empty()) text += " in " + where;
  if (i.queue >= 0) text += ", queue " + program.queues[static_cast<std::size_t>(i.queue)];
  text += std::string(", ") + names[static_cast<std::size_t>(i.opcode)];
  if (i.opcode == Opcode::load || i.opcode == Opcode::store) {
    const int tensor = cursor.tensor(i.transfer.tensor);
    text += std::string(i.opcode == Opcode::load ? " of " : " to ") +
            program.tensors[static_cast<std::size_t>(tensor)].name + " with " +
            version_name(program, i.transfer.slot, cursor.version(i.transfer.slot, i.transfer.back));
  } else if (i.slot >= 0) {
    text += " of " + version_name(program, i.slot, cursor.version(i.slot, i.back));
  } else if (i.counter >= 0) {
    text += " of " + program.counters[static_cast<std::size_t>(i.counter)].first;
  } else if (!i.views.empty() && i.views.back().slot >= 0) {
    text +=
        " on " + version_name(program, i.views.back().slot, cursor.version(i.views.back().slot, i.views.back().back));
  }
  if (i.statement && !i.statement->label.empty()) text += " (" + i.statement->label + ")";
  return text;
}

}  // namespace tilesim::program
