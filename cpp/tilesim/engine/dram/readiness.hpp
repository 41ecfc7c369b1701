// Per command and bank: the earliest tick in which the command may issue. Every issued command raises these ticks.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "tilesim/engine/dram/lanes.hpp"
#include "tilesim/engine/dram/timing.hpp"

namespace tilesim::engine::dram {

template <class Mask>
class Readiness {
 public:
  explicit Readiness(const Part& part);
  /// Timing tables; copies of this object share them.
  const Timing& timing() const { return *timing_; }

  /// Applies a command that addresses one bank.
  [[gnu::always_inline]] void issue(Command command, int bank, Tick t) {
    const auto c = static_cast<std::size_t>(command), b = static_cast<std::size_t>(bank);
    const Timing& timing = *timing_;
    const Block* delays = timing.delays.data() + timing.group_of[b] * timing.blocks;
    for (const Timing::Effect& effect : timing.effects[c])
      raise(ready[static_cast<std::size_t>(effect.before)], delays + effect.value, t, timing.blocks);
    for (const Timing::Effect& effect : timing.own_bank[c]) {
      Tick& at = ready[static_cast<std::size_t>(effect.before)].at[b];
      at = std::max(at, t + effect.value);
    }
    last_[c][timing.scope_of[b]] = t;
    if (window_commands_ >> c & 1) issue_window(command, bank, t);
  }
  /// Applies RD or WR. `settle` applies the effects on the other direction later, unless they affect row commands.
  [[gnu::always_inline]] void issue_column(std::size_t column, int bank, Tick t) {
    const Timing& timing = *timing_;
    if (timing.columns_touch_rows || in_window(static_cast<Command>(column)))
      return issue(static_cast<Command>(column), bank, t);
    const auto b = static_cast<std::size_t>(bank);
    const std::size_t group = timing.group_of[b];
    const Block* delays = timing.delays.data() + group * static_cast<std::size_t>(timing.blocks);
    if (timing.own_direction[column] >= 0)
      raise(ready[column], delays + timing.own_direction[column], t, timing.blocks);
    for (const Timing::Effect& effect : timing.own_bank[column]) {
      Tick& at = ready[static_cast<std::size_t>(effect.before)].at[b];
      at = std::max(at, t + effect.value);
    }
    last_[column][timing.scope_of[b]] = t;
    late_[column][group] = t;
    unsettled_[column] |= bank_bit<Mask>(static_cast<int>(group));
  }
  /// Whether effects of RD (0) or WR (1) are deferred.
  bool unsettled(std::size_t column) const { return unsettled_[column] != 0; }
  void settle(std::size_t column) {
    const Timing& timing = *timing_;
    for (Mask rest = unsettled_[column]; rest != 0; rest &= rest - 1) {
      const auto group = static_cast<std::size_t>(first_bank(rest));
      const Block* delays = timing.delays.data() + group * static_cast<std::size_t>(timing.blocks);
      for (const Timing::Effect& effect : timing.effects[column])
        if (effect.before != static_cast<std::int32_t>(column))
          raise(ready[static_cast<std::size_t>(effect.before)], delays + effect.value, late_[column][group],
                timing.blocks);
    }
    unsettled_[column] = 0;
  }
  /// Whether a window such as the four-activate window counts the command.
  bool in_window(Command command) const { return window_commands_ >> static_cast<unsigned>(command) & 1; }
  /// Applies PREab or REFab.
  void issue_all(Command command, int scope, Tick t);
  /// First tick in which PREab or REFab of a scope may issue.
  Tick all_bank(Command command, int scope) const;
  /// Appends, for each limit on later commands, the ticks from `now` until it ends. Call `settle` first.
  void add_state(Tick now, std::vector<std::int64_t>& state) const;
  /// Subtracts `by` from all ticks.
  void rebase(Tick by);

  std::array<PerBank<Mask>, bank_command_count> ready;  ///< earliest tick per bank command and bank

 private:
  void issue_window(Command command, int bank, Tick t);

  std::shared_ptr<const Timing> timing_;
  /// Last tick of each command per scope; limits PREab and REFab.
  std::array<std::array<Tick, static_cast<std::size_t>(mask_banks<Mask>)>, command_count> last_{};
  /// Per group, for RD and WR: tick of the last command; groups whose effects are deferred until `settle`.
  std::array<std::array<Tick, static_cast<std::size_t>(mask_banks<Mask>)>, 2> late_{};
  std::array<Mask, 2> unsettled_{};
  struct WindowRing {
    std::array<Tick, 16> ticks{};
    std::uint32_t next = 0;
  };
  std::vector<std::vector<WindowRing>> rings_;  ///< per window and node
  std::uint32_t window_commands_ = 0;
};

template <class Mask>
inline void Readiness<Mask>::issue_window(Command command, int bank, Tick t) {
  const Timing& timing = *timing_;
  for (std::size_t i = 0; i < timing.windows.size(); ++i) {
    const Timing::Window& w = timing.windows[i];
    if ((w.after >> static_cast<unsigned>(command) & 1) == 0) continue;
    const auto node = static_cast<std::size_t>(w.node_of[static_cast<std::size_t>(bank)]);
    WindowRing& ring = rings_[i][node];
    ring.ticks[ring.next] = t;
    ring.next = ring.next + 1 == static_cast<std::uint32_t>(w.length) ? 0 : ring.next + 1;
    const Tick oldest = ring.ticks[ring.next];
    if (oldest == long_ago) continue;
    const std::int32_t row = w.row + static_cast<std::int32_t>(node) * timing.blocks;
    raise(ready[static_cast<std::size_t>(w.before)], &timing.delays[static_cast<std::size_t>(row)], oldest,
          timing.blocks);
  }
}

/// A tick relative to a base that has moved by `by`; long_ago does not change.
inline Tick moved(Tick tick, Tick by) { return tick < long_ago / 2 + by ? long_ago : tick - by; }

}  // namespace tilesim::engine::dram
