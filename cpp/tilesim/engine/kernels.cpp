// Time of kernels, which may overlap, and the bytes of scopes that have ended in text order but not yet in time.
#include <algorithm>

#include "tilesim/engine/simulator.hpp"

namespace tilesim::engine {

void Simulator::begin_kernel(int id, std::int32_t scope, std::int64_t launch) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  const bool drained = stream.entries_in_queues == 0 && now_ >= stream.done_until;
  KernelRun& run = stream.running.emplace_back();
  run.scope = scope;
  run.instance = stream.instances[scope]++;
  if (drained) run.start = now_;
  run.finish = drained ? now_ + launch : 0;
  if (stream.virtual_core != 0 || stream.context != 0) return;
  KernelCounters& kernel = jobs_[static_cast<std::size_t>(stream.job)]->kernels[static_cast<std::size_t>(scope)];
  ++kernel.count;
  kernel.launch += launch;
}

void Simulator::used(Stream& stream, const Entry& entry, std::int64_t start, std::int64_t finish) {
  if (entry.kernel < 0) return;
  KernelRun& run = stream.running[static_cast<std::size_t>(entry.kernel - stream.first_running)];
  run.start = run.start < 0 ? start : std::min(run.start, start);
  run.finish = std::max(run.finish, finish);
  run.worked = true;
}

/// Kernels that are over, in text order, get their time once every stream has done its part. A stream without a share
/// of the work does not stretch it.
void Simulator::settle(Stream& stream) {
  JobState& job = *jobs_[static_cast<std::size_t>(stream.job)];
  const bool leads = stream.virtual_core == 0 && stream.context == 0;
  while (!stream.running.empty() && stream.running.front().ended && stream.running.front().pending == 0) {
    const KernelRun& run = stream.running.front();
    const std::pair<std::int32_t, std::int64_t> key{run.scope, run.instance};
    KernelSpan& span = job.spans[key];
    if (leads || run.worked) {
      const std::int64_t start = run.start < 0 ? now_ : run.start;
      span.start = span.start < 0 ? start : std::min(span.start, start);
      span.finish = std::max({span.finish, run.finish, start});
    }
    if (++span.streams == job.streams.size()) {
      account(job, run.scope, span);
      job.spans.erase(key);
    }
    stream.running.pop_front();
    ++stream.first_running;
  }
}

/// Exclusively, a kernel has what its end adds to those before.
void Simulator::account(JobState& job, std::int32_t scope, const KernelSpan& span) const {
  KernelCounters& kernel = job.kernels[static_cast<std::size_t>(scope)];
  const std::int64_t start = std::max<std::int64_t>(span.start, 0), finish = std::max(span.finish, start);
  kernel.cycles += finish - start;
  kernel.exclusive += std::max<std::int64_t>(0, finish - job.accounted);
  kernel.start = kernel.start < 0 ? start : kernel.start;
  kernel.finish = std::max(kernel.finish, finish);
  job.accounted = std::max(job.accounted, finish);
  job.last_kernel = scope;
}

bool Simulator::is_free(const Stream& stream, const EndedBuffer& ended) const {
  const SlotState& slot = stream.slots[static_cast<std::size_t>(ended.slot)];
  const BufferState& buffer = slot.buffers[static_cast<std::size_t>(ended.version) % slot.buffers.size()];
  return buffer.version > ended.version || (buffer.version == ended.version && buffer.free);
}

void Simulator::end_slots(Stream& stream, std::int32_t scope) {
  const auto& slots = jobs_[static_cast<std::size_t>(stream.job)]->slots_of[static_cast<std::size_t>(scope)];
  if (slots.empty()) return;
  for (const std::int32_t slot : slots) {
    const std::int64_t last = stream.cursor.version(slot, 0);
    const std::int64_t depth = stream.program->slots[static_cast<std::size_t>(slot)].depth;
    for (std::int64_t version = std::max<std::int64_t>(0, last - depth + 1); version <= last; ++version)
      if (const EndedBuffer ended{slot, version, stream.ended_scopes}; !is_free(stream, ended))
        stream.ended.push_back(ended);
  }
  ++stream.ended_scopes;
}

/// Whether a version would lie on bytes that a scope which ended before it still uses.
bool Simulator::on_ended_bytes(Stream& stream, std::int32_t slot, std::int64_t version, std::int64_t epoch) const {
  if (stream.ended.empty()) return false;
  const program::CompiledSlot& own = stream.program->slots[static_cast<std::size_t>(slot)];
  const std::int64_t low = own.address + version % own.depth * own.bytes, high = low + own.bytes;
  return std::any_of(stream.ended.begin(), stream.ended.end(), [&](const EndedBuffer& ended) {
    if (ended.epoch >= epoch || ended.slot == slot || is_free(stream, ended)) return false;
    const program::CompiledSlot& other = stream.program->slots[static_cast<std::size_t>(ended.slot)];
    const std::int64_t from = other.address + ended.version % other.depth * other.bytes;
    return other.accumulator == own.accumulator && from < high && from + other.bytes > low;
  });
}

}  // namespace tilesim::engine
