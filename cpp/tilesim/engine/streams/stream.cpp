#include "tilesim/engine/streams/stream.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::engine {

void StreamTable::add(Stream& stream) {
  if (2 * ++count_ > table_.size()) grow();
  while (table_[at(next_) & (table_.size() - 1)]) ++next_;
  require(next_ < Agenda::most_streams, "a session has started too many streams");
  stream.number = next_++;
  table_[at(stream.number) & (table_.size() - 1)] = &stream;
  if (free_places_.empty()) free_places_.push_back(static_cast<int>(count_) - 1);
  stream.place = free_places_.back();
  free_places_.pop_back();
}

void StreamTable::remove(const Stream& stream) {
  table_[at(stream.number) & (table_.size() - 1)] = nullptr;
  free_places_.push_back(stream.place);
  --count_;
}

/// Doubles the table. Numbers that differ modulo the old size also differ modulo the new size.
void StreamTable::grow() {
  std::vector<Stream*> larger(2 * table_.size(), nullptr);
  for (Stream* stream : table_)
    if (stream) larger[at(stream->number) & (larger.size() - 1)] = stream;
  table_ = std::move(larger);
}

std::vector<const Stream*> StreamTable::all() const {
  std::vector<const Stream*> streams;
  for (const Stream* stream : table_)
    if (stream) streams.push_back(stream);
  std::sort(streams.begin(), streams.end(), [](const Stream* a, const Stream* b) { return a->number < b->number; });
  return streams;
}

void wake(Agenda& agenda, Stream& stream, int queue, std::int64_t time) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t now = agenda.now();
  if (q.woken && time == now) return;
  if (time == now) q.woken = true;
  agenda.push(EventKind::queue, time, stream.number, queue, time == now ? 0 : 1);
}

void wake_queues(Agenda& agenda, Stream& stream, std::uint32_t queues) {
  for (int queue = 0; queues != 0; ++queue, queues >>= 1)
    if (queues & 1) wake(agenda, stream, queue, agenda.now());
}

void wake_senders(Agenda& agenda, const std::vector<std::unique_ptr<Stream>>& streams, std::uint64_t senders) {
  if (senders == 0) return;
  for (const std::unique_ptr<Stream>& stream : streams) {
    if (!(senders & sender_bit(*stream))) continue;
    for (std::size_t q = 0; q < stream->queues.size(); ++q) {
      const StatementRing& statements = stream->queues[q].statements;
      if (!statements.empty() && statements.front().opcode == program::Opcode::send)
        wake(agenda, *stream, static_cast<int>(q), agenda.now());
    }
  }
}

}  // namespace tilesim::engine
