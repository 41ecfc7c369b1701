// What takes energy, counted; and counts times a table of energies.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tilesim {

/// How often something happened that takes energy. Engine and closed forms count; what one takes is a table's matter.
struct Count {
  std::string part;       ///< arrays | vector unit | scratchpad | memory | network | static
  std::string item;       ///< what happened: "multiply-adds", "memory bytes", "DRAM activations", ...
  std::string level;      ///< of a memory; empty elsewhere
  std::string operation;  ///< the kernel that caused it; empty: what belongs to none
  double number = 0;
};

/// What one of an item takes.
struct EnergyRate {
  std::string item;
  double femtojoules = 0;
  bool known = true;
  bool events = true;  ///< whole ones; time has fractions
};

/// Energy of an item over the whole run.
struct EnergyPart {
  std::string part;
  std::int64_t count = 0;
  std::int64_t femtojoules = 0;
  bool known = true;
};

/// Items in the table's order, those that did not happen too.
std::vector<EnergyPart> energy_of(std::span<const Count> counts, std::span<const EnergyRate> table);

/// One count per kernel, and one for what is left of the total, where something is.
struct Caused {
  std::string operation;
  double number = 0;
};
void add_counts(std::vector<Count>& counts, const Count& total, std::span<const Caused> operations);

}  // namespace tilesim
