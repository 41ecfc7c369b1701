// From the head of a queue into its unit.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/simulator.hpp"
#include "tilesim/program/run/execute.hpp"

namespace tilesim::engine {

using program::Opcode;

/// What executing the program with find_races reports in detail.
void Simulator::race(int id, int slot, std::int64_t version, const char* who) const {
  const program::CompiledProgram& program = *streams_[static_cast<std::size_t>(id)]->program;
  throw program::RaceError({std::string("a race: ") + who + " comes when the buffer holds another version",
                            program.program().name,
                            program.slots[static_cast<std::size_t>(slot)].name + "[" + std::to_string(version) + "]",
                            {},
                            "execute the program with find_races to see the statement"});
}

void Simulator::block(int id, int queue, UnitState reason) {
  Queue& q = streams_[static_cast<std::size_t>(id)]->queues[static_cast<std::size_t>(queue)];
  if (q.blocked_since >= 0 && q.blocked_on == reason) return;
  unblock(id, queue);
  q.blocked_since = now_;
  q.blocked_on = reason;
}

void Simulator::unblock(int id, int queue) {
  Queue& q = streams_[static_cast<std::size_t>(id)]->queues[static_cast<std::size_t>(queue)];
  if (q.blocked_since < 0) return;
  if (!q.open.empty()) {  // the unit is busy all the while
    q.blocked_since = -1;
    return;
  }
  const std::int64_t begin =
      std::max({q.blocked_since, q.busy_end, unit_states_[static_cast<std::size_t>(q.unit)].busy_until});
  if (now_ > begin && streams_[static_cast<std::size_t>(id)]->kind->core.contexts == 1)
    units_[static_cast<std::size_t>(q.unit)].cycles[static_cast<std::size_t>(q.blocked_on)] += now_ - begin;
  q.blocked_since = -1;
}

void Simulator::busy(int id, int queue, std::int64_t begin, std::int64_t end, const Entry& entry) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  UnitCounters& unit = units_[static_cast<std::size_t>(q.unit)];
  std::int64_t& until = unit_states_[static_cast<std::size_t>(q.unit)].busy_until;
  const std::int64_t from = std::max(begin, until);
  if (end > from) {
    unit.cycles[static_cast<std::size_t>(UnitState::busy)] += end - from;
    if (KernelCounters* kernel = kernel_of(stream, entry)) {
      if (unit.counts_as == KernelTime::array) kernel->array_busy += end - from;
      if (unit.counts_as == KernelTime::vector) kernel->vector_busy += end - from;
    }
    if (options_.timeline) {
      if (static_cast<std::int64_t>(intervals_.size()) < options_.max_intervals) {
        const std::string label = entry.scope >= 0
                                      ? stream.program->scopes[static_cast<std::size_t>(entry.scope)].scope->kernel
                                      : std::string("-");
        const auto [found, added] = label_of_.try_emplace(label, static_cast<std::int32_t>(labels_.size()));
        if (added) labels_.push_back(label);
        intervals_.push_back({q.unit, found->second, from, end});
      } else {
        ++dropped_;
      }
    }
  }
  until = std::max(until, end);
  q.busy_end = std::max(q.busy_end, end);
  ++unit.operations;
}

void Simulator::popped(int id, int queue) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  const bool was_full = q.entries.full();
  const std::int64_t kernel = q.entries.front().kernel;
  q.entries.pop();
  settled(stream, id, q, kernel, was_full);
}

/// An entry of the kernel is over as far as the stream is concerned.
void Simulator::settled(Stream& stream, int id, const Queue& q, std::int64_t kernel, bool was_full) {
  if (kernel >= 0) {
    KernelRun& run = stream.running[static_cast<std::size_t>(kernel - stream.first_running)];
    if (--run.pending == 0 && run.ended) settle(stream);
  }
  --stream.entries_in_queues;
  stream.done_until = std::max(stream.done_until, q.done_until);
  if (was_full || stream.entries_in_queues == 0) push(EventKind::stream, std::max(now_, stream.stalled_until), id, 0);
}

void Simulator::advance(int id, int queue) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  while (!q.entries.empty() && !q.transferring) {
    if (!try_head(id, queue, q.entries.front())) return;
    unblock(id, queue);
    popped(id, queue);
  }
}

/// Whether the head has started (synchronization: has passed). Otherwise somebody will wake the queue.
bool Simulator::try_head(int id, int queue, Entry& entry) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  switch (entry.opcode) {
    case Opcode::wait:
      return try_wait(id, queue, entry);
    case Opcode::acquire:
      return try_acquire(id, queue, entry);
    case Opcode::commit:
      after_transfers(id, queue, q.done_until,
                      {EventKind::commit, entry.slot, entry.version, entry.sequence, entry.pieces});
      return true;
    case Opcode::release:
      after_transfers(id, queue, q.consumed_until, {EventKind::release, entry.slot, entry.version, queue});
      return true;
    case Opcode::signal: {
      const std::int64_t size = stream.program->counters[static_cast<std::size_t>(entry.counter)].second;
      // To another core it travels through the network.
      const NetworkSpec& network = machine_.network;
      const std::vector<std::int64_t>& cores = jobs_[static_cast<std::size_t>(stream.job)]->job.cores;
      const auto region = [&](std::int64_t core) { return core * machine_.memory.regions / machine_.core.count; };
      const bool apart = region(cores[static_cast<std::size_t>(entry.core)]) != region(stream.physical_core);
      const std::int64_t cycles = network.latency_cycles + (apart ? network.region_latency_cycles : 0);
      const std::int64_t way = entry.core == stream.virtual_core || machine_.memory.kind == "ideal"
                                   ? 0
                                   : cycles_at_or_after({cycles, network.clock.hertz}, machine_.core.clock);
      after_transfers(id, queue, q.done_until,
                      {EventKind::count, entry.counter, entry.core * size + entry.index, entry.pieces, 0, way});
      stream.done_until = std::max(stream.done_until, q.done_until);
      return true;
    }
    case Opcode::load:
    case Opcode::store:
      return try_transfer(id, queue, entry);
    case Opcode::send:
      return try_send(id, queue, entry);
    default:
      return try_compute(id, queue, entry);
  }
}

bool Simulator::try_wait(int id, int queue, const Entry& entry) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  if (entry.counter >= 0) {
    JobState& job = *jobs_[static_cast<std::size_t>(stream.job)];
    const program::Counter& counter = stream.program->program().counters[static_cast<std::size_t>(entry.counter)];
    const std::int64_t at = (counter.semaphore ? stream.virtual_core * counter.size : 0) + entry.index;
    if (job.counters[static_cast<std::size_t>(entry.counter)][static_cast<std::size_t>(at)] >= entry.pieces)
      return true;
    job.counter_waiters[{entry.counter, at}].emplace_back(id, queue);
    block(id, queue, UnitState::wait_dependency);
    return false;
  }
  SlotState& slot = stream.slots[static_cast<std::size_t>(entry.slot)];
  const BufferState& buffer = slot.buffers[static_cast<std::size_t>(entry.version) % slot.buffers.size()];
  if (buffer.version > entry.version) race(id, entry.slot, entry.version, "a wait");
  if (buffer.version == entry.version && buffer.pieces >= entry.pieces) return true;
  slot.waiting |= 1U << queue;
  const Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  const std::string& kind = units_[static_cast<std::size_t>(q.unit)].kind;
  block(
      id, queue,
      kind == "array" || kind == "vector" || kind == "cross_lane" ? UnitState::wait_load : UnitState::wait_dependency);
  return false;
}

bool Simulator::try_acquire(int id, int queue, const Entry& entry) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  SlotState& slot = stream.slots[static_cast<std::size_t>(entry.slot)];
  BufferState& buffer = slot.buffers[static_cast<std::size_t>(entry.version) % slot.buffers.size()];
  if (buffer.version >= entry.version) return true;  // another queue of the same acquire came first
  const bool overlaps = buffer.free && on_ended_bytes(stream, entry.slot, entry.version, entry.epoch);
  if (!buffer.free || overlaps) {
    (overlaps ? stream.ended_waiting : slot.waiting) |= 1U << queue;
    block(id, queue, UnitState::wait_store);
    return false;
  }
  buffer = BufferState{};
  buffer.version = entry.version;
  buffer.free = false;
  wake_mask(id, slot.waiting);
  return true;
}

bool Simulator::try_compute(int id, int queue, const Entry& entry) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  const std::int64_t free_at = unit_states_[static_cast<std::size_t>(q.unit)].busy_until;
  if (free_at > now_) {
    wake(id, queue, free_at);
    return false;
  }
  History history;
  history.weights_resident = entry.weights >= 0 && entry.weights == q.last_weights;
  history.pipelined = entry.descriptor.kind == ComputeKind::mma && q.busy_end == now_ && now_ > 0;
  const TileLatency latency = stream.kind->latencies().latency(entry.descriptor, history);
  if (entry.descriptor.kind == ComputeKind::mma) q.last_weights = entry.weights;
  const CoreKind& kind = *stream.kind;
  busy(id, queue, now_, kind.after(now_, latency.busy), entry);
  units_[static_cast<std::size_t>(q.unit)].work += entry.work;
  q.done_until = std::max(q.done_until, kind.after(now_, latency.done));
  q.consumed_until = std::max(q.consumed_until, kind.after(now_, latency.consumed));
  if (KernelCounters* kernel = kernel_of(stream, entry))
    (entry.opcode == Opcode::mma ? kernel->multiply_adds : kernel->vector_operations) += entry.work;
  used(stream, entry, now_, q.done_until);
  return true;
}

bool Simulator::try_transfer(int id, int queue, Entry& entry) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  if (q.issue_ready > now_) {
    wake(id, queue, q.issue_ready);
    return false;
  }
  if (entry.bytes == 0) {  // nothing inside the tensor: only the fill, which costs the issue
    q.issue_ready = stream.kind->after(now_, stream.kind->core.dma.issue_cycles);
    q.done_until = q.consumed_until = std::max(q.done_until, q.issue_ready);
    used(stream, entry, now_, q.done_until);
    if (entry.pattern >= 0) free_patterns_.push_back(entry.pattern);
    if (entry.opcode == Opcode::store && entry.counter >= 0)
      after_transfers(id, queue, q.done_until, {EventKind::count, entry.counter, entry.index, 1});
    stream.done_until = std::max(stream.done_until, q.done_until);
    return true;
  }
  unblock(id, queue);
  q.transferring = true;
  q.left = entry.bytes;
  q.next_address = entry.address;
  q.finish = q.started = now_;
  if (const std::int64_t cycles = stream.kind->core.dma.issue_cycles; cycles > 0)
    push(EventKind::chunk, stream.kind->after(now_, cycles), id, queue);
  else
    chunk(id, queue);
  return false;  // end_transfer pops the entry
}

void Simulator::chunk(int id, int queue) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  const Entry& entry = q.entries.front();
  if (routed_) {
    routed_chunk(id, queue);
    return;
  }
  const CoreKind& kind = *stream.kind;
  while (true) {
    if (q.chunks >= kind.window) {
      std::int64_t& oldest = q.in_flight[static_cast<std::size_t>((q.chunks - kind.window) & 63)];
      oldest = memory_->completion(oldest);
      if (oldest > now_) {
        push(EventKind::chunk, oldest, id, queue);
        return;
      }
    }
    Request request{stream.physical_core,          q.next_address,   std::min(q.left, kind.chunk_bytes),
                    entry.opcode == Opcode::store, id * 64L + queue, q.left > kind.chunk_bytes};
    if (entry.pattern >= 0) {
      request.pattern = &patterns_[static_cast<std::size_t>(entry.pattern)];
      request.offset = entry.bytes - q.left;
    }
    std::int64_t retry = now_ + 1;
    const auto complete = memory_->submit(request, now_, retry);
    if (!complete) {
      push(EventKind::chunk, std::max(retry, now_ + 1), id, queue);
      return;
    }
    q.in_flight[static_cast<std::size_t>(q.chunks++ & 63)] = *complete;
    q.finish = std::max(q.finish, *complete);
    q.left -= request.bytes;
    q.next_address += request.bytes;
    (request.write ? written_bytes_ : read_bytes_) += request.bytes;
    network_bytes_ += request.bytes;
    const std::int64_t next = kind.after(now_, ceil_div(request.bytes, kind.core.dma.bytes_per_cycle));
    q.finish = std::max(q.finish, next);  // the last byte, too, passes the DMA engine
    if (q.left == 0) {
      q.issue_ready = next;
      end_transfer(id, queue, kind.after(q.finish, kind.core.dma.latency_cycles));
      return;
    }
    if (next > now_) {
      push(EventKind::chunk, next, id, queue);
      return;
    }
  }
}

void Simulator::end_transfer(int id, int queue, std::int64_t done) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  const Entry entry = q.entries.front();
  account_transfer(id, queue, entry, q.started, done);
  q.transferring = false;
  popped(id, queue);
  wake(id, queue, now_);
}

void Simulator::account_transfer(int id, int queue, const Entry& entry, std::int64_t started, std::int64_t done) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  Queue& q = stream.queues[static_cast<std::size_t>(queue)];
  busy(id, queue, started, done, entry);
  units_[static_cast<std::size_t>(q.unit)].bytes += entry.bytes;
  q.done_until = std::max(q.done_until, done);
  q.consumed_until = q.done_until;
  const std::int64_t stored = entry.opcode == Opcode::store ? entry.bytes - entry.index_bytes : 0;
  if (entry.opcode == Opcode::store) {  // its indices were read
    written_bytes_ -= entry.index_bytes;
    read_bytes_ += entry.index_bytes;
  }
  KernelCounters* kernel = entry.opcode == Opcode::send ? nullptr : kernel_of(stream, entry);
  if (kernel) {
    kernel->load_bytes += entry.bytes - stored;
    kernel->store_bytes += stored;
  }
  if (entry.pattern >= 0) account_pattern(entry, kernel);
  used(stream, entry, started, q.done_until);
  if (entry.opcode == Opcode::store && entry.counter >= 0)
    push(EventKind::count, q.done_until, id, entry.counter, entry.index, 1);
}

void Simulator::commit(int id, int slot_id, std::int64_t version, std::int64_t sequence, std::int64_t pieces) {
  SlotState& slot = streams_[static_cast<std::size_t>(id)]->slots[static_cast<std::size_t>(slot_id)];
  BufferState& buffer = slot.buffers[static_cast<std::size_t>(version) % slot.buffers.size()];
  if (buffer.version != version) race(id, slot_id, version, "a commit");
  if (sequence - buffer.next_sequence >= 64) {
    const program::CompiledProgram& program = *streams_[static_cast<std::size_t>(id)]->program;
    const std::string place =
        program.slots[static_cast<std::size_t>(slot_id)].name + "[" + std::to_string(version) + "]";
    throw UserError({"too many commits of a version come before an earlier one: " + program.program().name,
                     place,
                     std::to_string(sequence - buffer.next_sequence),
                     "fewer than 64",
                     {}});
  }
  buffer.pending[static_cast<std::size_t>(sequence & 63)] = static_cast<std::int32_t>(pieces);
  buffer.done_mask |= 1ULL << (sequence & 63);
  while (buffer.done_mask >> (buffer.next_sequence & 63) & 1) {
    buffer.done_mask &= ~(1ULL << (buffer.next_sequence & 63));
    buffer.pieces += buffer.pending[static_cast<std::size_t>(buffer.next_sequence & 63)];
    ++buffer.next_sequence;
  }
  wake_mask(id, slot.waiting);
}

void Simulator::release(int id, int slot_id, std::int64_t version, int queue) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  SlotState& slot = stream.slots[static_cast<std::size_t>(slot_id)];
  BufferState& buffer = slot.buffers[static_cast<std::size_t>(version) % slot.buffers.size()];
  if (buffer.version != version) race(id, slot_id, version, "a release");
  buffer.released |= 1U << queue;
  if (buffer.released != stream.program->slots[static_cast<std::size_t>(slot_id)].consumers) return;
  buffer.free = true;
  wake_mask(id, slot.waiting);
  wake_senders(slot.remote_waiting);
  if (stream.ended.empty()) return;
  std::erase_if(stream.ended, [&](const EndedBuffer& ended) { return is_free(stream, ended); });
  wake_mask(id, stream.ended_waiting);
  wake_senders(stream.remote_waiting);
}

}  // namespace tilesim::engine
