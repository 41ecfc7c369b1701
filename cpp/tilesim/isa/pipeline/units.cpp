#include "tilesim/isa/pipeline/units.hpp"

#include <algorithm>
#include <limits>

namespace tilesim::isa {

namespace {

constexpr Ticks small_gap = 32 * cycle;   // shorter gaps are not shown
constexpr std::ptrdiff_t most_kept = 16;  // limit on past reservations

using Booked = std::vector<CoreUnits::Held>;

Booked::iterator first_after(Booked& all, Ticks from) {
  return std::upper_bound(all.begin(), all.end(), from,
                          [](Ticks then, const CoreUnits::Held& held) { return then < held.end; });
}

void show(std::vector<CoreUnits::Held>& all, const CoreUnits::Held& held) {
  if (!all.empty() && held.start <= all.back().end + small_gap)
    all.back().end = std::max(all.back().end, held.end);
  else
    all.push_back(held);
}

/// The first time at or after `from` with a gap of `held`; sets `before` to the end of the preceding reservation.
Ticks room(Booked& all, Ticks from, Ticks held, Ticks& before) {
  auto next = first_after(all, from);
  while (next != all.end() && next->start < from + held) from = next->end, ++next;
  before = next == all.begin() ? 0 : std::prev(next)->end;
  return from;
}

}  // namespace

CoreUnits::CoreUnits(const CoreTiming& core) : moves(core.moves) {
  for (const std::uint8_t count : core.pipes) pipes.emplace_back(count);
  for (const CustomUnit& unit : core.units) pipes.emplace_back(unit.pipes);
  arrays.assign(core.pipes[static_cast<std::size_t>(PipeKind::matrix)], ArrayClock(core.array));
}

CoreUnits::PipeSlot CoreUnits::soonest(std::size_t unit, unsigned allowed, Ticks from, Ticks held) {
  PipeSlot best{0, std::numeric_limits<Ticks>::max()};
  Ticks longest = 0;
  std::vector<Pipe>& all = pipes[unit];
  for (std::size_t i = 0; i < all.size() && (i == 0 || i < allowed); ++i) {
    Booked& booked = all[i].booked;
    if (static_cast<std::ptrdiff_t>(booked.size()) > most_kept && booked[most_kept].end <= past)
      booked.erase(booked.begin(), booked.begin() + most_kept);
    Ticks before = 0;
    const Ticks start = room(booked, from, held, before);
    if (start > best.start || (start == best.start && before >= longest)) continue;
    best = {i, start}, longest = before;
  }
  return best;
}

void CoreUnits::book(std::size_t unit, const PipeSlot& place, Ticks held) {
  Pipe& pipe = pipes[unit][place.pipe];
  pipe.booked.insert(first_after(pipe.booked, place.start), {place.start, place.start + held});
  pipe.free = std::max(pipe.free, place.start + held), pipe.busy += held, ++pipe.operations;
  if (shows) show(pipe.shown, {place.start, place.start + held});
}

}  // namespace tilesim::isa
