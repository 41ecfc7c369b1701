#include "tilesim/engine/transfers/heads.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"

namespace tilesim::engine {

using program::Opcode;

void Heads::advance(Stream& stream, int queue) {
  Queue& q = stream.queues[at(queue)];
  while (!q.entries.empty() && !q.transferring) {
    if (!start(stream, queue, q.entries.front())) return;
    accounts_.unblock(stream, q);
    accounts_.pop(stream, q);
  }
}

bool Heads::start(Stream& stream, int queue, const Entry& entry) {
  Queue& q = stream.queues[at(queue)];
  switch (entry.opcode) {
    case Opcode::wait:
      return entry.counter >= 0 ? wait_counter(stream, queue, entry) : wait(stream, queue, entry);
    case Opcode::acquire:
      return acquire(stream, queue, entry);
    case Opcode::commit:
      transfers_.after(stream, queue, q.done_until,
                       {EventKind::commit, entry.slot, {entry.version, entry.sequence, entry.pieces}, 0});
      return true;
    case Opcode::release:
      transfers_.after(stream, queue, q.consumed_until, {EventKind::release, entry.slot, {entry.version, queue, 0}, 0});
      return true;
    case Opcode::signal:
      signal(stream, queue, entry);
      return true;
    case Opcode::load:
    case Opcode::store:
      return transfers_.start(stream, queue, entry);
    case Opcode::send:
      return sends_.start(stream, queue, entry);
    default:
      return compute(stream, queue, entry);
  }
}

/// To another core it travels through the network.
void Heads::signal(Stream& stream, int queue, const Entry& entry) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t size = stream.program->counters[at(entry.counter)].second;
  const std::int64_t way = entry.core == stream.virtual_core
                               ? 0
                               : chip_.signal_cycles(stream.physical_core, stream.job->job.cores[at(entry.core)]);
  transfers_.after(stream, queue, q.done_until,
                   {EventKind::count, entry.counter, {entry.core * size + entry.index, entry.pieces, 0}, way});
  stream.done_until = std::max(stream.done_until, q.done_until);
}

bool Heads::wait_counter(Stream& stream, int queue, const Entry& entry) {
  JobState& job = *stream.job;
  const program::Counter& counter = stream.program->program().counters[at(entry.counter)];
  const std::int64_t cell = (counter.semaphore ? stream.virtual_core * counter.size : 0) + entry.index;
  if (job.counters[at(entry.counter)][at(cell)] >= entry.pieces) return true;
  job.waiters[{entry.counter, cell}].emplace_back(&stream, queue);
  accounts_.block(stream, stream.queues[at(queue)], UnitState::wait_dependency);
  return false;
}

bool Heads::wait(Stream& stream, int queue, const Entry& entry) {
  if (stream.slots.holds(entry.slot, entry.version, entry.pieces, queue)) return true;
  Queue& q = stream.queues[at(queue)];
  const UnitKind kind = units_[q.unit].kind;
  const bool computes = kind == UnitKind::array || kind == UnitKind::vector || kind == UnitKind::cross_lane;
  accounts_.block(stream, q, computes ? UnitState::wait_load : UnitState::wait_dependency);
  return false;
}

bool Heads::acquire(Stream& stream, int queue, const Entry& entry) {
  Woken woken;
  if (!stream.slots.acquire(entry.slot, entry.version, entry.epoch, queue, woken)) {
    accounts_.block(stream, stream.queues[at(queue)], UnitState::wait_store);
    return false;
  }
  wake_queues(agenda_, stream, woken.queues);
  return true;
}

bool Heads::compute(Stream& stream, int queue, const Entry& entry) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t now = agenda_.now();
  const bool mma = entry.descriptor.kind == ComputeKind::mma;
  History history;
  history.weights_resident = entry.weights >= 0 && entry.weights == q.last_weights;
  if (q.answered_later) {
    history.pipelined = mma && !q.open.empty();
    return transfers_.compute(stream, queue, entry, history);
  }
  if (const std::int64_t busy = units_[q.unit].busy_until; busy > now) {
    wake(agenda_, stream, queue, busy);
    return false;
  }
  CoreKind& kind = *stream.kind;
  history.pipelined = mma && q.busy_end == now && now > 0;
  const TileLatency latency = entry.source ? kind.latencies().latency(entry.descriptor, history, *entry.source)
                                           : kind.latencies().latency(entry.descriptor, history);
  if (mma) q.last_weights = entry.weights;
  accounts_.compute(
      stream, q, entry,
      {now, kind.after(now, latency.busy), kind.after(now, latency.consumed), kind.after(now, latency.done)});
  return true;
}

}  // namespace tilesim::engine
