// When each command may next go to each bank, kept by maximum at every issue.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tilesim/engine/dram/lanes.hpp"
#include "tilesim/engine/dram/timing.hpp"

namespace tilesim::engine::dram {

class Readiness {
 public:
  explicit Readiness(const Part& part);
  /// Shared with every copy.
  const Timing& timing() const { return *timing_; }

  /// A command that addresses one bank.
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
    Tick& last = last_[c][timing.scope_of[b]];
    last = std::max(last, t);
    if (window_commands_ >> c & 1) issue_window(command, bank, t);
  }
  /// Whether a command counts in a window of several, as ACT does.
  bool in_window(Command command) const { return window_commands_ >> static_cast<unsigned>(command) & 1; }
  /// PREab or REFab.
  void issue_all(Command command, int scope, Tick t);
  /// First tick for PREab or REFab of a scope.
  Tick all_bank(Command command, int scope) const;
  /// Makes tick `by` the new zero.
  void rebase(Tick by);

  std::array<PerBank, bank_command_count> ready;  ///< first tick per bank command and bank

 private:
  void issue_window(Command command, int bank, Tick t);

  std::shared_ptr<const Timing> timing_;
  /// Last tick of each command per scope, for PREab and REFab.
  std::array<std::array<Tick, bank_limit>, command_count> last_{};
  struct WindowRing {
    std::array<Tick, 16> ticks{};
    std::uint32_t next = 0;
  };
  std::vector<std::vector<WindowRing>> rings_;  ///< per window and node
  std::uint32_t window_commands_ = 0;
};

/// A tick after the base has moved; those long past stay long past.
inline Tick moved(Tick tick, Tick by) { return tick < long_ago / 2 + by ? long_ago : tick - by; }

}  // namespace tilesim::engine::dram
