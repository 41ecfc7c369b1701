// Operations whose end is not known at their start: transfers and sends through routers, and computes that a port
// simulates. Their commits, releases and counts wait for the end.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/engine/transfers/transfers.hpp"

namespace tilesim::engine {

/// Advances memory and computes cycle by cycle, because neither may advance past an answer of the other.
void Transfers::drain(std::int64_t until, CancelToken* cancel) {
  MemorySystem& memory = memory_.port();
  if (!computes_ || computes_->idle()) return memory.drain(until, cancel, done_);
  if (memory.idle()) return computes_->drain(until, cancel, done_);
  for (std::int64_t cycle = agenda_.now(); cycle < until && done_.empty();) {
    ++cycle;
    memory.drain(cycle, cancel, done_);
    computes_->drain(cycle, cancel, done_);
  }
}

bool Transfers::advance(std::int64_t limit, CancelToken* cancel) {
  constexpr std::int64_t last_cycle = std::int64_t{1} << 61;
  while (!idle()) {
    const std::int64_t next = agenda_.empty() ? last_cycle : agenda_.next();
    drain(std::min(next, limit < last_cycle ? limit + 1 : last_cycle), cancel);
    if (done_.empty()) return next <= limit;
    for (const Done& done : done_) {
      const Open& open = open_[at(static_cast<std::int64_t>(done.tag >> 16))];
      std::uint64_t tag = done.tag;
      if (done.milestone != Done::Milestone::complete)
        tag = tag_of(static_cast<std::int32_t>(tag >> 16),
                     done.milestone == Done::Milestone::operands_read ? operands_read : unit_free);
      agenda_.push(EventKind::piece, std::max(agenda_.now(), done.cycle), open.stream->number, open.queue,
                   static_cast<std::int64_t>(tag));
    }
    done_.clear();
  }
  return true;
}

std::int32_t Transfers::open(Stream& stream, int queue, const ResolvedStatement& statement, std::int64_t started) {
  if (free_open_.empty()) {
    free_open_.push_back(static_cast<std::int32_t>(open_.size()));
    open_.emplace_back();
  }
  const std::int32_t transfer = free_open_.back();
  free_open_.pop_back();
  Open& own = open_[at(transfer)];
  own = Open{};
  own.statement = statement;
  own.stream = &stream;
  own.queue = queue;
  own.started = started;
  stream.queues[at(queue)].open.push_back(transfer);
  return transfer;
}

/// Handles a transfer whose pieces are all in flight: the next queue entry may start, but this transfer is not complete
/// before its last answer.
void Transfers::issued(Stream& stream, int queue, std::int32_t transfer) {
  open_[at(transfer)].issued = true;
  accounts_.pop(stream, stream.queues[at(queue)], false);
  wake(agenda_, stream, queue, agenda_.now());
}

bool Transfers::send(Stream& stream, int queue, const ResolvedStatement& statement, std::vector<Target> targets) {
  Queue& q = stream.queues[at(queue)];
  accounts_.unblock(stream, q);
  if (targets.empty()) return true;
  const std::int32_t transfer = open(stream, queue, statement, agenda_.now());
  Open& own = open_[at(transfer)];
  own.left = static_cast<std::int64_t>(targets.size());
  q.open_pieces += own.left;
  for (std::size_t k = 0; k < targets.size(); ++k)
    memory_.routed()->send(stream.physical_core, targets[k].first->physical_core, statement.bytes,
                           tag_of(transfer, static_cast<std::int64_t>(k)), agenda_.now());
  own.targets = std::move(targets);
  issued(stream, queue, transfer);
  return false;
}

bool Transfers::compute(Stream& stream, int queue, const ResolvedStatement& statement, const History& history) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t now = agenda_.now();
  const Unit& unit = units_[q.unit];
  const std::int32_t number = open(stream, queue, statement, now);
  const Compute what{unit.core,
                     unit.kind,
                     q.unit,
                     &statement.descriptor,
                     history,
                     statement.source,
                     units_.named(unit.sort).number,
                     stream.number,
                     statement.weights};
  const Offered offered = computes_->offer(what, tag_of(number, no_target), now);
  if (!offered.accepted()) {
    q.open.pop_back();
    free_open_.push_back(number);
    accounts_.block(stream, q, UnitState::wait_port);
    if (offered.retry > now)
      wake(agenda_, stream, queue, offered.retry);
    else
      refused_.emplace_back(&stream, queue);
    return false;
  }
  accounts_.unblock(stream, q);
  if (statement.descriptor.kind == ComputeKind::mma) q.last_weights = statement.weights;
  open_[at(number)].left = computes_->tells_parts() ? 2 : 1;
  q.open_pieces += open_[at(number)].left;
  if (offered.kind == Offered::Kind::complete)
    agenda_.push(EventKind::piece, std::max(now, offered.completion.cycle()), stream.number, queue,
                 static_cast<std::int64_t>(tag_of(number, no_target)));
  issued(stream, queue, number);
  return false;
}

void Transfers::piece(std::int64_t value) {
  if ((value & 0xFFFF) == unit_free) return wake_refused();
  Open& own = open_[at(value >> 16)];
  Stream& stream = *own.stream;
  Queue& q = stream.queues[at(own.queue)];
  --own.left;
  --q.open_pieces;
  if (q.waits_for_piece) {
    q.waits_for_piece = false;
    agenda_.push(EventKind::chunk, agenda_.now(), stream.number, own.queue);
  }
  const std::int64_t target = value & 0xFFFF;
  if (target == operands_read) {
    own.consumed = true;
    release_consumed(stream, q);
  } else if (target != no_target) {
    const auto& [other, version] = own.targets[at(target)];
    wake_queues(agenda_, *other, other->slots.arrive(own.statement.slot, version, own.statement.pieces).queues);
  }
  const bool computed = own.statement.opcode != program::Opcode::load &&
                        own.statement.opcode != program::Opcode::store && own.statement.opcode != program::Opcode::send;
  finish(stream, q);
  if (computed) wake_refused();
}

/// Releases operands that computes have read before the computes complete.
void Transfers::release_consumed(Stream& stream, const Queue& queue) {
  for (const std::int32_t open : queue.open) {
    Open& own = open_[at(open)];
    if (!own.consumed) return;
    const auto releases = std::stable_partition(own.after.begin(), own.after.end(),
                                                [](const Effect& effect) { return effect.kind != EventKind::release; });
    for (auto effect = releases; effect != own.after.end(); ++effect)
      push(stream, agenda_.now() + effect->delay, *effect);
    own.after.erase(releases, own.after.end());
  }
}

/// Offers computes again that were rejected because their unit was busy.
void Transfers::wake_refused() {
  for (const auto& [waiting, number] : refused_) wake(agenda_, *waiting, number, agenda_.now());
  refused_.clear();
}

/// Records a transfer, send or compute that is complete now.
void Transfers::end(Stream& stream, Queue& queue, const Open& own) {
  const std::int64_t last = std::max(agenda_.now(), own.passed);
  switch (own.statement.opcode) {
    case program::Opcode::send:
      return accounts_.transfer(stream, queue, own.statement, own.started, last);
    case program::Opcode::load:
    case program::Opcode::store:
      return accounts_.transfer(stream, queue, own.statement, own.started,
                                stream.kind->after(last, stream.kind->core.dma.latency_cycles));
    default:
      return accounts_.compute(stream, queue, own.statement, {own.started, last, last, last});
  }
}

/// Completes operations of the queue in order.
void Transfers::finish(Stream& stream, Queue& queue) {
  while (!queue.open.empty()) {
    const std::int32_t transfer = queue.open.front();
    Open& own = open_[at(transfer)];
    if (!own.issued || own.left > 0) return;
    queue.open.pop_front();
    end(stream, queue, own);
    for (const Effect& effect : own.after) {
      push(stream, std::max(agenda_.now(), queue.done_until) + effect.delay, effect);
      stream.done_until = std::max(stream.done_until, queue.done_until + effect.delay);
    }
    accounts_.over(stream, queue, own.statement.kernel);
    free_open_.push_back(transfer);
  }
}

}  // namespace tilesim::engine
