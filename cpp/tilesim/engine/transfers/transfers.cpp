#include "tilesim/engine/transfers/transfers.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::engine {

using program::Opcode;

bool Transfers::start(Stream& stream, int queue, const ResolvedStatement& statement) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t now = agenda_.now(), issue = stream.kind->core.dma.issue_cycles;
  if (q.issue_ready > now) {
    wake(agenda_, stream, queue, q.issue_ready);
    return false;
  }
  if (statement.bytes == 0) {  // all elements are outside the tensor: the fill only takes the issue time
    q.issue_ready = stream.kind->after(now, issue);
    q.done_until = q.consumed_until = std::max(q.done_until, q.issue_ready);
    stream.kernels.used(statement.kernel, now, q.done_until);
    if (statement.pattern >= 0) memory_.drop_pattern(statement.pattern, statement.opcode == Opcode::load, 0);
    if (statement.opcode == Opcode::store && statement.counter >= 0)
      after(stream, queue, q.done_until, {EventKind::count, statement.counter, {statement.index, 1, 0}, 0});
    stream.done_until = std::max(stream.done_until, q.done_until);
    return true;
  }
  accounts_.unblock(stream, q);
  q.transferring = true;
  q.left = statement.bytes;
  q.next_address = statement.address;
  q.finish = q.started = now;
  if (issue > 0)
    agenda_.push(EventKind::chunk, stream.kind->after(now, issue), stream.number, queue);
  else
    chunk(stream, queue);
  return false;  // its last piece removes it from the queue
}

/// Whether the queue may have another piece in flight; if not, a later event calls `chunk`.
bool Transfers::has_window(Stream& stream, int queue) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t window = stream.kind->window;
  if (q.open_pieces >= window) {
    q.waits_for_piece = true;
    return false;
  }
  if (q.chunks < window) return true;
  Completion& oldest = q.in_flight[static_cast<std::size_t>((q.chunks - window) & 63)];
  if (!oldest.known()) oldest = Completion::at(memory_.port().complete(oldest.read()));
  if (oldest.cycle() <= agenda_.now()) return true;
  agenda_.push(EventKind::chunk, oldest.cycle(), stream.number, queue);
  return false;
}

Request Transfers::next_piece(const Stream& stream, int queue) {
  const Queue& q = stream.queues[at(queue)];
  const ResolvedStatement& statement = q.statements.front();
  const std::int64_t most = stream.kind->chunk_bytes;
  Request request{stream.physical_core,       q.next_address, std::min(q.left, most), statement.opcode == Opcode::store,
                  stream.place * 64L + queue, q.left > most};
  if (statement.pattern >= 0) {
    request.pattern = &memory_.pattern(statement.pattern);
    request.offset = statement.bytes - q.left;
  }
  return request;
}

/// Requests the parts of other cores, in pieces through the network. Returns false if parts are left, which a later
/// event requests.
bool Transfers::fetch(Stream& stream, int queue) {
  Queue& q = stream.queues[at(queue)];
  const ResolvedStatement& statement = q.statements.front();
  const std::int64_t now = agenda_.now();
  const bool later = memory_.port().answers_later();
  std::int64_t before = 0, asked = statement.bytes - q.left;
  for (const auto& [holder, bytes] : *statement.held) {
    if (asked >= before + bytes || q.left == 0) {
      before += bytes;
      continue;
    }
    if (!has_window(stream, queue)) return false;
    const std::int64_t piece = std::min({before + bytes - asked, stream.kind->chunk_bytes, q.left});
    const std::int64_t from = stream.job->job.cores[at(holder)];
    std::int64_t arrival = now;
    if (later) {
      if (asked == 0) open(stream, queue, statement, q.started);
      memory_.routed()->send(from, stream.physical_core, piece, tag_of(q.open.back(), no_target), now);
      ++open_[at(q.open.back())].left, ++q.open_pieces;
    } else {
      std::int64_t retry = now + 1;
      const std::int64_t to[1] = {stream.physical_core};
      const std::optional<Ports::Sent> sent = memory_.ports().send(from, to, piece, now, retry);
      if (!sent) {
        agenda_.push(EventKind::chunk, std::max(retry, now + 1), stream.number, queue);
        return false;
      }
      arrival = memory_.port().cross(from, stream.physical_core, piece, sent->arrival) + memory_.ports().one_way();
      q.in_flight[static_cast<std::size_t>(q.chunks++ & 63)] = Completion::at(arrival);
    }
    q.left -= piece;
    accounts_.fetched(*stream.job, statement, piece);
    accounts_.passes(stream, statement, piece);
    const std::int64_t next = std::max(now + (later ? 1 : 0),
                                       stream.kind->after(now, ceil_div(piece, stream.kind->core.dma.bytes_per_cycle)));
    q.finish = std::max({q.finish, arrival, next});
    agenda_.push(EventKind::chunk, next, stream.number, queue);
    return false;
  }
  return true;
}

/// A transfer within scratchpads. The part inside the core uses only the DMA engine, in one piece.
void Transfers::copy(Stream& stream, int queue) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t now = agenda_.now();
  const ResolvedStatement& statement = q.statements.front();
  if (statement.held && !fetch(stream, queue)) return;
  if (q.left > 0) {
    accounts_.passes(stream, statement, q.left);
    q.issue_ready = stream.kind->after(now, ceil_div(q.left, stream.kind->core.dma.bytes_per_cycle));
    q.finish = std::max(q.finish, q.issue_ready);
    q.left = 0;
    if (q.issue_ready > now) return agenda_.push(EventKind::chunk, q.issue_ready, stream.number, queue);
  }
  q.issue_ready = now;
  q.transferring = false;
  const bool opened = statement.held && memory_.port().answers_later();
  if (!opened && q.open.empty()) return ended(stream, queue);
  if (!opened) open(stream, queue, statement, q.started);  // so that it completes in order
  const std::int32_t transfer = q.open.back();
  open_[at(transfer)].passed = q.finish;
  issued(stream, queue, transfer);
  if (opened) finish(stream, q);
}

void Transfers::chunk(Stream& stream, int queue) {
  Queue& q = stream.queues[at(queue)];
  if (q.statements.front().on_chip) return copy(stream, queue);
  const CoreKind& kind = *stream.kind;
  const std::int64_t now = agenda_.now();
  const bool later = memory_.port().answers_later();
  while (has_window(stream, queue)) {
    const Request piece = next_piece(stream, queue);
    if (later && q.left == q.statements.front().bytes) open(stream, queue, q.statements.front(), q.started);
    const Offered offered = memory_.port().offer(piece, later ? tag_of(q.open.back(), no_target) : 0, now);
    if (!offered.accepted())
      return agenda_.push(EventKind::chunk, std::max(offered.retry, now + 1), stream.number, queue);
    if (later)
      ++open_[at(q.open.back())].left, ++q.open_pieces;
    else
      q.in_flight[static_cast<std::size_t>(q.chunks++ & 63)] = offered.completion;
    q.left -= piece.bytes;
    q.next_address += piece.bytes;
    accounts_.moved(piece);
    accounts_.passes(stream, q.statements.front(), piece.bytes);
    const std::int64_t passed = kind.after(now, ceil_div(piece.bytes, kind.core.dma.bytes_per_cycle));
    const std::int64_t next = later ? std::max(now + 1, passed) : passed;
    q.finish = std::max({q.finish, offered.completion.cycle(), next});  // the last byte also has to pass the DMA engine
    if (q.left > 0 && next == now) continue;
    if (q.left > 0) return agenda_.push(EventKind::chunk, next, stream.number, queue);
    q.issue_ready = next;
    q.transferring = false;
    if (!later) return ended(stream, queue);
    open_[at(q.open.back())].passed = next;
    return issued(stream, queue, q.open.back());
  }
}

/// Completes the transfer at the queue's head.
void Transfers::ended(Stream& stream, int queue) {
  Queue& q = stream.queues[at(queue)];
  const std::int64_t done = stream.kind->after(q.finish, stream.kind->core.dma.latency_cycles);
  accounts_.transfer(stream, q, q.statements.front(), q.started, done);
  accounts_.pop(stream, q);
  wake(agenda_, stream, queue, agenda_.now());
}

void Transfers::push(const Stream& stream, std::int64_t time, const Effect& effect) {
  if (effect.kind == EventKind::release)
    agenda_.push(effect.kind, time, stream.number, effect.port, effect.details.a << 5 | effect.details.b);
  else
    agenda_.push(effect.kind, time, stream.number, effect.port, effect.details);
}

void Transfers::after(Stream& stream, int queue, std::int64_t time, const Effect& effect) {
  const Queue& q = stream.queues[at(queue)];
  const auto is_consumed = [&](std::int32_t open) { return open_[at(open)].consumed; };
  if (q.open.empty() || (effect.kind == EventKind::release && std::ranges::all_of(q.open, is_consumed)))
    push(stream, std::max(agenda_.now(), time) + effect.delay, effect);
  else
    open_[at(q.open.back())].after.push_back(effect);
}

}  // namespace tilesim::engine
