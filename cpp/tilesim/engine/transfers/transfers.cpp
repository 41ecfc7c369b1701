#include "tilesim/engine/transfers/transfers.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::engine {

using program::Opcode;

bool Transfers::start(Stream& stream, int queue, const Entry& entry) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t now = agenda_.now(), issue = stream.kind->core.dma.issue_cycles;
  if (q.issue_ready > now) {
    wake(agenda_, stream, queue, q.issue_ready);
    return false;
  }
  if (entry.bytes == 0) {  // nothing inside the tensor: only the fill, which costs the issue
    q.issue_ready = stream.kind->after(now, issue);
    q.done_until = q.consumed_until = std::max(q.done_until, q.issue_ready);
    stream.kernels.used(entry.kernel, now, q.done_until);
    if (entry.pattern >= 0) memory_.drop_pattern(entry.pattern, entry.opcode == Opcode::load, 0);
    if (entry.opcode == Opcode::store && entry.counter >= 0)
      after(stream, queue, q.done_until, {EventKind::count, entry.counter, {entry.index, 1, 0}, 0});
    stream.done_until = std::max(stream.done_until, q.done_until);
    return true;
  }
  accounts_.unblock(stream, q);
  q.transferring = true;
  q.left = entry.bytes;
  q.next_address = entry.address;
  q.finish = q.started = now;
  if (issue > 0)
    agenda_.push(EventKind::chunk, stream.kind->after(now, issue), stream.number, queue);
  else
    chunk(stream, queue);
  return false;  // its last piece takes the entry from the queue
}

void Transfers::chunk(Stream& stream, int queue) {
  if (memory_.routed())
    chunk_later(stream, queue);
  else
    chunks_at_once(stream, queue);
}

Request Transfers::next_piece(const Stream& stream, int queue) {
  const Queue& q = stream.queues[at(queue)];
  const Entry& entry = q.entries.front();
  const std::int64_t most = stream.kind->chunk_bytes;
  Request request{stream.physical_core,       q.next_address, std::min(q.left, most), entry.opcode == Opcode::store,
                  stream.place * 64L + queue, q.left > most};
  if (entry.pattern >= 0) {
    request.pattern = &memory_.pattern(entry.pattern);
    request.offset = entry.bytes - q.left;
  }
  return request;
}

void Transfers::taken(Queue& queue, const Request& piece) {
  queue.left -= piece.bytes;
  queue.next_address += piece.bytes;
  accounts_.moved(piece);
}

void Transfers::chunks_at_once(Stream& stream, int queue) {
  Queue& q = stream.queues[at(queue)];
  const CoreKind& kind = *stream.kind;
  const std::int64_t now = agenda_.now();
  while (true) {
    if (q.chunks >= kind.window) {
      std::int64_t& oldest = q.in_flight[static_cast<std::size_t>((q.chunks - kind.window) & 63)];
      oldest = memory_.simple().completion(oldest);
      if (oldest > now) return agenda_.push(EventKind::chunk, oldest, stream.number, queue);
    }
    const Request request = next_piece(stream, queue);
    std::int64_t retry = now + 1;
    const auto complete = memory_.simple().submit(request, now, retry);
    if (!complete) return agenda_.push(EventKind::chunk, std::max(retry, now + 1), stream.number, queue);
    q.in_flight[static_cast<std::size_t>(q.chunks++ & 63)] = *complete;
    taken(q, request);
    const std::int64_t next = kind.after(now, ceil_div(request.bytes, kind.core.dma.bytes_per_cycle));
    q.finish = std::max({q.finish, *complete, next});  // the last byte, too, passes the DMA engine
    if (q.left == 0) {
      q.issue_ready = next;
      break;
    }
    if (next > now) return agenda_.push(EventKind::chunk, next, stream.number, queue);
  }
  accounts_.transfer(stream, q, q.entries.front(), q.started, kind.after(q.finish, kind.core.dma.latency_cycles));
  q.transferring = false;
  accounts_.pop(stream, q);
  wake(agenda_, stream, queue, now);
}

void Transfers::push(const Stream& stream, std::int64_t time, const Effect& effect) {
  if (effect.kind == EventKind::release)
    agenda_.push(effect.kind, time, stream.number, effect.port, effect.details.a << 5 | effect.details.b);
  else
    agenda_.push(effect.kind, time, stream.number, effect.port, effect.details);
}

void Transfers::after(Stream& stream, int queue, std::int64_t time, const Effect& effect) {
  const Queue& q = stream.queues[at(queue)];
  if (q.open.empty())
    push(stream, std::max(agenda_.now(), time) + effect.delay, effect);
  else
    open_[at(q.open.back())].after.push_back(effect);
}

}  // namespace tilesim::engine
