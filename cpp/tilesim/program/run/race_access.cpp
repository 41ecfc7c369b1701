// Checks per element that an operation knows of the completion of conflicting earlier accesses.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/program/run/races.hpp"
#include "tilesim/program/run/visit_view.hpp"

namespace tilesim::program {

std::int32_t Races::with_reader(std::int32_t set, std::int32_t id) {
  if (set == last_set_.first) return last_set_.second;
  const auto [entry, fresh] = larger_sets_.try_emplace({set, id}, static_cast<std::int32_t>(reader_sets_.size()));
  if (fresh) {
    std::vector<std::int32_t> members = reader_sets_[at(set)];
    if (std::find(members.begin(), members.end(), id) != members.end()) {
      entry->second = set;
    } else {
      members.push_back(id);
      reader_sets_.push_back(std::move(members));
    }
  }
  last_set_ = {set, entry->second};
  return entry->second;
}

void Races::check_readers(std::int32_t set, const EventSet& events, std::int32_t id, const std::string& what) const {
  if (set == 0) return;
  for (const std::int32_t reader : reader_sets_[at(set)]) {
    // The operation's own reads precede its writes.
    if (reader != id && !events.consumed(reader)) {
      race("Overwrites " + what + " that an earlier operation may not have read yet", reader);
    }
  }
}

void Races::read_element(Version& v, std::int64_t element, const EventSet& events, std::int32_t id) {
  const std::int32_t writer = v.writer[at(element)];
  if (writer == unwritten) race("Reads element " + std::to_string(element) + ", which nothing wrote in this version");
  if (writer != checked_writer_) {
    if (!events.complete(writer)) race("Reads what an earlier operation may not have written yet", writer);
    checked_writer_ = writer;
  }
  std::int32_t& readers = v.readers[at(element)];
  readers = with_reader(readers, id);
}

void Races::write_element(Version& v, std::int64_t element, const EventSet& events, std::int32_t id) {
  std::int32_t& writer = v.writer[at(element)];
  if (writer >= 0 && writer != checked_writer_ && writer != id) {
    if (!events.complete(writer)) race("Writes what an earlier operation may still write", writer);
    checked_writer_ = writer;
  }
  std::int32_t& readers = v.readers[at(element)];
  check_readers(readers, events, id, "elements");
  writer = id;
  readers = 0;
}

void Races::access(std::size_t stream, const Operation& op, const SlotView& view, bool write, const EventSet& events,
                   std::int32_t id) {
  Version& v = live(stream, op.queue, view.slot, view.version);
  for_each_element(view, [&](std::int64_t element) {
    if (write) {
      write_element(v, element, events, id);
    } else {
      read_element(v, element, events, id);
    }
  });
}

void Races::access_transfer(std::size_t stream, const Operation& op, const EventSet& events, std::int32_t id) {
  const bool load = op.opcode == Opcode::load;
  const SlotView& view = op.views[0];
  Version& v = live(stream, op.queue, view.slot, view.version);
  read_through(op, events, id);
  use_resident(stream, op, events, id);
  for_each_run(op.transfer, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t element = run.slot_offset + i * run.slot_stride;
      if (run.inside) touch_memory(op.tensor, run.tensor_offset + i * run.tensor_stride, !load, events, id);
      if (load)
        write_element(v, element, events, id);
      else if (run.inside)
        read_element(v, element, events, id);
    }
  });
}

/// A version of a slot starts on bytes of values in the scratchpad: its first user must know that these values are no
/// longer used.
void Races::take_residents(std::size_t stream, int slot, std::int64_t number, const EventSet& events) {
  const CompiledSlot& own = program_.slots[at(slot)];
  if (own.accumulator) return;
  const std::int64_t low = own.address + number % own.depth * own.bytes;
  residents_.overlapping(low, low + own.bytes, [&](const Residents::ResidentTensor& place) {
    const std::int64_t missing = streams_[stream].residents[place.tensor].first_missing_in(events);
    if (missing >= 0)
      race(version_name(program_, slot, number) + " takes bytes of " + program_.tensors[at(place.tensor)].name +
               " that an earlier operation may still use",
           static_cast<std::int32_t>(missing / 2));
  });
}

/// A store to a value in the scratchpad must know that earlier slots and values on its bytes are no longer used.
void Races::use_resident(std::size_t stream, const Operation& op, const EventSet& events, std::int32_t id) {
  const Residents::ResidentTensor* place = residents_.find(op.tensor);
  if (!place) return;
  Stream& s = streams_[stream];
  EventSet& used = s.residents[place->tensor];
  if (op.opcode != Opcode::store) {
    for (Stream& holder : streams_)  // any stream may have the read elements
      if (&holder == &s || place->shared) holder.residents[place->tensor].add_consumed(id);
    return;
  }
  used.add_complete(id);
  const std::string& name = program_.tensors[at(place->tensor)].name;
  for (const auto& [buffer, released] : s.freed) {
    const CompiledSlot& slot = program_.slots[at(buffer.first)];
    const std::int64_t from = slot.address + buffer.second * slot.bytes;
    if (slot.accumulator || from >= place->high || from + slot.bytes <= place->low) continue;
    if (const std::int64_t missing = released.first_missing_in(events); missing >= 0)
      race("Stores " + name + " where slot " + slot.name + " may still be used",
           static_cast<std::int32_t>(missing / 2));
  }
  residents_.overlapping(place->low, place->high, [&](const Residents::ResidentTensor& other) {
    if (other.tensor == place->tensor) return;
    if (const std::int64_t missing = s.residents[other.tensor].first_missing_in(events); missing >= 0)
      race("Stores " + name + " where " + program_.tensors[at(other.tensor)].name + " may still be used",
           static_cast<std::int32_t>(missing / 2));
  });
}

void Races::read_through(const Operation& op, const EventSet& events, std::int32_t id) {
  for (const ResolvedTransfer::Dim& dim : op.transfer.dims) {
    if (dim.through < 0) continue;
    for (std::int64_t k = 0; k < dim.extent; ++k) {
      touch_memory(dim.through, dim.through_start + k * dim.step, false, events, id);
    }
  }
}

void Races::touch_memory(int tensor, std::int64_t element, bool write, const EventSet& events, std::int32_t id) {
  const CompiledTensor& t = program_.tensors[at(tensor)];
  Memory& memory = memories_[at(t.storage)];
  const std::int64_t units = host_bytes(t.dtype) / memory.unit;
  for (std::int64_t unit = element * units; unit < (element + 1) * units; ++unit) {
    std::int32_t& writer = memory.writer[at(unit)];
    if (!write && writer == unwritten) race("Reads elements of " + t.name + " that nothing has stored");
    if (writer >= 0 && writer != id && !events.complete(writer)) {
      race(std::string(write ? "Writes to " : "Reads from ") + t.name +
               " what an earlier store may not have written yet",
           writer);
    }
    std::int32_t& readers = memory.readers[at(unit)];
    if (!write) {
      readers = with_reader(readers, id);
      continue;
    }
    check_readers(readers, events, id, "elements of " + t.name);
    writer = id;
    readers = 0;
  }
}

void Races::walker_reads(std::size_t stream, int tensor, std::int64_t position) {
  const CompiledTensor& t = program_.tensors[at(tensor)];
  const Memory& memory = memories_[at(t.storage)];
  const std::int64_t units = host_bytes(t.dtype) / memory.unit;
  for (std::int64_t unit = position * units; unit < (position + 1) * units; ++unit) {
    const std::int32_t writer = memory.writer[at(unit)];
    if (writer == given) continue;
    if (writer == unwritten || !streams_[stream].walker.complete(writer)) {
      race("An expression reads from " + t.name +
               " what an earlier store may not have written yet: a barrier is missing",
           writer);
    }
  }
}

void Races::record(Version& v, int queue, const EventSet& events, std::int32_t id, bool writes) {
  Uses& uses = v.by_queue[queue];
  uses.users.add(events);
  uses.users.add_consumed(id);
  v.needed.add_consumed(id);
  if (!writes) return;
  uses.writes.add(events);
  uses.writes.add_complete(id);
  v.needed.add_complete(id);
}

}  // namespace tilesim::program
