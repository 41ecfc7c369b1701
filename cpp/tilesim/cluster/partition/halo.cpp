#include "tilesim/cluster/partition/halo.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"

namespace tilesim::partitioning {

namespace {

/// Hops that bring device i the elements from needs[i].first to needs[i].second; where they send less than borders.
void route(const std::vector<std::pair<std::int64_t, std::int64_t>>& needs, Borders& borders) {
  const auto parts = static_cast<std::int64_t>(needs.size());
  std::map<std::int64_t, Hop> hops;
  for (const bool places : {false, true})
    for (std::int64_t i = 0; i < parts; ++i) {
      const auto [from, to] = needs[at(i)];
      for (std::int64_t j = from / borders.part; from < to && j * borders.part < to; ++j) {
        if (j == i) continue;
        Hop& hop = hops[j - i];
        hop.first.resize(at(parts), -1);
        const std::int64_t low = std::max(from, j * borders.part), high = std::min(to, (j + 1) * borders.part);
        if (!places)
          hop.rows = std::max(hop.rows, high - low);
        else
          hop.first[at(i)] = std::min(low - j * borders.part, borders.part - hop.rows);
      }
    }
  std::int64_t sent = 0;
  for (const auto& [distance, hop] : hops) sent += hop.rows;
  if (sent < borders.left + borders.right) borders.hops = std::move(hops);
}

}  // namespace

std::int64_t received(const Borders& borders) {
  if (borders.hops.empty()) return borders.left + borders.right;
  std::int64_t rows = 0;
  for (const auto& [distance, hop] : borders.hops) rows += hop.rows;
  return rows;
}

Borders borders_of(const Halo& halo, std::int64_t extent, std::int64_t parts) {
  Borders borders;
  const std::int64_t own = ceil_div(extent, parts), holes = halo.divisor;
  if (parts > extent || parts > halo.extent || halo.step * own % holes != 0) return borders;
  borders.part = ceil_div(halo.extent, parts);
  borders.first = halo.constant / holes + (halo.constant % holes > 0 ? 1 : 0);
  borders.low = borders.first * holes - halo.constant;
  borders.step = halo.step * own / holes;
  const std::int64_t last = halo.step * (own - 1) + halo.reach - borders.low;
  if (last < 0) return borders;  // some devices would meet nothing but holes
  borders.length = last / holes + 1;
  borders.high = last - (borders.length - 1) * holes;
  const auto length_of = [&](std::int64_t count) {
    const std::int64_t reach = halo.step * (count - 1) + halo.reach - borders.low;
    return reach < 0 ? 0 : reach / holes + 1;
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> needs(at(parts), {0, 0});
  for (std::int64_t i = 0; i < parts; ++i) {
    // Elements of the factor that are padding need nothing; padding of a sum must not meet what is no number.
    const std::int64_t count = std::min(own, extent - i * own), begin = borders.first + i * borders.step;
    const std::int64_t read = halo.sums ? borders.length : count > 0 ? length_of(count) : 0;
    if (read > 0 && (begin < 0 || begin + read > halo.extent)) borders.leaves = true;
    if (count <= 0) continue;
    const std::int64_t from = std::max<std::int64_t>(begin, 0), to = std::min(begin + length_of(count), halo.extent);
    if (from >= to) continue;
    needs[at(i)] = {from, to};
    borders.left = std::max(borders.left, i * borders.part - from);
    borders.right = std::max(borders.right, to - (i + 1) * borders.part);
  }
  if (borders.step != borders.part) route(needs, borders);
  borders.possible = received(borders) < (parts - 1) * borders.part || parts == 1;
  return borders;
}

bool halos_fit(const Rule& rule, int factor, std::int64_t parts) {
  return parts == 1 || std::ranges::all_of(rule.halos, [&](const Halo& halo) {
           return halo.factor != factor || borders_of(halo, rule.factors[at(factor)].extent, parts).possible;
         });
}

const Halo* find_halo(const Rule& rule, std::size_t operand, std::size_t axis) {
  for (const Halo& halo : rule.halos)
    if (halo.operand == operand && halo.axis == axis) return &halo;
  return nullptr;
}

}  // namespace tilesim::partitioning
