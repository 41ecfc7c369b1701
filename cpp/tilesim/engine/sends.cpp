// Tiles from core to core.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/engine/simulator.hpp"

namespace tilesim::engine {

using program::Opcode;

bool Simulator::try_send(int id, int queue, const Entry& entry) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  const JobState& job = *jobs_[static_cast<std::size_t>(stream.job)];
  std::vector<std::pair<int, std::int64_t>> targets;
  for (int other : job.streams) {
    Stream& destination = *streams_[static_cast<std::size_t>(other)];
    if (!(entry.core >> destination.virtual_core & 1)) continue;
    SlotState& slot = destination.slots[static_cast<std::size_t>(entry.slot)];
    const std::int64_t version = slot.sent;
    const BufferState& buffer = slot.buffers[static_cast<std::size_t>(version) % slot.buffers.size()];
    const bool known = slot.received > version;
    const bool overlaps = known && buffer.free &&
                          on_ended_bytes(destination, entry.slot, version,
                                         slot.epochs[static_cast<std::size_t>(version) % slot.epochs.size()]);
    if (!known || !buffer.free || overlaps) {
      (overlaps ? destination.remote_waiting : slot.remote_waiting) |= 1ULL << (id & 63);
      block(id, queue, UnitState::wait_port);
      return false;
    }
    targets.emplace_back(other, version);
  }
  std::optional<Ports::Sent> sent;
  if (!routed_) {
    std::vector<std::int64_t> cores;
    for (const auto& [other, version] : targets)
      cores.push_back(streams_[static_cast<std::size_t>(other)]->physical_core);
    std::int64_t retry = now_ + 1;
    sent = (memory_->ports() ? *memory_->ports() : send_ports_)
               .send(stream.physical_core, cores, entry.bytes, now_, retry);
    if (!sent) {
      block(id, queue, UnitState::wait_port);
      wake(id, queue, std::max(retry, now_ + 1));
      return false;
    }
  }
  std::int64_t last = sent ? sent->arrival : 0;
  for (const auto& [other, version] : targets) {
    SlotState& slot = streams_[static_cast<std::size_t>(other)]->slots[static_cast<std::size_t>(entry.slot)];
    BufferState& buffer = slot.buffers[static_cast<std::size_t>(version) % slot.buffers.size()];
    buffer = BufferState{};
    buffer.version = version;
    buffer.free = false;
    ++slot.sent;
    if (sent) {
      const std::int64_t to = streams_[static_cast<std::size_t>(other)]->physical_core;
      const std::int64_t there = memory_->cross(stream.physical_core, to, entry.bytes, sent->arrival);
      push(EventKind::arrive, there, other, entry.slot, version, entry.pieces);
      last = std::max(last, there);
    }
    network_bytes_ += entry.bytes;
  }
  if (routed_) return routed_send(id, queue, entry, std::move(targets));
  busy(id, queue, now_, sent->through, entry);
  units_[static_cast<std::size_t>(q.unit)].bytes += entry.bytes;
  q.done_until = std::max(q.done_until, last);
  q.consumed_until = std::max(q.consumed_until, sent->through);
  used(stream, entry, now_, last);
  return true;
}

void Simulator::arrive(int id, int slot_id, std::int64_t version, std::int64_t pieces) {
  SlotState& slot = streams_[static_cast<std::size_t>(id)]->slots[static_cast<std::size_t>(slot_id)];
  BufferState& buffer = slot.buffers[static_cast<std::size_t>(version) % slot.buffers.size()];
  if (buffer.version != version) race(id, slot_id, version, "a send");
  buffer.pieces += pieces;
  wake_mask(id, slot.waiting);
}

void Simulator::wake_senders(std::uint64_t& mask) {
  for (std::size_t other = 0; other < streams_.size() && mask != 0; ++other) {
    if (!(mask >> (other & 63) & 1)) continue;
    for (std::size_t q = 0; q < streams_[other]->queues.size(); ++q) {
      const Queue& queue = streams_[other]->queues[q];
      if (!queue.entries.empty() && queue.entries.front().opcode == Opcode::send)
        wake(static_cast<int>(other), static_cast<int>(q), now_);
    }
  }
  mask = 0;
}

}  // namespace tilesim::engine
