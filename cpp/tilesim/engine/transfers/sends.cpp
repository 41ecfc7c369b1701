#include "tilesim/engine/transfers/sends.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"

namespace tilesim::engine {

bool Sends::targets(Stream& stream, const ResolvedStatement& statement, std::vector<Transfers::Target>& found) {
  for (const std::unique_ptr<Stream>& other : stream.job->streams) {
    if (!(statement.core >> other->virtual_core & 1)) continue;
    std::int64_t version = 0;
    if (!other->slots.accepts(statement.slot, sender_bit(stream), version)) return false;
    found.emplace_back(other.get(), version);
  }
  return true;
}

bool Sends::start(Stream& stream, int queue, const ResolvedStatement& statement) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t now = agenda_.now();
  std::vector<Transfers::Target> found;
  if (!targets(stream, statement, found)) {
    accounts_.block(stream, q, UnitState::wait_port);
    return false;
  }
  const bool routed = memory_.routed() != nullptr;
  std::optional<Ports::Sent> sent;
  if (!routed) {
    std::vector<std::int64_t> cores;
    for (const auto& [other, version] : found) cores.push_back(other->physical_core);
    std::int64_t retry = now + 1;
    sent = memory_.ports().send(stream.physical_core, cores, statement.bytes, now, retry);
    if (!sent) {
      accounts_.block(stream, q, UnitState::wait_port);
      wake(agenda_, stream, queue, std::max(retry, now + 1));
      return false;
    }
  }
  const std::int64_t bytes = statement.bytes * static_cast<std::int64_t>(found.size());
  totals_.network_bytes += bytes;
  if (KernelCounters* kernel = stream.job->kernels.counters_of(statement.scope)) kernel->send_bytes += bytes;
  for (const auto& [other, version] : found) other->slots.expect(statement.slot, version);
  if (routed) return transfers_.send(stream, queue, statement, std::move(found));
  std::int64_t last = sent->arrival;
  for (const auto& [other, version] : found) {
    const std::int64_t there =
        memory_.port().cross(stream.physical_core, other->physical_core, statement.bytes, sent->arrival);
    agenda_.push(EventKind::arrive, there, other->number, statement.slot, Details{version, statement.pieces, 0});
    last = std::max(last, there);
  }
  accounts_.busy(stream, q, now, sent->through, statement);
  units_[q.unit].bytes += statement.bytes;
  q.done_until = std::max(q.done_until, last);
  q.consumed_until = std::max(q.consumed_until, sent->through);
  stream.kernels.used(statement.kernel, now, last);
  return true;
}

}  // namespace tilesim::engine
