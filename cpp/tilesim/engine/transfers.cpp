// Transfers and sends through a network of routers: what takes how long is known when it is over, so commits, releases
// and counts behind them wait until then.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/simulator.hpp"

namespace tilesim::engine {

using program::Opcode;

namespace {
constexpr std::int64_t no_target = 0xFFFF;

std::uint64_t tag_of(std::int32_t transfer, std::int64_t target) {
  return static_cast<std::uint64_t>(transfer) << 16 | static_cast<std::uint64_t>(target);
}
}  // namespace

void Simulator::add_routed_memory() {
  if (!options_.topology)
    throw UserError({"a network of routers needs its topology",
                     "network.kind",
                     "'" + machine_.network.kind + "'",
                     "simple, or a topology beside the machine",
                     {}});
  const std::string& kind = machine_.memory.kind;
  const dram::Part* dram = kind == "bank" ? options_.dram.get() : nullptr;
  routed_ = std::make_unique<RoutedMemory>(machine_, *options_.topology,
                                           tensors_          ? cached_nodes(machine_, dram, *tensors_)
                                           : kind == "bank"  ? bank_nodes(machine_, *options_.dram)
                                           : kind == "ideal" ? ideal_nodes(machine_)
                                                             : simple_nodes(machine_));
}

/// Runs the network up to the next event, or to something that becomes one. False if nothing is left before `limit`.
bool Simulator::advance_routed(std::int64_t limit) {
  constexpr std::int64_t last_cycle = std::int64_t{1} << 61;
  while (routed_ && !routed_->idle()) {
    const std::int64_t next = events_.empty() ? last_cycle : events_.top().time;
    routed_->advance(std::min(next, limit < last_cycle ? limit + 1 : last_cycle), options_.cancel);
    if (routed_->done().empty()) return next <= limit;
    for (const RoutedMemory::Done& done : routed_->done()) {
      const auto transfer = static_cast<std::int32_t>(done.tag >> 16);
      const OpenTransfer& open = open_[static_cast<std::size_t>(transfer)];
      push(EventKind::piece, std::max(now_, done.cycle), open.stream, open.queue, transfer,
           static_cast<std::int64_t>(done.tag & 0xFFFF));
    }
    routed_->done().clear();
  }
  return true;
}

std::int32_t Simulator::open_transfer(int id, int queue, const Entry& entry, std::int64_t started) {
  if (free_open_.empty()) {
    free_open_.push_back(static_cast<std::int32_t>(open_.size()));
    open_.emplace_back();
  }
  const std::int32_t transfer = free_open_.back();
  free_open_.pop_back();
  OpenTransfer& open = open_[static_cast<std::size_t>(transfer)];
  open = OpenTransfer{};
  open.entry = entry;
  open.stream = id;
  open.queue = queue;
  open.started = started;
  streams_[static_cast<std::size_t>(id)]->queues[static_cast<std::size_t>(queue)].open.push_back(transfer);
  return transfer;
}

void Simulator::routed_chunk(int id, int queue) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  const Entry& entry = q.entries.front();
  if (q.open_pieces >= stream.kind->window) {
    q.waits_for_piece = true;
    return;
  }
  const bool first = q.left == entry.bytes;
  const std::int32_t transfer = first ? open_transfer(id, queue, entry, q.started) : q.open.back();
  Request request{stream.physical_core, q.next_address, std::min(q.left, stream.kind->chunk_bytes),
                  entry.opcode == Opcode::store};
  if (entry.pattern >= 0) {
    request.pattern = &patterns_[static_cast<std::size_t>(entry.pattern)];
    request.offset = entry.bytes - q.left;
  }
  routed_->submit(request, tag_of(transfer, no_target), now_);
  ++open_[static_cast<std::size_t>(transfer)].left;
  ++q.open_pieces;
  q.left -= request.bytes;
  q.next_address += request.bytes;
  (request.write ? written_bytes_ : read_bytes_) += request.bytes;
  network_bytes_ += request.bytes;
  const std::int64_t next =
      std::max(now_ + 1, stream.kind->after(now_, ceil_div(request.bytes, stream.kind->core.dma.bytes_per_cycle)));
  if (q.left > 0) {
    push(EventKind::chunk, next, id, queue);
    return;
  }
  q.issue_ready = next;
  q.transferring = false;
  open_[static_cast<std::size_t>(transfer)].passed = next;
  issued(id, queue, transfer);
}

/// All pieces of the head of the queue are on their way: the next entry may start, the stream goes on counting this
/// one.
void Simulator::issued(int id, int queue, std::int32_t transfer) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  open_[static_cast<std::size_t>(transfer)].issued = true;
  const bool was_full = q.entries.full();
  q.entries.pop();
  if (was_full) push(EventKind::stream, std::max(now_, stream.stalled_until), id, 0);
  wake(id, queue, now_);
}

bool Simulator::routed_send(int id, int queue, const Entry& entry, std::vector<std::pair<int, std::int64_t>> targets) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  unblock(id, queue);
  if (targets.empty()) return true;
  const std::int32_t transfer = open_transfer(id, queue, entry, now_);
  OpenTransfer& open = open_[static_cast<std::size_t>(transfer)];
  open.left = static_cast<std::int64_t>(targets.size());
  stream.queues[static_cast<std::size_t>(queue)].open_pieces += open.left;
  for (std::size_t k = 0; k < targets.size(); ++k)
    routed_->send(stream.physical_core, streams_[static_cast<std::size_t>(targets[k].first)]->physical_core,
                  entry.bytes, tag_of(transfer, static_cast<std::int64_t>(k)), now_);
  open.targets = std::move(targets);
  issued(id, queue, transfer);
  return false;
}

void Simulator::piece(std::int32_t transfer, std::int64_t target) {
  OpenTransfer& open = open_[static_cast<std::size_t>(transfer)];
  const int id = open.stream, queue = open.queue;
  Queue& q = streams_[static_cast<std::size_t>(id)]->queues[static_cast<std::size_t>(queue)];
  --open.left;
  --q.open_pieces;
  if (q.waits_for_piece) {
    q.waits_for_piece = false;
    push(EventKind::chunk, now_, id, queue);
  }
  if (target != no_target) {
    const auto& [other, version] = open.targets[static_cast<std::size_t>(target)];
    arrive(other, open.entry.slot, version, open.entry.pieces);
  }
  finish_transfers(id, queue);
}

/// Transfers are over in order.
void Simulator::finish_transfers(int id, int queue) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  while (!q.open.empty()) {
    const std::int32_t transfer = q.open.front();
    OpenTransfer& open = open_[static_cast<std::size_t>(transfer)];
    if (!open.issued || open.left > 0) return;
    q.open.pop_front();
    const Entry entry = open.entry;
    const std::vector<Deferred> after = std::move(open.after);
    const std::int64_t latency = entry.opcode == Opcode::send ? 0 : stream.kind->core.dma.latency_cycles;
    account_transfer(id, queue, entry, open.started, stream.kind->after(std::max(now_, open.passed), latency));
    free_open_.push_back(transfer);
    for (const Deferred& what : after) {
      push(what.kind, std::max(now_, q.done_until) + what.delay, id, what.port, what.a, what.b, what.c);
      stream.done_until = std::max(stream.done_until, q.done_until + what.delay);
    }
    settled(stream, id, q, entry.kernel, false);
  }
}

void Simulator::after_transfers(int id, int queue, std::int64_t time, const Deferred& what) {
  const Queue& q = streams_[static_cast<std::size_t>(id)]->queues[static_cast<std::size_t>(queue)];
  if (q.open.empty())
    push(what.kind, std::max(now_, time) + what.delay, id, what.port, what.a, what.b, what.c);
  else
    open_[static_cast<std::size_t>(q.open.back())].after.push_back(what);
}

}  // namespace tilesim::engine
