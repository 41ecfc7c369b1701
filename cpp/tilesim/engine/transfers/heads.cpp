#include "tilesim/engine/transfers/heads.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"

namespace tilesim::engine {

using program::Opcode;

void Heads::advance(Stream& stream, int queue) {
  Queue& q = stream.queues[at(queue)];
  while (!q.statements.empty() && !q.transferring) {
    if (!start(stream, queue, q.statements.front())) return;
    accounts_.unblock(stream, q);
    accounts_.pop(stream, q);
  }
}

bool Heads::start(Stream& stream, int queue, const ResolvedStatement& statement) {
  Queue& q = stream.queues[at(queue)];
  switch (statement.opcode) {
    case Opcode::wait:
      return statement.counter >= 0 ? wait_counter(stream, queue, statement) : wait(stream, queue, statement);
    case Opcode::acquire:
      return acquire(stream, queue, statement);
    case Opcode::commit:
      transfers_.after(
          stream, queue, q.done_until,
          {EventKind::commit, statement.slot, {statement.version, statement.sequence, statement.pieces}, 0});
      return true;
    case Opcode::release:
      transfers_.after(stream, queue, q.consumed_until,
                       {EventKind::release, statement.slot, {statement.version, queue, 0}, 0});
      return true;
    case Opcode::signal:
      signal(stream, queue, statement);
      return true;
    case Opcode::load:
    case Opcode::store:
      return transfers_.start(stream, queue, statement);
    case Opcode::send:
      return sends_.start(stream, queue, statement);
    default:
      return compute(stream, queue, statement);
  }
}

/// Signals a counter. A signal to another core crosses the network.
void Heads::signal(Stream& stream, int queue, const ResolvedStatement& statement) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t size = stream.program->counters[at(statement.counter)].second;
  const std::int64_t way = statement.core == stream.virtual_core
                               ? 0
                               : chip_.signal_cycles(stream.physical_core, stream.job->job.cores[at(statement.core)]);
  transfers_.after(
      stream, queue, q.done_until,
      {EventKind::count, statement.counter, {statement.core * size + statement.index, statement.pieces, 0}, way});
  stream.done_until = std::max(stream.done_until, q.done_until);
}

bool Heads::wait_counter(Stream& stream, int queue, const ResolvedStatement& statement) {
  JobState& job = *stream.job;
  const program::Counter& counter = stream.program->program().counters[at(statement.counter)];
  const std::int64_t cell = (counter.semaphore ? stream.virtual_core * counter.size : 0) + statement.index;
  if (job.counters[at(statement.counter)][at(cell)] >= statement.pieces) return true;
  job.waiters[{statement.counter, cell}].emplace_back(&stream, queue);
  accounts_.block(stream, stream.queues[at(queue)], UnitState::wait_dependency);
  return false;
}

bool Heads::wait(Stream& stream, int queue, const ResolvedStatement& statement) {
  if (stream.slots.holds(statement.slot, statement.version, statement.pieces, queue)) return true;
  Queue& q = stream.queues[at(queue)];
  const UnitKind kind = units_[q.unit].kind;
  const bool computes = kind == UnitKind::array || kind == UnitKind::vector || kind == UnitKind::cross_lane;
  accounts_.block(stream, q, computes ? UnitState::wait_load : UnitState::wait_dependency);
  return false;
}

bool Heads::acquire(Stream& stream, int queue, const ResolvedStatement& statement) {
  Woken woken;
  if (!stream.slots.acquire(statement.slot, statement.version, statement.epoch, queue, woken)) {
    accounts_.block(stream, stream.queues[at(queue)], UnitState::wait_store);
    return false;
  }
  wake_queues(agenda_, stream, woken.queues);
  return true;
}

bool Heads::compute(Stream& stream, int queue, const ResolvedStatement& statement) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t now = agenda_.now();
  const bool mma = statement.descriptor.kind == ComputeKind::mma;
  History history;
  history.weights_resident = statement.weights >= 0 && statement.weights == q.last_weights;
  if (q.answered_later) {
    history.pipelined = mma && !q.open.empty();
    return transfers_.compute(stream, queue, statement, history);
  }
  if (const std::int64_t busy = units_[q.unit].busy_until; busy > now) {
    wake(agenda_, stream, queue, busy);
    return false;
  }
  CoreKind& kind = *stream.kind;
  history.pipelined = mma && q.busy_end == now && now > 0;
  const TileLatency latency = statement.source
                                  ? kind.latencies().latency(statement.descriptor, history, *statement.source)
                                  : kind.latencies().latency(statement.descriptor, history);
  if (mma) q.last_weights = statement.weights;
  accounts_.compute(
      stream, q, statement,
      {now, kind.after(now, latency.busy), kind.after(now, latency.consumed), kind.after(now, latency.done)});
  return true;
}

}  // namespace tilesim::engine
