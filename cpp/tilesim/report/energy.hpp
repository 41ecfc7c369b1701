// Counts of events that take energy, and their product with a table of energies.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/json/json.hpp"

namespace tilesim {

/// How often something happened that takes energy. Engine and closed forms count; what one takes is a table's matter.
struct Count {
  std::string part;       ///< arrays | vector unit | scratchpad | cache | memory | network | static | host | link
  std::string item;       ///< what happened: "multiply-adds", "memory bytes", "DRAM activations", ...
  std::string level;      ///< of a memory; empty elsewhere
  std::string operation;  ///< the kernel that caused it; empty: what belongs to none
  double number = 0;
  friend bool operator==(const Count&, const Count&) = default;
};

/// What one of an item takes.
struct EnergyRate {
  std::string item;
  double femtojoules = 0;
  bool known = true;
  bool events = true;     ///< whole ones; time has fractions
  std::string part = {};  ///< row of the energy that it is told under; empty: one of the item's name
};

/// Energy of an item over the whole run.
struct EnergyPart {
  std::string part;
  std::int64_t count = 0;
  std::int64_t femtojoules = 0;
  bool known = true;
};

/// Counts times the table, in the table's order; items that did not happen too, items without a rate not.
std::vector<EnergyPart> energy_of(std::span<const Count> counts, std::span<const EnergyRate> table);

/// One count per kernel, and one for what is left of the total, where something is.
struct Caused {
  std::string operation;
  double number = 0;
};
void add_counts(std::vector<Count>& counts, const Count& total, std::span<const Caused> operations);

/// One more of what may be there already, with the same part, item, level and operation.
class CountSums {
 public:
  void add(const Count& count);
  std::vector<Count> take() { return std::move(counts_); }

 private:
  using Key = std::array<std::string, 4>;
  std::vector<Count> counts_;
  std::map<Key, std::size_t> place_;
};

/// One object per part, item and level, in the order of their first counts: pairs of operation and number, and `rest`,
/// what belongs to none. The way back gives the same counts, those of a part, item and level together.
Json counts_json(std::span<const Count> counts);
std::vector<Count> read_counts(const Json& json);

}  // namespace tilesim
