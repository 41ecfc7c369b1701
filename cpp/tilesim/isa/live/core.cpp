#include "tilesim/isa/live/core.hpp"

#include <algorithm>

namespace tilesim::isa {

Sequencer& LiveCore::sequencer(int number) {
  std::unique_ptr<Sequencer>& found = sequencers_[number];
  if (!found) found = std::make_unique<Sequencer>(table_, units_, number);
  return *found;
}

std::int64_t LiveCore::next() const {
  Ticks first = Sequencer::never;
  for (const auto& [number, one] : sequencers_) first = std::min(first, one->next());
  return first == Sequencer::never ? -1 : first / cycle;
}

/// Advances the sequencer with the earliest next instruction until another is earlier; ties: the lower number.
void LiveCore::advance(std::int64_t until, std::vector<LiveEvent>& events) {
  Ticks limit = until < Sequencer::never / cycle ? until * cycle : Sequencer::never;
  std::size_t told = events.size();
  for (;;) {
    Sequencer* best = nullptr;
    for (const auto& [number, one] : sequencers_)  // in order of number
      if (one->next() < limit && (best == nullptr || one->next() < best->next())) best = one.get();
    if (best == nullptr) return;
    Ticks other = limit;
    for (const auto& [number, one] : sequencers_)
      if (one->next() < other) other = one->next() + (number > best->number() ? 1 : 0);
    best->advance(best->next() < other ? other : best->next() + 1, events);
    for (; told < events.size(); ++told) limit = std::min(limit, events[told].cycle * cycle);
  }
}

}  // namespace tilesim::isa
