// From a stream's cursor into its queues: statements are resolved here, in text order.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/simulator.hpp"

namespace tilesim::engine {

using program::Opcode;

namespace {
constexpr std::int64_t longest_operation = std::int64_t{1} << 50;

void check_index(const program::Cursor& cursor, const std::string& what, std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size)
    throw UserError({"the index of a " + what + " is out of range",
                     cursor.where(),
                     std::to_string(index),
                     "0 to " + std::to_string(size - 1),
                     {}});
}

std::int64_t counter_index(const Stream& stream, const program::Instruction& instruction) {
  const std::int64_t index = stream.cursor.value(instruction.index);
  const auto& [name, size] = stream.program->counters[static_cast<std::size_t>(instruction.counter)];
  check_index(stream.cursor, "counter", index, size);
  return index;
}
}  // namespace

void Simulator::dispatch(int id) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  if (stream.finished || now_ < stream.stalled_until) return;
  while (true) {
    const program::Instruction* instruction = stream.held ? stream.held : stream.cursor.next();
    if (!instruction) {
      if (stream.entries_in_queues > 0) return;
      if (now_ < stream.done_until)
        push(EventKind::stream, stream.done_until, id, 0);
      else
        finish_stream(id);
      return;
    }
    stream.held = instruction;
    if (!dispatch_one(id, *instruction)) return;
    stream.held = nullptr;
    if (now_ < stream.stalled_until) return;
  }
}

bool Simulator::begin_scope(int id, const program::Instruction& instruction) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  const program::Scope& scope = *stream.program->scopes[static_cast<std::size_t>(instruction.scope)].scope;
  if (scope.barrier && (stream.entries_in_queues > 0 || now_ < stream.done_until)) {
    if (stream.entries_in_queues == 0) push(EventKind::stream, stream.done_until, id, 0);
    return false;
  }
  if (scope.kernel.empty()) return true;
  const bool outermost = stream.kernels.empty();
  stream.kernels.push_back(instruction.scope);
  const std::int64_t launched = stream.kind->after(now_, scope.launch_cycles);
  if (outermost) begin_kernel(id, instruction.scope, launched - now_);
  if (launched > now_) {
    stream.stalled_until = launched;
    stream.done_until = std::max(stream.done_until, stream.stalled_until);
    push(EventKind::stream, stream.stalled_until, id, 0);
  }
  return true;
}

void Simulator::end_scope(int id, const program::Instruction& instruction) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  end_slots(stream, instruction.scope);
  if (stream.kernels.empty() || stream.kernels.back() != instruction.scope) return;
  stream.kernels.pop_back();
  if (!stream.kernels.empty()) return;
  stream.running.back().ended = true;
  settle(stream);
}

KernelCounters* Simulator::kernel_of(const Stream& stream, const Entry& entry) {
  if (entry.scope < 0) return nullptr;
  return &jobs_[static_cast<std::size_t>(stream.job)]->kernels[static_cast<std::size_t>(entry.scope)];
}

bool Simulator::dispatch_one(int id, const program::Instruction& instruction) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  switch (instruction.opcode) {
    case Opcode::scope_begin:
      return begin_scope(id, instruction);
    case Opcode::scope_end:
      end_scope(id, instruction);
      return true;
    case Opcode::receive: {
      SlotState& slot = stream.slots[static_cast<std::size_t>(instruction.slot)];
      ++slot.received;
      const std::int64_t version = stream.cursor.version(instruction.slot, 0);
      slot.dispatched[static_cast<std::size_t>(version) % slot.dispatched.size()] = 0;
      slot.epochs.resize(slot.dispatched.size());
      slot.epochs[static_cast<std::size_t>(version) % slot.epochs.size()] = stream.ended_scopes;
      wake_senders(slot.remote_waiting);
      return true;
    }
    default:
      break;
  }
  const bool several = instruction.opcode == Opcode::acquire;
  const std::int32_t single[1] = {instruction.queue};
  const std::span<const std::int32_t> queues =
      several ? std::span<const std::int32_t>(instruction.queues) : std::span<const std::int32_t>(single);
  for (std::int32_t queue : queues)
    if (stream.queues[static_cast<std::size_t>(queue)].entries.full()) return false;
  for (std::int32_t queue : queues) {
    Queue& target = stream.queues[static_cast<std::size_t>(queue)];
    const bool idle = target.entries.empty();
    Entry& entry = target.entries.push();
    resolve(id, instruction, entry);
    ++stream.entries_in_queues;
    if (idle) wake(id, queue, now_);
  }
  ++tile_operations_;
  return true;
}

void Simulator::resolve(int id, const program::Instruction& instruction, Entry& entry) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  const program::Cursor& cursor = stream.cursor;
  entry.opcode = instruction.opcode;
  entry.instruction = &instruction;
  entry.slot = instruction.slot;
  entry.counter = instruction.counter;
  if (!stream.kernels.empty()) {
    entry.scope = stream.kernels.front();
    entry.kernel = stream.first_running + static_cast<std::int64_t>(stream.running.size()) - 1;
    ++stream.running.back().pending;
  }
  switch (instruction.opcode) {
    case Opcode::acquire: {
      entry.version = cursor.version(instruction.slot, 0);
      entry.epoch = stream.ended_scopes;
      SlotState& slot = stream.slots[static_cast<std::size_t>(instruction.slot)];
      slot.dispatched[static_cast<std::size_t>(entry.version) % slot.dispatched.size()] = 0;
      break;
    }
    case Opcode::commit: {
      entry.version = cursor.version(instruction.slot, instruction.back);
      entry.pieces = instruction.pieces;
      SlotState& slot = stream.slots[static_cast<std::size_t>(instruction.slot)];
      entry.sequence = slot.dispatched[static_cast<std::size_t>(entry.version) % slot.dispatched.size()]++;
      break;
    }
    case Opcode::release:
      entry.version = cursor.version(instruction.slot, instruction.back);
      break;
    case Opcode::wait:
      entry.pieces = cursor.value(instruction.count);
      if (instruction.counter >= 0)
        entry.index = counter_index(stream, instruction);
      else
        entry.version = cursor.version(instruction.slot, instruction.back);
      break;
    case Opcode::signal:
      entry.pieces = cursor.value(instruction.count);
      entry.index = counter_index(stream, instruction);
      entry.core = cursor.value(instruction.core);
      check_index(cursor, "core", entry.core, stream.program->program().cores);
      break;
    case Opcode::load:
    case Opcode::store: {
      const JobState& job = *jobs_[static_cast<std::size_t>(stream.job)];
      if (tensors_ || banks_) entry.pattern = new_pattern(job, cursor, instruction.transfer);
      const Moved moved =
          moved_bytes(*stream.program, *job.map, cursor, instruction.transfer, machine_.memory.burst_bytes,
                      entry.pattern < 0 ? nullptr : &patterns_[static_cast<std::size_t>(entry.pattern)]);
      entry.address = moved.address;
      entry.bytes = moved.bytes;
      entry.index_bytes = moved.index_bytes;
      entry.elements = moved.elements;
      if (instruction.counter >= 0) entry.index = counter_index(stream, instruction);
      break;
    }
    case Opcode::mma:
      resolve_mma(stream, instruction, entry);
      break;
    case Opcode::send: {
      std::int64_t elements = 1;
      for (const auto& [extent, stride] : instruction.views[0].dims)
        elements *= std::max<std::int64_t>(0, cursor.value(extent));
      entry.bytes =
          packed_bytes(stream.program->slots[static_cast<std::size_t>(instruction.views[0].slot)].dtype, elements);
      entry.pieces = instruction.pieces;
      for (const CompiledExpr& core : instruction.cores) {
        const std::int64_t target = cursor.value(core);
        check_index(cursor, "core", target, std::min<std::int64_t>(64, stream.program->program().cores));
        entry.core |= std::int64_t{1} << target;
      }
      break;
    }
    default:
      resolve_vector(stream, instruction, entry);
      break;
  }
}

namespace {

/// Packed dims of a product are neighbours in its first operand: the array takes them as one row.
void check_packed(const std::string& slot, const program::MmaOp& op, const program::CompiledView& a,
                  const program::Cursor& cursor) {
  std::int64_t neighbour = 1;
  for (int i = 0; i < op.packed; ++i) {
    const auto& dim = a.dims[a.dims.size() - 1 - static_cast<std::size_t>(i)];
    const std::int64_t size = cursor.value(dim.first), stride = cursor.value(dim.second);
    if (size > 1 && stride != neighbour)
      throw UserError({"packed dims of a product are not neighbours in its first operand",
                       cursor.where() + ", slot " + slot,
                       "stride " + std::to_string(stride),
                       std::to_string(neighbour),
                       {}});
    neighbour *= size;
  }
}

}  // namespace

void Simulator::resolve_mma(Stream& stream, const program::Instruction& instruction, Entry& entry) {
  const program::Cursor& cursor = stream.cursor;
  const auto& op = std::get<program::MmaOp>(instruction.statement->action);
  const program::CompiledView &a = instruction.views[0], &b = instruction.views[1];
  Descriptor& d = entry.descriptor;
  d.kind = ComputeKind::mma;
  d.dtype = stream.program->slots[static_cast<std::size_t>(a.slot)].dtype;
  d.second = stream.program->slots[static_cast<std::size_t>(b.slot)].dtype;
  d.stationary_a = op.stationary_a;
  double work = 1;
  const auto take = [&](const program::CompiledView& view, int index) {
    const std::int64_t extent = cursor.value(view.dims[static_cast<std::size_t>(index)].first);
    work *= static_cast<double>(extent);
    return extent;
  };
  int index = 0;
  for (int i = 0; i < op.batch_dims; ++i) d.batch *= take(a, index++);
  for (int i = 0; i < op.m_dims; ++i) {
    std::int64_t extent = take(a, index++);
    // Registers of several sublanes enter the array whole: the innermost row dim rounds up.
    if (i + 1 == op.m_dims && machine_.layout.tile.size() == 2) extent = round_up(extent, machine_.layout.tile[0]);
    d.m *= extent;
  }
  for (int i = 0; i < op.k_dims; ++i) {
    const std::int64_t extent = take(a, index++);
    if (i + op.packed >= op.k_dims)
      d.k *= extent;
    else
      d.k_outer *= extent;
  }
  if (op.packed > 1) check_packed(stream.program->slots[static_cast<std::size_t>(a.slot)].name, op, a, cursor);
  for (int i = 0; i < op.n_dims; ++i) d.n *= take(b, op.batch_dims + op.k_dims + i);
  entry.work = work;
  const program::CompiledView& kept = op.stationary_a ? a : b;
  const bool one_tile = d.batch == 1 && d.k_outer == 1 && d.k <= stream.kind->core.array.rows &&
                        (op.stationary_a ? d.m : d.n) <= stream.kind->core.array.columns;
  if (one_tile)
    entry.weights = (cursor.version(kept.slot, kept.back) << 24 | kept.slot) ^ cursor.value(kept.offset) << 40;
}

void Simulator::resolve_vector(Stream& stream, const program::Instruction& instruction, Entry& entry) {
  const program::Cursor& cursor = stream.cursor;
  Descriptor& d = entry.descriptor;
  const auto elements_of = [&](const program::CompiledView& view) {
    std::int64_t count = 1;
    for (const auto& [extent, stride] : view.dims) count *= std::max<std::int64_t>(0, cursor.value(extent));
    return count;
  };
  const auto dtype_of = [&](std::size_t view) {
    return stream.program->slots[static_cast<std::size_t>(instruction.views[view].slot)].dtype;
  };
  if (!instruction.views.empty()) d.dtype = dtype_of(0);
  switch (instruction.opcode) {
    case Opcode::vector: {
      const auto& op = std::get<program::VectorOp>(instruction.statement->action);
      const JobState& job = *jobs_[static_cast<std::size_t>(stream.job)];
      const StaticCost& cost =
          job.costs[static_cast<std::size_t>(&instruction - stream.program->instructions().data())];
      d.kind = ComputeKind::vector;
      d.elements = 1;
      for (std::size_t i = 0; i < instruction.extents.size(); ++i) {
        const std::int64_t extent = std::max<std::int64_t>(0, cursor.value(instruction.extents[i]));
        d.elements *= extent;
        const bool lane = op.lane_dim >= 0 ? static_cast<int>(i) == op.lane_dim : i + 1 == instruction.extents.size();
        if (lane) d.lane_extent = extent;
      }
      d.functions = cost.functions;
      d.lane_reductions = cost.lane_reductions;
      d.lane_scans = cost.lane_scans;
      entry.work = static_cast<double>(d.elements) * cost.functions_total;
      break;
    }
    case Opcode::permute:
    case Opcode::indexed:
    case Opcode::sort:
      d.kind = instruction.opcode == Opcode::permute   ? ComputeKind::permute
               : instruction.opcode == Opcode::indexed ? ComputeKind::indexed
                                                       : ComputeKind::sort;
      d.elements = elements_of(instruction.views[0]);
      if (!instruction.views[0].dims.empty()) d.lane_extent = cursor.value(instruction.views[0].dims.back().first);
      if (d.kind == ComputeKind::sort) d.k = cursor.value(instruction.views[1].dims.back().first);
      break;
    default:
      d.kind = ComputeKind::opaque;
      d.duration = cursor.value(instruction.count);
      if (d.duration < 0 || d.duration > longest_operation)
        throw UserError({"an opaque operation declares an impossible duration",
                         cursor.where(),
                         std::to_string(d.duration) + " cycles",
                         "0 to " + std::to_string(longest_operation),
                         {}});
      break;
  }
}

}  // namespace tilesim::engine
