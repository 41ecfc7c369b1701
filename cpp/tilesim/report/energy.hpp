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

/// Number of events that consume energy. Engine and closed forms count; a table gives the energy per event.
struct Count {
  std::string part;       ///< arrays | vector unit | scratchpad | cache | memory | network | static | host | link
  std::string item;       ///< the event: "multiply-adds", "memory bytes", "DRAM activations", ...
  std::string level;      ///< level of a memory; empty for others
  std::string operation;  ///< the kernel that caused it; empty: no kernel
  double number = 0;
  friend bool operator==(const Count&, const Count&) = default;
};

/// Energy per event of an item.
struct EnergyRate {
  std::string item;
  double femtojoules = 0;
  bool known = true;
  bool events = true;     ///< counts are integers; false for time, which has fractions
  std::string part = {};  ///< row that reports its energy; empty: that of the item's name
};

/// Energy of an item over the whole run.
struct EnergyPart {
  std::string part;
  std::int64_t count = 0;
  std::int64_t femtojoules = 0;
  bool known = true;
};

/// Counts multiplied by the table, in the table's order; includes items with count 0, not items without a rate.
std::vector<EnergyPart> energy_of(std::span<const Count> counts, std::span<const EnergyRate> table);

/// The share of a count that an operation causes.
struct Caused {
  std::string operation;
  double number = 0;
};
/// Splits `total` into counts per operation and the rest, if any.
void add_counts(std::vector<Count>& counts, const Count& total, std::span<const Caused> operations);

/// Adds a count to an existing one with the same part, item, level and operation.
class CountSums {
 public:
  void add(const Count& count);
  std::vector<Count> take() { return std::move(counts_); }

 private:
  using Key = std::array<std::string, 4>;
  std::vector<Count> counts_;
  std::map<Key, std::size_t> place_;
};

/// One object per part, item and level, in order of their first counts: pairs of operation and number, and `rest` for
/// counts without an operation. Reading it gives the same counts, grouped by part, item and level.
Json counts_json(std::span<const Count> counts);
std::vector<Count> read_counts(const Json& json);

}  // namespace tilesim
