// Loads, stores, computes and sends of the walk in text order, and its errors.
#include <algorithm>
#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/program/run/text_run.hpp"

namespace tilesim::program {

void TextRun::operation(Stream& stream) {
  Operation& op = stream.op;
  for (const SlotView& view : op.views) live(stream, view.slot, view.version);
  if (options_.races) {
    name_statement(stream);
    if (options_.tensors) read_rows(program_, *options_.tensors, op);
    options_.races->operation(stream.id, op);
  }
  if (op.opcode == Opcode::load || op.opcode == Opcode::store) use_resident(stream);
  if (op.opcode == Opcode::store) {
    if (op.counter >= 0) ++counters_[at(op.counter)][at(op.cell)];
    if (!stream.touched.empty()) stream.touched.back().stored.insert(op.tensor);
  }
  if (op.opcode == Opcode::load && options_.execute && options_.execute->observe && !stream.touched.empty())
    stream.touched.back().loaded.insert(op.tensor);
  if (!options_.tensors) return;
  perform(
      program_, op, *options_.tensors,
      [&](const SlotView& view) { return buffer(stream, view.slot, view.version).bytes.data(); }, executor_);
}

/// Throws if a value in the scratchpad overlaps a slot in use.
void TextRun::use_resident(Stream& stream) {
  const Residents::ResidentTensor* place = residents_.find(stream.op.tensor);
  if (!place) return;
  if (const auto* slot = stream.live.overlapping(false, place->low, place->high))
    fail(stream, "Slot " + program_.slots[at(slot->first)].name + " lies on bytes of tensor " +
                     program_.tensors[at(place->tensor)].name);
  if (options_.tensors) residents_.access(stream.id, stream.op, poison_ ? options_.tensors : nullptr);
}

bool TextRun::send(Stream& stream) {
  Operation& op = stream.op;
  std::vector<std::size_t> targets;
  std::vector<std::int64_t> versions;
  for (const std::int64_t core : op.cores) {
    const std::size_t before = targets.size();
    for (const auto& other : streams_) {
      // A send reaches the context with the same number on the other core.
      if (other->core != core ||
          other->id % at(program_.program().contexts) != stream.id % at(program_.program().contexts))
        continue;
      const Ring& ring = other->rings[at(op.slot)];
      if (ring.received <= ring.sent || !is_room(*other, op.slot, ring.sent)) return false;
      targets.push_back(other->id);
      versions.push_back(ring.sent);
    }
    if (targets.size() == before) {
      throw UserError({"A send names an unknown core.",
                       {},
                       std::to_string(core),
                       "0 to " + std::to_string(program_.program().cores - 1),
                       {}});
    }
  }
  live(stream, op.views[0].slot, op.views[0].version);
  if (options_.races) {
    name_statement(stream);
    options_.races->send(stream.id, op, targets, versions);
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Stream& target = *streams_[targets[i]];
    start_version(target, op.slot, versions[i]);
    ++target.rings[at(op.slot)].sent;
    DataBuffer& b = buffer(target, op.slot, versions[i]);
    b.pieces = op.pieces;
    if (!options_.tensors) continue;
    const SlotView& from = op.views[0];
    execute(Permute{tile_view(program_, from, buffer(stream, from.slot, from.version).bytes.data()),
                    tile_view(program_, op.views[1], b.bytes.data())});
  }
  return true;
}

void TextRun::name_statement(const Stream& stream) {
  options_.races->set_statement(describe(program_, stream.cursor, stream.core, *stream.op.instruction));
}

/// Requires that all versions of the slots that scope `scope` declares (-1: the program) are free at its end.
void TextRun::check_released(Stream& stream, int scope) {
  if (!options_.must_release) return;
  stream.live.each([&](const std::pair<int, int>& owner) {
    const auto [slot, index] = owner;
    const CompiledSlot& s = program_.slots[at(slot)];
    if (s.scope != scope) return;
    const DataBuffer& b = stream.rings[at(slot)].buffers[at(index)];
    const std::uint32_t missing = s.consumers & ~b.released;
    std::vector<std::string> queues;
    for (std::size_t q = 0; q < program_.queues.size(); ++q) {
      if (missing >> q & 1) queues.push_back(program_.queues[q]);
    }
    throw RaceError({"A version is never released by queue " + join(queues) + ".",
                     "core " + std::to_string(stream.core) + ", slot " + version_name(program_, slot, b.version),
                     {},
                     {},
                     {}});
  });
}

std::string TextRun::waits_for(const Stream& stream) const {
  const Operation& op = stream.op;
  std::string text = describe(program_, stream.cursor, stream.core, *op.instruction) + ": ";
  if (op.opcode == Opcode::wait && op.counter >= 0) {
    return text + "has " + std::to_string(counters_[at(op.counter)][at(op.cell)]) + " of " + std::to_string(op.pieces);
  }
  if (op.opcode == Opcode::wait) {
    const Ring& ring = stream.rings[at(op.slot)];
    const DataBuffer& b = ring.buffers[at(op.version) % ring.buffers.size()];
    if (b.version != op.version) return text + "was never received";
    return text + "has " + std::to_string(b.pieces) + " of " + std::to_string(op.pieces) + " pieces";
  }
  if (op.opcode == Opcode::send) return text + "a destination has no free buffer, or no 'receive' for it";
  const CompiledSlot& own = program_.slots[at(op.slot)];
  std::vector<std::string> occupied;
  stream.live.each([&](const std::pair<int, int>& owner) {
    const auto [slot, index] = owner;
    const CompiledSlot& s = program_.slots[at(slot)];
    const std::int64_t from = s.address + index * s.bytes, low = own.address + op.version % own.depth * own.bytes;
    if (s.accumulator != own.accumulator || from >= low + own.bytes || from + s.bytes <= low) return;
    const DataBuffer& b = stream.rings[at(slot)].buffers[at(index)];
    std::vector<std::string> queues;
    for (std::size_t q = 0; q < program_.queues.size(); ++q) {
      if ((s.consumers & ~b.released) >> q & 1) queues.push_back(program_.queues[q]);
    }
    occupied.push_back(version_name(program_, slot, b.version) + " is not released by queue " + join(queues));
  });
  return text + join(occupied);
}

void TextRun::stuck() const {
  std::string place;
  for (const auto& stream : streams_) {
    if (!stream->finished) place += (place.empty() ? "" : "; ") + waits_for(*stream);
  }
  throw RaceError({"Text order is deadlocked: a statement waits for an event that never happens.", place, {}, {}, {}});
}

void TextRun::fail(const Stream& stream, const std::string& what) const {
  throw RaceError({what + ".", describe(program_, stream.cursor, stream.core, *stream.op.instruction), {}, {}, {}});
}

}  // namespace tilesim::program
