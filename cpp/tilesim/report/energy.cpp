#include "tilesim/report/energy.hpp"

#include <cmath>

namespace tilesim {

std::vector<EnergyPart> energy_of(std::span<const Count> counts, std::span<const EnergyRate> table) {
  std::vector<EnergyPart> parts;
  for (const EnergyRate& rate : table) {
    double number = 0;
    for (const Count& count : counts)
      if (count.item == rate.item) number += count.number;
    const auto whole = static_cast<std::int64_t>(number);
    const auto femtojoules =
        rate.events ? whole * std::llround(rate.femtojoules) : static_cast<std::int64_t>(number * rate.femtojoules);
    parts.push_back({rate.item, whole, femtojoules, rate.known});
  }
  return parts;
}

void add_counts(std::vector<Count>& counts, const Count& total, std::span<const Caused> operations) {
  Count rest = total;
  for (const Caused& one : operations) {
    if (one.number == 0) continue;
    Count& count = counts.emplace_back(total);
    count.operation = one.operation;
    count.number = one.number;
    rest.number -= one.number;
  }
  if (rest.number != 0) counts.push_back(std::move(rest));
}

}  // namespace tilesim
