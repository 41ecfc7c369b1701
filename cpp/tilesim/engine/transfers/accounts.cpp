#include "tilesim/engine/transfers/accounts.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim::engine {

using program::Opcode;

void Accounts::block(Stream& stream, Queue& queue, UnitState reason) {
  if (queue.blocked_since >= 0 && queue.blocked_on == reason) return;
  unblock(stream, queue);
  queue.blocked_since = agenda_.now();
  queue.blocked_on = reason;
}

void Accounts::unblock(Stream& stream, Queue& queue) {
  if (queue.blocked_since < 0) return;
  if (queue.open.empty()) {  // if operations are in progress, the unit is busy
    Unit& unit = units_[queue.unit];
    const std::int64_t begin = std::max({queue.blocked_since, queue.busy_end, unit.busy_until});
    if (agenda_.now() > begin && stream.kind->core.contexts == 1)
      unit.cycles[static_cast<std::size_t>(queue.blocked_on)] += agenda_.now() - begin;
  }
  queue.blocked_since = -1;
}

void Accounts::busy(Stream& stream, Queue& queue, std::int64_t begin, std::int64_t end,
                    const ResolvedStatement& statement) {
  Unit& unit = units_[queue.unit];
  const std::int64_t from = std::max(begin, unit.busy_until);
  if (end > from) {
    unit.cycles[static_cast<std::size_t>(UnitState::busy)] += end - from;
    if (KernelCounters* kernel = stream.job->kernels.counters_of(statement.scope)) {
      if (unit.counts_as == KernelTime::array) kernel->array_busy += end - from;
      if (unit.counts_as == KernelTime::vector) kernel->vector_busy += end - from;
    }
    if (timeline_.wanted()) {
      const LoadedProgram& loaded = *stream.job->loaded;
      timeline_.add(queue.unit, statement.scope >= 0 ? loaded.labels[at(statement.scope)] : loaded.no_label, from, end);
    }
  }
  unit.busy_until = std::max(unit.busy_until, end);
  queue.busy_end = std::max(queue.busy_end, end);
  ++unit.operations;
}

void Accounts::pop(Stream& stream, Queue& queue, bool over) {
  const bool was_full = queue.statements.full();
  const std::int64_t kernel = queue.statements.front().kernel;
  queue.statements.pop();
  if (over)
    settle(stream, queue, kernel, was_full);
  else if (was_full)
    agenda_.push(EventKind::stream, std::max(agenda_.now(), stream.stalled_until), stream.number, 0);
}

void Accounts::over(Stream& stream, const Queue& queue, std::int64_t kernel) { settle(stream, queue, kernel, false); }

void Accounts::settle(Stream& stream, const Queue& queue, std::int64_t kernel, bool was_full) {
  if (stream.kernels.leave(kernel))
    stream.job->kernels.settle(stream.kernels, stream.leads(), agenda_.now(), stream.job->streams.size());
  --stream.entries_in_queues;
  stream.done_until = std::max(stream.done_until, queue.done_until);
  if (was_full || stream.entries_in_queues == 0)
    agenda_.push(EventKind::stream, std::max(agenda_.now(), stream.stalled_until), stream.number, 0);
}

void Accounts::transfer(Stream& stream, Queue& queue, const ResolvedStatement& statement, std::int64_t started,
                        std::int64_t done) {
  busy(stream, queue, started, done, statement);
  units_[queue.unit].bytes += statement.bytes;
  queue.done_until = std::max(queue.done_until, done);
  queue.consumed_until = queue.done_until;
  const bool store = statement.opcode == Opcode::store;
  if (statement.on_chip) {
    totals_.on_chip_bytes += statement.bytes;
    if (KernelCounters* kernel = stream.job->kernels.counters_of(statement.scope))
      kernel->on_chip_bytes += statement.bytes;
    return settle_transfer(stream, queue, statement, started);
  }
  const std::int64_t stored = store ? statement.bytes - statement.index_bytes : 0;
  if (store) {  // a store reads its indices
    totals_.written_bytes -= statement.index_bytes;
    totals_.read_bytes += statement.index_bytes;
  }
  KernelCounters* kernel =
      statement.opcode == Opcode::send ? nullptr : stream.job->kernels.counters_of(statement.scope);
  std::int64_t below = 0;
  if (statement.pattern >= 0)
    below = memory_.drop_pattern(statement.pattern, statement.opcode == Opcode::load, statement.bytes);
  if (statement.opcode != Opcode::send) totals_.padding_bytes += statement.padding_bytes;
  if (kernel) {
    kernel->load_bytes += statement.bytes - stored;
    kernel->store_bytes += stored;
    kernel->below_bytes += below;
    kernel->padding_bytes += statement.padding_bytes;
  }
  settle_transfer(stream, queue, statement, started);
}

void Accounts::settle_transfer(Stream& stream, const Queue& queue, const ResolvedStatement& statement,
                               std::int64_t started) {
  stream.kernels.used(statement.kernel, started, queue.done_until);
  if (statement.opcode == Opcode::store && statement.counter >= 0)
    agenda_.push(EventKind::count, queue.done_until, stream.number, statement.counter, Details{statement.index, 1, 0});
}

void Accounts::compute(Stream& stream, Queue& queue, const ResolvedStatement& statement, const Computed& times) {
  busy(stream, queue, times.started, times.busy, statement);
  Unit& unit = units_[queue.unit];
  unit.work += statement.work;
  queue.done_until = std::max(queue.done_until, times.done);
  queue.consumed_until = std::max(queue.consumed_until, times.consumed);
  KernelCounters* const kernel = stream.job->kernels.counters_of(statement.scope);
  if (!totals_.arithmetic_alone && statement.descriptor.kind == ComputeKind::vector &&
      statement.descriptor.elements > 0 && !statement.descriptor.moves.known())
    totals_.arithmetic_alone = statement.descriptor;
  if (statement.opcode == Opcode::mma) {
    const double cells = array_multiply_adds(stream.kind->core.array, statement.descriptor);
    unit.array_multiply_adds += cells;
    if (kernel) kernel->multiply_adds += statement.work, kernel->array_multiply_adds += cells;
  } else if (statement.opcode == Opcode::opaque) {  // multiply-adds of a sparse product
    unit.array_multiply_adds += statement.work;
    if (kernel) kernel->multiply_adds += statement.work, kernel->array_multiply_adds += statement.work;
  } else if (kernel) {
    kernel->vector_operations += statement.work;
  }
  stream.kernels.used(statement.kernel, times.started, queue.done_until);
}

void Accounts::fetched(JobState& job, const ResolvedStatement& statement, std::int64_t bytes) {
  totals_.network_bytes += bytes;
  if (KernelCounters* kernel = job.kernels.counters_of(statement.scope)) kernel->send_bytes += bytes;
}

void Accounts::passes(Stream& stream, const ResolvedStatement& statement, std::int64_t bytes) {
  const std::int64_t begin = 1000 * agenda_.now(), took = 1000 * bytes / stream.kind->core.dma.bytes_per_cycle;
  const std::int64_t fresh = units_.pass(stream.physical_core, begin, begin + stream.kind->after(0, took));
  if (KernelCounters* kernel = stream.job->kernels.counters_of(statement.scope)) kernel->dma_busy += fresh;
}

void Accounts::moved(const Request& request) {
  (request.write ? totals_.written_bytes : totals_.read_bytes) += request.bytes;
  totals_.network_bytes += request.bytes;
}

}  // namespace tilesim::engine
