// Chooses among the fastest nests, because models have errors and cores contend for memory.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tilesim/mapping/strategies/few_bytes.hpp"

namespace tilesim::mapping {

void prefer_fewer_bytes(std::vector<Ranked>& fastest) {
  constexpr double alike = 1.005;
  const auto weight = [](const Ranked& ranked) {
    const Cost& cost = ranked.cost;
    return std::pair(cost.total_bytes(), cost.transfers[0] + cost.transfers[1] + cost.transfers[2]);
  };
  auto best = fastest.begin();
  for (auto other = best; other != fastest.end() && other->cycles <= alike * fastest.front().cycles; ++other)
    if (weight(*other) < weight(*best)) best = other;
  std::iter_swap(fastest.begin(), best);
}

void prefer_in_crowd(CostModel& model, std::vector<Ranked>& fastest, CancelToken* cancel) {
  constexpr double alike = 1.15;
  constexpr std::size_t most = 6;
  constexpr std::int64_t most_steps = 1600;  // limit, summed over all cores; bandwidth limits longer programs
  const double limit = alike * fastest.front().cycles;
  auto best = fastest.begin();
  double least = model.crowd(best->nest, most_steps);
  if (std::isinf(least)) return;
  std::size_t tried = 1;
  for (auto other = std::next(best); other != fastest.end() && other->cycles <= limit && tried < most; ++other) {
    if (cancel) cancel->poll();
    ++tried;
    // Nests with more bytes delay other memory traffic and use energy, so they must be faster by more.
    const double worth = other->cost.total_bytes() <= best->cost.total_bytes() ? 0.99 : 0.95;
    if (const double cycles = model.crowd(other->nest, most_steps); cycles < worth * least)
      least = cycles, best = other;
  }
  std::iter_swap(fastest.begin(), best);
}

}  // namespace tilesim::mapping
