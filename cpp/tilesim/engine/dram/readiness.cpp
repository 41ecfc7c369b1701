#include "tilesim/engine/dram/readiness.hpp"

namespace tilesim::engine::dram {

template <class Mask>
Readiness<Mask>::Readiness(const Part& part) : timing_(std::make_shared<const Timing>(part)) {
  const Timing& timing = *timing_;
  for (PerBank<Mask>& per_bank : ready) per_bank.at.fill(long_ago);
  for (auto& per_scope : last_) per_scope.fill(long_ago);
  for (const Timing::Window& w : timing.windows) {
    WindowRing ring;
    ring.ticks.fill(long_ago);
    rings_.emplace_back(static_cast<std::size_t>(w.nodes), ring);
    window_commands_ |= w.after;
  }
}

template <class Mask>
void Readiness<Mask>::issue_all(Command command, int scope, Tick t) {
  const Timing& timing = *timing_;
  const auto c = static_cast<std::size_t>(command);
  const Block* delays = timing.delays.data() + scope * timing.blocks;
  for (const Timing::Effect& effect : timing.effects[c])
    raise(ready[static_cast<std::size_t>(effect.before)], delays + effect.value, t, timing.blocks);
  last_[c][static_cast<std::size_t>(scope)] = t;
}

template <class Mask>
Tick Readiness<Mask>::all_bank(Command command, int scope) const {
  const Timing& timing = *timing_;
  const std::size_t kind = command == Command::precharge_all ? 0 : 1;
  Tick first = long_ago;
  for (std::size_t after = 0; after < command_count; ++after)
    for (int s = 0; s < timing.scopes; ++s) {
      const Tick delay = s == scope ? timing.to_all_same[after][kind] : timing.to_all_other[after][kind];
      first = std::max(first, last_[after][static_cast<std::size_t>(s)] + delay);
    }
  return first;
}

/// For an all-bank command, only the longest limit of earlier commands matters, because later commands set later
/// limits.
template <class Mask>
void Readiness<Mask>::add_state(Tick now, std::vector<std::int64_t>& state) const {
  const Timing& timing = *timing_;
  const auto add = [&](std::int64_t tick) { state.push_back(std::max<std::int64_t>(tick - now, 0)); };
  for (const PerBank<Mask>& per_bank : ready)
    for (int bank = 0; bank < timing.banks; ++bank) add(per_bank.at[static_cast<std::size_t>(bank)]);
  for (int scope = 0; scope < timing.scopes; ++scope)
    for (const Command command : {Command::precharge_all, Command::refresh_all}) add(all_bank(command, scope));
  for (std::size_t i = 0; i < timing.windows.size(); ++i)
    for (const WindowRing& ring : rings_[i])
      for (int k = 0; k < timing.windows[i].length; ++k) {
        const auto place =
            (ring.next + static_cast<std::uint32_t>(k)) % static_cast<std::uint32_t>(timing.windows[i].length);
        add(std::int64_t{ring.ticks[place]} + timing.windows[i].cycles);
      }
}

template <class Mask>
void Readiness<Mask>::rebase(Tick by) {
  for (const std::size_t column : {0, 1}) settle(column);
  for (PerBank<Mask>& per_bank : ready)
    for (Tick& tick : per_bank.at) tick = moved(tick, by);
  for (auto& per_scope : last_)
    for (Tick& tick : per_scope) tick = moved(tick, by);
  for (auto& nodes : rings_)
    for (WindowRing& ring : nodes)
      for (Tick& tick : ring.ticks) tick = moved(tick, by);
}

template class Readiness<NarrowMask>;
template class Readiness<WideMask>;

}  // namespace tilesim::engine::dram
