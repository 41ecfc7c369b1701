#include "tilesim/program/run/races.hpp"

#include <algorithm>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/program/run/execute.hpp"
#include "tilesim/program/run/visit_view.hpp"

namespace tilesim::program {

Races::Races(const CompiledProgram& program, std::size_t streams)
    : program_(program), streams_(streams), residents_(program, streams, false), memories_(program.tensors.size()) {
  for (Stream& stream : streams_) {
    stream.queues.resize(program.queues.size());
    stream.done.resize(program.queues.size());
    for (const CompiledSlot& slot : program.slots) stream.rings.emplace_back(at(slot.depth));
  }
  for (const CompiledTensor& t : program.tensors) {
    Memory& memory = memories_[at(t.storage)];
    const std::int64_t bytes = host_bytes(t.dtype);
    memory.unit = memory.unit == 0 ? bytes : std::min(memory.unit, bytes);
    const std::int64_t units = element_count(t.shape) * host_bytes(t.dtype) / memory.unit;
    const Role role = program.tensors[at(t.storage)].tensor->role;
    const bool fresh = role == Role::output || role == Role::temporary;
    memory.writer.assign(at(units), fresh ? unwritten : given);
    memory.readers.assign(at(units), 0);
  }
}

void Races::race(const std::string& what, std::int32_t other) const {
  std::string text = what;
  if (other >= 0) text += " (" + names_[at(other)] + ")";
  throw RaceError({text + ".", statement_, {}, {}, {}});
}

Races::Version& Races::version(std::size_t stream, int slot, std::int64_t number) {
  auto& ring = streams_[stream].rings[at(slot)];
  return ring[at(number) % ring.size()];
}

Races::Version& Races::live(std::size_t stream, int queue, int slot, std::int64_t number) {
  Version& v = version(stream, slot, number);
  if (v.number != number || !(v.live_for >> queue & 1)) {
    race("Uses " + version_name(program_, slot, number) + " without having acquired or waited for it");
  }
  return v;
}

void Races::start_version(std::size_t stream, int slot, std::int64_t number, EventSet& events) {
  // Events that free these bytes: of the buffer's previous version, and of versions of other scopes on these bytes.
  Stream& s = streams_[stream];
  const CompiledSlot& own = program_.slots[at(slot)];
  const auto buffer = static_cast<int>(number % own.depth);
  const std::int64_t low = own.address + buffer * own.bytes, high = low + own.bytes;
  for (auto entry = s.freed.begin(); entry != s.freed.end();) {
    const CompiledSlot& other = program_.slots[at(entry->first.first)];
    const std::int64_t from = other.address + entry->first.second * other.bytes, to = from + other.bytes;
    const bool overlaps = other.accumulator == own.accumulator && from < high && to > low;
    if (overlaps) events.add(entry->second);
    const bool covered = overlaps && from >= low && to <= high;
    entry = covered ? s.freed.erase(entry) : std::next(entry);
  }
  Version& v = version(stream, slot, number);
  v = Version{};
  v.number = number;
  v.writer.assign(at(own.elements), unwritten);
  v.readers.assign(at(own.elements), 0);
}

void Races::acquire(std::size_t stream, const Operation& op) {
  EventSet events;
  start_version(stream, op.slot, op.version, events);
  Version& v = version(stream, op.slot, op.version);
  for (const std::int32_t queue : op.instruction->queues) {
    streams_[stream].queues[at(queue)].add(events);
    take_residents(stream, op.slot, op.version, streams_[stream].queues[at(queue)]);
    v.live_for |= 1U << queue;
  }
}

void Races::commit(std::size_t stream, const Operation& op) {
  Version& v = live(stream, op.queue, op.slot, op.version);
  EventSet events = streams_[stream].queues[at(op.queue)];
  if (const auto uses = v.by_queue.find(op.queue); uses != v.by_queue.end())
    events.add(uses->second.users), events.add(uses->second.writes);
  std::int64_t total = op.pieces;
  if (!v.commits.empty()) {
    events.add(v.commits.back().second);
    total += v.commits.back().first;
  }
  const std::int32_t id = begin_operation();
  commits_.insert(id);
  events.add_complete(id);
  v.needed.add_complete(id);
  streams_[stream].shown.add_complete(id);
  v.commits.emplace_back(total, std::move(events));
}

void Races::release(std::size_t stream, const Operation& op, bool freed) {
  Version& v = live(stream, op.queue, op.slot, op.version);
  v.released.add(streams_[stream].queues[at(op.queue)]);
  if (const auto uses = v.by_queue.find(op.queue); uses != v.by_queue.end()) v.released.add(uses->second.users);
  if (!freed) return;
  const std::int64_t missing = v.needed.first_missing_in(v.released);
  if (missing >= 0) {
    const auto other = static_cast<std::int32_t>(missing / 2);
    const std::string what = commits_.count(other) != 0 ? "a commit to it may not have shown yet"
                             : missing % 2 == 1         ? "an operation may still write to it"
                                                        : "an operation may still read it";
    race(version_name(program_, op.slot, op.version) + " is free while " + what, other);
  }
  const auto depth = program_.slots[at(op.slot)].depth;
  streams_[stream].freed[{op.slot, static_cast<int>(op.version % depth)}] = v.released;
}

void Races::wait_slot(std::size_t stream, const Operation& op) {
  Version& v = version(stream, op.slot, op.version);
  // A wait for no pieces implies only that the version was acquired.
  if (op.pieces <= 0) v.live_for |= 1U << op.queue;
  for (const auto& [total, events] : v.commits) {
    if (op.pieces <= 0 || total < op.pieces) continue;
    streams_[stream].queues[at(op.queue)].add(events);
    v.live_for |= 1U << op.queue;
    return;
  }
}

/// A signal must have happened only if the count cannot be reached without it. Signals of one source happen in order.
std::vector<std::size_t> Races::needed_signals(const std::vector<Signal>& made, const std::vector<std::size_t>& before,
                                               std::int64_t pieces) const {
  std::int64_t total = 0;
  std::map<std::int64_t, std::int64_t> left;  // per source: number of its remaining signals
  for (const std::size_t i : before) {
    total += made[i].count;
    left[made[i].source] += made[i].count;
  }
  std::vector<std::size_t> needed;
  for (const std::size_t i : before) {
    if (total - left[made[i].source] < pieces) needed.push_back(i);
    left[made[i].source] -= made[i].count;
  }
  return needed;
}

void Races::wait_counter(std::size_t stream, const Operation& op) {
  const std::pair<int, std::int64_t> cell{op.counter, op.cell};
  const std::vector<Signal>& made = signals_[cell];
  CounterWait wait{begin_operation(), op.pieces, std::vector<std::size_t>(made.size()), {}, statement_};
  std::iota(wait.before.begin(), wait.before.end(), std::size_t{0});
  wait.relied = needed_signals(made, wait.before, op.pieces);
  EventSet& events = streams_[stream].queues[at(op.queue)];
  for (const std::size_t i : wait.relied) events.add(made[i].events);
  events.add_complete(wait.event);
  if (!wait.relied.empty()) counter_waits_[cell].push_back(std::move(wait));
}

/// A new signal that need not follow an earlier wait may precede it, and replace a signal on which the wait relied.
void Races::add_signal(std::pair<int, std::int64_t> cell, Signal signal) {
  std::vector<Signal>& made = signals_[cell];
  made.push_back(std::move(signal));
  for (CounterWait& wait : counter_waits_[cell]) {
    if (made.back().events.complete(wait.event)) continue;
    wait.before.push_back(made.size() - 1);
    const std::vector<std::size_t> needed = needed_signals(made, wait.before, wait.pieces);
    for (const std::size_t i : wait.relied) {
      if (std::ranges::binary_search(needed, i)) continue;
      race("An earlier wait (" + wait.statement + ") may count this signal instead of that of " + made[i].statement);
    }
  }
}

void Races::signal(std::size_t stream, const Operation& op) {
  EventSet events = streams_[stream].queues[at(op.queue)];
  events.add(streams_[stream].done[at(op.queue)]);
  const auto source = static_cast<std::int64_t>(stream) * 32 + op.queue;
  add_signal({op.counter, op.cell}, {std::move(events), source, op.pieces, statement_});
}

std::int32_t Races::begin_operation() {
  names_.push_back(statement_);
  checked_writer_ = given;
  last_set_ = {-1, -1};
  return static_cast<std::int32_t>(names_.size()) - 1;
}

/// Computes of one queue update a version in order.
void Races::add_update_order(Stream& stream, const Operation& op, EventSet& events) {
  if (!op.is_compute()) return;
  for (const SlotView& view : op.views) {
    if (!view.written) continue;
    auto& ring = stream.rings[at(view.slot)];
    Version& v = ring[at(view.version) % ring.size()];
    if (v.number != view.version) continue;
    const auto uses = v.by_queue.find(op.queue);
    if (uses == v.by_queue.end()) continue;
    events.add(uses->second.users);
    events.add(uses->second.writes);
  }
}

void Races::operation(std::size_t stream, const Operation& op) {
  EventSet events = streams_[stream].queues[at(op.queue)];
  add_update_order(streams_[stream], op, events);
  const std::int32_t id = begin_operation();
  if (op.opcode == Opcode::load || op.opcode == Opcode::store) {
    access_transfer(stream, op, events, id);
  } else {
    for (const SlotView& view : op.views) {
      if (view.read) access(stream, op, view, false, events, id);
    }
    for (const SlotView& view : op.views) {
      if (view.written) access(stream, op, view, true, events, id);
    }
  }
  finish_operation(stream, op, events, id);
}

void Races::finish_operation(std::size_t stream, const Operation& op, const EventSet& events, std::int32_t id) {
  for (const SlotView& view : op.views) {
    if (op.opcode == Opcode::send && view.written) continue;
    record(version(stream, view.slot, view.version), op.queue, events, id, view.written);
  }
  EventSet& done = streams_[stream].done[at(op.queue)];
  done.add(events);
  done.add_complete(id);
  if (op.opcode != Opcode::store || op.counter < 0) return;
  EventSet shown = events;
  shown.add_complete(id);
  // Stores complete in any order, so each is a separate source.
  add_signal({op.counter, op.cell}, {std::move(shown), -1 - static_cast<std::int64_t>(id), 1, statement_});
}

void Races::send(std::size_t stream, const Operation& op, const std::vector<std::size_t>& streams,
                 const std::vector<std::int64_t>& versions) {
  EventSet events = streams_[stream].queues[at(op.queue)];
  for (std::size_t i = 0; i < streams.size(); ++i) {
    EventSet room;
    start_version(streams[i], op.slot, versions[i], room);
    events.add(room);
    take_residents(streams[i], op.slot, versions[i], events);
    // Sends of one queue start, and therefore use the receiver's versions, in order.
    const auto last = streams_[streams[i]].last_send.find(op.slot);
    if (last == streams_[streams[i]].last_send.end()) continue;
    const LastSend& before = last->second;
    if (before.stream == stream && before.queue == op.queue) continue;
    if (!events.consumed(before.operation)) race("The order of two sends is undefined", before.operation);
  }
  const std::int32_t id = begin_operation();
  for (const std::size_t target : streams) streams_[target].last_send[op.slot] = {id, stream, op.queue};
  access(stream, op, op.views[0], false, events, id);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    Version& v = version(streams[i], op.slot, versions[i]);
    for_each_element(op.views[1], [&](std::int64_t element) { write_element(v, element, events, id); });
    v.needed.add_complete(id);
    EventSet shown = events;
    shown.add_complete(id);
    v.commits.emplace_back(op.pieces, std::move(shown));
  }
  finish_operation(stream, op, events, id);
}

void Races::barrier(std::size_t stream) {
  Stream& s = streams_[stream];
  EventSet all;
  if (streams_.size() == 1) {
    all.add_all_below(static_cast<std::int32_t>(names_.size()));
  } else {
    for (std::size_t q = 0; q < s.queues.size(); ++q) {
      all.add(s.queues[q]);
      all.add(s.done[q]);
    }
    all.add(s.shown);
  }
  s.walker.add(all);
  for (EventSet& queue : s.queues) queue = all;
  if (streams_.size() == 1) {
    for (EventSet& done : s.done) done = all;
  }
}

}  // namespace tilesim::program
