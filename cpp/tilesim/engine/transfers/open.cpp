// Transfers and sends through a network of routers: what takes how long is known when it is over, so commits, releases
// and counts behind them wait until then.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/engine/transfers/transfers.hpp"

namespace tilesim::engine {

bool Transfers::advance(std::int64_t limit, CancelToken* cancel) {
  constexpr std::int64_t last_cycle = std::int64_t{1} << 61;
  MemorySystem& port = memory_.port();
  while (!port.idle()) {
    const std::int64_t next = agenda_.empty() ? last_cycle : agenda_.next();
    port.drain(std::min(next, limit < last_cycle ? limit + 1 : last_cycle), cancel, done_);
    if (done_.empty()) return next <= limit;
    for (const Done& done : done_) {
      const Open& open = open_[at(static_cast<std::int64_t>(done.tag >> 16))];
      agenda_.push(EventKind::piece, std::max(agenda_.now(), done.cycle), open.stream->number, open.queue,
                   static_cast<std::int64_t>(done.tag));
    }
    done_.clear();
  }
  return true;
}

std::int32_t Transfers::open(Stream& stream, int queue, const Entry& entry, std::int64_t started) {
  if (free_open_.empty()) {
    free_open_.push_back(static_cast<std::int32_t>(open_.size()));
    open_.emplace_back();
  }
  const std::int32_t transfer = free_open_.back();
  free_open_.pop_back();
  Open& own = open_[at(transfer)];
  own = Open{};
  own.entry = entry;
  own.stream = &stream;
  own.queue = queue;
  own.started = started;
  stream.queues[at(queue)].open.push_back(transfer);
  return transfer;
}

/// All pieces of the head of the queue are on their way: the next entry may start, the stream goes on counting this
/// one.
void Transfers::issued(Stream& stream, int queue, std::int32_t transfer) {
  open_[at(transfer)].issued = true;
  accounts_.pop(stream, stream.queues[at(queue)], false);
  wake(agenda_, stream, queue, agenda_.now());
}

bool Transfers::send(Stream& stream, int queue, const Entry& entry, std::vector<Target> targets) {
  Queue& q = stream.queues[at(queue)];
  accounts_.unblock(stream, q);
  if (targets.empty()) return true;
  const std::int32_t transfer = open(stream, queue, entry, agenda_.now());
  Open& own = open_[at(transfer)];
  own.left = static_cast<std::int64_t>(targets.size());
  q.open_pieces += own.left;
  for (std::size_t k = 0; k < targets.size(); ++k)
    memory_.routed()->send(stream.physical_core, targets[k].first->physical_core, entry.bytes,
                           tag_of(transfer, static_cast<std::int64_t>(k)), agenda_.now());
  own.targets = std::move(targets);
  issued(stream, queue, transfer);
  return false;
}

void Transfers::piece(std::int64_t value) {
  Open& own = open_[at(value >> 16)];
  Stream& stream = *own.stream;
  Queue& q = stream.queues[at(own.queue)];
  --own.left;
  --q.open_pieces;
  if (q.waits_for_piece) {
    q.waits_for_piece = false;
    agenda_.push(EventKind::chunk, agenda_.now(), stream.number, own.queue);
  }
  if (const std::int64_t target = value & 0xFFFF; target != no_target) {
    const auto& [other, version] = own.targets[at(target)];
    wake_queues(agenda_, *other, other->slots.arrive(own.entry.slot, version, own.entry.pieces).queues);
  }
  finish(stream, q);
}

/// Transfers are over in order.
void Transfers::finish(Stream& stream, Queue& queue) {
  while (!queue.open.empty()) {
    const std::int32_t transfer = queue.open.front();
    Open& own = open_[at(transfer)];
    if (!own.issued || own.left > 0) return;
    queue.open.pop_front();
    const std::int64_t latency = own.entry.opcode == program::Opcode::send ? 0 : stream.kind->core.dma.latency_cycles;
    const std::int64_t last = std::max(agenda_.now(), own.passed);
    accounts_.transfer(stream, queue, own.entry, own.started, stream.kind->after(last, latency));
    for (const Effect& effect : own.after) {
      push(stream, std::max(agenda_.now(), queue.done_until) + effect.delay, effect);
      stream.done_until = std::max(stream.done_until, queue.done_until + effect.delay);
    }
    accounts_.over(stream, queue, own.entry.kernel);
    free_open_.push_back(transfer);
  }
}

}  // namespace tilesim::engine
