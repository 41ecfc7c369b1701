#include "tilesim/engine/dram/timing.hpp"

#include <algorithm>

namespace tilesim::engine::dram {

namespace {

bool contains(const std::vector<Command>& list, int command) {
  return std::find(list.begin(), list.end(), static_cast<Command>(command)) != list.end();
}

/// Whether constraint `c` lets a command to bank `from` delay a command to bank `to`.
bool relates(const Part& part, const Constraint& c, int from, int to) {
  const bool same = part.node(c.level, from) == part.node(c.level, to);
  if (!c.sibling) return same;
  return !same && part.node(c.level - 1, from) == part.node(c.level - 1, to);
}

class Builder {
 public:
  Builder(const Part& part, Timing& timing) : part_(part), timing_(timing) {}

  void bank_rows(int after) {
    // Delays are stored per group. A constraint between sibling banks would need a row per bank.
    std::vector<int> banks = representatives(timing_.group_of);
    for (int before = 0; before < timing_.befores; ++before) add_rows(after, before, banks);
    for (int before = 0; before < timing_.befores; ++before) {
      Tick delay = 0;  // a limit of zero ticks has no effect
      for (const Constraint& c : part_.constraints)
        if (c.level == part_.bank_level() && !c.sibling && c.window == 1 && contains(c.after, after) &&
            contains(c.before, before))
          delay = std::max(delay, static_cast<Tick>(c.cycles));
      if (delay > 0) timing_.own_bank[static_cast<std::size_t>(after)].add(before, delay);
    }
  }

  void scope_rows(int after) {
    std::vector<int> banks = representatives(timing_.scope_of);
    for (int before = 0; before < timing_.befores; ++before) add_rows(after, before, banks);
  }

  void columns() {
    for (const std::size_t column : {0, 1})
      for (const Timing::Effect& effect : timing_.effects[column]) {
        if (effect.before == static_cast<int>(column)) timing_.own_direction[column] = effect.value;
        timing_.columns_touch_rows |= effect.before >= 2;
      }
  }

  void windows() {
    for (const Constraint& c : part_.constraints) {
      if (c.window == 1) continue;
      for (int before = 0; before < timing_.befores; ++before) {
        if (!contains(c.before, before)) continue;
        Timing::Window w;
        w.length = c.window;
        w.cycles = static_cast<Tick>(c.cycles);
        for (const Command command : c.after) w.after |= 1U << static_cast<unsigned>(command);
        w.before = before;
        w.nodes = part_.node(c.level, timing_.banks - 1) + 1;
        w.row = static_cast<std::int32_t>(timing_.delays.size());
        for (int bank = 0; bank < timing_.banks; ++bank)
          w.node_of[static_cast<std::size_t>(bank)] = static_cast<std::uint8_t>(part_.node(c.level, bank));
        for (int node = 0; node < w.nodes; ++node)
          push_row([&](int bank) { return part_.node(c.level, bank) == node ? w.cycles : long_ago; });
        timing_.windows.push_back(w);
      }
    }
  }

  void to_all_bank(int after) {
    for (std::size_t kind = 0; kind < 2; ++kind) {
      const int before = static_cast<int>(kind == 0 ? Command::precharge_all : Command::refresh_all);
      Tick &same = timing_.to_all_same[static_cast<std::size_t>(after)][kind],
           &other = timing_.to_all_other[static_cast<std::size_t>(after)][kind];
      same = other = long_ago;
      for (const Constraint& c : part_.constraints) {
        if (!contains(c.after, after) || !contains(c.before, before)) continue;
        const auto cycles = static_cast<Tick>(c.cycles);
        // A constraint on the scope's level limits the scope, or for siblings the other scopes; a higher level limits
        // all.
        if (!c.sibling) same = std::max(same, cycles);
        if (c.sibling || c.level < part_.features.all_bank_scope) other = std::max(other, cycles);
      }
    }
  }

 private:
  /// The lowest bank of each node.
  std::vector<int> representatives(const std::array<std::uint8_t, bank_limit>& node_of) const {
    std::vector<int> banks;
    for (int bank = 0; bank < timing_.banks; ++bank)
      if (static_cast<int>(node_of[static_cast<std::size_t>(bank)]) == static_cast<int>(banks.size()))
        banks.push_back(bank);
    return banks;
  }

  template <class Delay>
  void push_row(Delay delay) {
    for (int block = 0; block < timing_.blocks; ++block) {
      Block lanes{};
      for (int lane = 0; lane < block_lanes; ++lane) {
        const int bank = block * block_lanes + lane;
        lanes.lane[static_cast<std::size_t>(lane)] = bank < timing_.banks ? delay(bank) : long_ago;
      }
      timing_.delays.push_back(lanes);
    }
  }

  void add_rows(int after, int before, const std::vector<int>& nodes) {
    bool any = false;
    const auto row = static_cast<std::int32_t>(timing_.delays.size());
    for (const int from : nodes)
      push_row([&](int to) {
        Tick longest = long_ago;
        for (const Constraint& c : part_.constraints) {
          if (c.window > 1 || !contains(c.after, after) || !contains(c.before, before)) continue;
          if (c.level == part_.bank_level() && !c.sibling) continue;  // belongs to own_bank
          if (relates(part_, c, from, to)) longest = std::max(longest, static_cast<Tick>(c.cycles));
        }
        any |= longest > 0;
        return longest;
      });
    if (any)
      timing_.effects[static_cast<std::size_t>(after)].add(before, row);
    else
      timing_.delays.resize(static_cast<std::size_t>(row));
  }

  const Part& part_;
  Timing& timing_;
};

}  // namespace

Timing::Timing(const Part& part) : banks(part.banks()), blocks((part.banks() + block_lanes - 1) / block_lanes) {
  befores = part.controller.refresh == RefreshMode::per_bank ? bank_command_count : bank_command_count - 1;
  bool bank_siblings = false;
  for (const Constraint& c : part.constraints) bank_siblings |= c.sibling && c.level == part.bank_level();
  const int group_level = bank_siblings ? part.bank_level() : part.bank_level() - 1;
  scopes = part.node(part.features.all_bank_scope, banks - 1) + 1;
  scope_banks.resize(static_cast<std::size_t>(scopes));
  for (int bank = 0; bank < banks; ++bank) {
    const auto b = static_cast<std::size_t>(bank);
    group_of[b] = static_cast<std::uint8_t>(part.node(group_level, bank));
    scope_of[b] = static_cast<std::uint8_t>(part.node(part.features.all_bank_scope, bank));
    scope_banks[scope_of[b]] |= bank_bit<WideMask>(bank);
  }
  Builder builder(part, *this);
  for (int after = 0; after < command_count; ++after) {
    if (after < bank_command_count)
      builder.bank_rows(after);
    else
      builder.scope_rows(after);
    builder.to_all_bank(after);
  }
  builder.columns();
  builder.windows();
}

}  // namespace tilesim::engine::dram
