// Loops in steady state: compares pipeline states and skips repetitions.
#include <algorithm>

#include "tilesim/isa/pipeline/pipeline.hpp"

namespace tilesim::isa {

void Pipeline::state(std::vector<Ticks>& to) const {
  to.clear();
  const auto from_now = [&](Ticks t) { to.push_back(std::max<Ticks>(t - now_, 0)); };
  to.insert(to.end(), {used_, dispatched_, accesses_, control_, conditional_, backward_});
  for (const Ticks t : ready_) from_now(t);
  from_now(vset_ready_);
  for (const Ticks t : divided_) from_now(t);
  for (const Lanes& r : registers_)
    for (const Ticks t : r.in) from_now(t);
  for (const auto& kind : of_core().pipes)
    for (const Pipe& pipe : kind) from_now(pipe.free);
  for (const Queue& q : queues_) {
    from_now(q.last);
    for (unsigned i = 0; i < q.entries; ++i) from_now(q.starts[(q.next + i) % q.entries]);
  }
  for (const ArrayClock& array : of_core().arrays) array.state(now_, to);
  of_core().moves.state(now_, to);
}

void Pipeline::repeat(const Pipeline& before, std::int64_t times) {
  const Ticks shift = (now_ - before.now_) * times;
  std::vector<std::vector<Pipe>>& pipes = own_.pipes;
  const std::vector<std::vector<Pipe>>& were = before.own_.pipes;
  for (std::size_t i = 0; i < states; ++i) front_[i] += (front_[i] - before.front_[i]) * times;
  for (std::size_t kind = 0; kind < pipes.size(); ++kind)
    for (std::size_t p = 0; p < pipes[kind].size(); ++p) {
      Pipe& pipe = pipes[kind][p];
      for (std::size_t i = 0; i < states; ++i) pipe.in[i] += (pipe.in[i] - were[kind][p].in[i]) * times;
      pipe.free += shift;
    }
  for (std::size_t i = 0; i < own_.arrays.size(); ++i) own_.arrays[i].repeat(before.own_.arrays[i], shift, times);
  own_.moves.repeat(before.own_.moves, shift, times);
  now_ += shift, end_ += shift, vset_ready_ += shift;
  for (Ticks& t : ready_) t += shift;
  for (Ticks& t : divided_) t += shift;
  for (Lanes& r : registers_)
    for (Ticks& t : r.in) t += shift;
  for (Queue& q : queues_) {
    q.last += shift;
    for (Ticks& t : q.starts) t += shift;
  }
  instructions_ += (instructions_ - before.instructions_) * static_cast<std::uint64_t>(times);
}

}  // namespace tilesim::isa
