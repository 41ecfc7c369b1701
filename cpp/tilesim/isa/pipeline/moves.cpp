#include "tilesim/isa/pipeline/moves.hpp"

#include <algorithm>

namespace tilesim::isa {

namespace {

constexpr Ticks next_cycle(Ticks t) { return (t + cycle - 1) & ~(cycle - 1); }

/// Ticks for `bytes` at `rate` ticks per MiB.
Ticks at_rate(std::uint64_t bytes, Ticks rate) {
  __extension__ using wide = unsigned __int128;
  return static_cast<Ticks>(wide{bytes} * static_cast<std::uint64_t>(rate) >> 20);
}

}  // namespace

Ticks MoveQueues::place(unsigned queue) const {
  if (queue >= queues_.size()) return 0;
  const Queue& q = queues_[queue];
  return q.starts.size() < static_cast<std::size_t>(timing_.entries) ? 0 : q.starts.front();
}

Ticks MoveQueues::start(unsigned queue, Ticks at, std::uint64_t bytes) {
  if (queue >= queues_.size()) return at;
  Queue& q = queues_[queue];
  const Ticks begin = std::max(at, q.free), issued = begin + timing_.issue;
  q.memory = q.memory_until(begin);
  q.starts.push_back(begin);
  if (q.starts.size() > static_cast<std::size_t>(timing_.entries)) q.starts.pop_front();
  q.free = issued, q.busy += timing_.issue;
  if (bytes == 0) return issued;
  const auto per_cycle = static_cast<std::uint64_t>(timing_.bytes_per_cycle);
  const Ticks passed = issued + static_cast<Ticks>((bytes + per_cycle - 1) / per_cycle) * cycle;
  const Ticks streaming = at_rate(bytes, timing_.memory), trip = timing_.trip[queue < timing_.load_queues ? 0 : 1];
  const Ticks requests = (static_cast<Ticks>(bytes) + timing_.chunk - 1) / timing_.chunk;
  const Ticks in_turn = (requests * trip + streaming) / timing_.window;  // limited by the requests in flight
  memory_free_ = std::max(memory_free_, issued) + streaming;
  const Ticks last = next_cycle(issued + in_turn / requests * (requests - 1));
  q.free = std::max(passed, last);
  q.busy += passed - issued, q.memory += q.free - passed;
  const Ticks over = next_cycle(std::max({q.free, memory_free_ + trip, issued + in_turn})) + timing_.latency;
  q.answered = std::max(q.answered, over);
  return over;
}

void MoveQueues::repeat(const MoveQueues& before, Ticks by, std::int64_t times) {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    Queue& q = queues_[i];
    q.busy += (q.busy - before.queues_[i].busy) * times, q.memory += (q.memory - before.queues_[i].memory) * times;
    q.free += by, q.answered += by;
    for (Ticks& start : q.starts) start += by;
  }
  memory_free_ += by;
}

void MoveQueues::state(Ticks now, std::vector<Ticks>& to) const {
  const auto from_now = [&](Ticks t) { to.push_back(std::max<Ticks>(t - now, 0)); };
  for (const Queue& q : queues_) {
    from_now(q.free), from_now(q.answered);
    for (const Ticks start : q.starts) from_now(start);
  }
  from_now(memory_free_);
}

Ticks Tickets::until(std::uint64_t ticket, unsigned queue) const {
  if (ticket == 0) return queue < queues_.size() ? queues_[queue] : 0;
  return ticket <= over_.size() ? over_[ticket - 1] : 0;
}

void Tickets::add(Ticks over, unsigned queue, std::uint64_t given) {
  over_.resize(given);
  over_.push_back(over);
  if (queue >= queues_.size()) queues_.resize(queue + 1);
  queues_[queue] = std::max(queues_[queue], over);
}

}  // namespace tilesim::isa
