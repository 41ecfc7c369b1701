#include "tilesim/engine/replay/extend.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tilesim/base/index.hpp"

namespace tilesim::engine::replay {

namespace {

/// The kind of a number, which determines its error bound.
enum class Sort : std::uint8_t { cycles, queue_time, time, count, waiting };

/// Visits every number that grows with the work, in a fixed order.
template <class R, class Visit>
void numbers(R& result, const Visit& visit) {
  visit(Sort::cycles, result.cycles);
  visit(Sort::waiting, result.events);
  for (auto* count :
       {&result.tile_operations, &result.memory_read_bytes, &result.memory_written_bytes, &result.network_bytes,
        &result.memory_local_bytes, &result.memory_remote_bytes, &result.memory_merged_bytes,
        &result.memory_forwarded_bytes, &result.memory_padding_bytes, &result.on_chip_bytes})
    visit(Sort::count, *count);
  visit(Sort::count, result.multiply_adds);
  visit(Sort::count, result.vector_operations);
  for (auto& unit : result.units) {
    const bool queue = unit.kind == "load" || unit.kind == "store" || unit.kind == "send";
    const Sort busy = queue ? Sort::queue_time : Sort::time;
    for (int state = 0; state < unit_state_count; ++state)
      visit(state == static_cast<int>(UnitState::busy) ? busy : Sort::waiting, unit.cycles[state]);
    visit(Sort::count, unit.operations);
    visit(Sort::count, unit.bytes);
    visit(Sort::count, unit.work);
  }
  for (auto& row : result.operations) {
    for (auto* time : {&row.start, &row.finish, &row.exclusive}) visit(Sort::waiting, *time);
    for (auto* time : {&row.cycles, &row.array_busy, &row.vector_busy, &row.memory_busy}) visit(Sort::time, *time);
    for (auto* count : {&row.count, &row.load_bytes, &row.store_bytes, &row.launch}) visit(Sort::count, *count);
    visit(Sort::count, row.multiply_adds);
    visit(Sort::count, row.vector_operations);
  }
  for (auto& part : result.energy) {
    visit(Sort::count, part.count);
    visit(Sort::count, part.femtojoules);
  }
}

bool same_form(const Result& a, const Result& b) {
  const auto equal = [](const auto& x, const auto& y, const auto& name) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](const auto& one, const auto& other) { return name(one) == name(other); });
  };
  return equal(a.units, b.units, [](const auto& unit) { return unit.unit; }) &&
         equal(a.operations, b.operations, [](const auto& row) { return row.name; }) &&
         equal(a.energy, b.energy, [](const auto& part) { return part.part; });
}

/// A sum of weighted numbers: exact for integers as long as they fit; remainders and other values in floating point.
class WeightedSum {
 public:
  void add(const Weight& weight, std::int64_t value) {
    Int128 product = 0;
    if (__builtin_mul_overflow(weight.numerator, static_cast<Int128>(value), &product) ||
        std::abs(wide(product)) > 1e36L) {
      rest_ += wide(weight.numerator) * static_cast<long double>(value) / wide(weight.denominator);
      return;
    }
    whole_ += product / weight.denominator;
    rest_ += wide(product % weight.denominator) / wide(weight.denominator);
  }
  void add(const Weight& weight, double value) {
    if (std::abs(value) < 9e18 && std::trunc(value) == value)
      add(weight, static_cast<std::int64_t>(value));
    else
      rest_ += wide(weight.numerator) * static_cast<long double>(value) / wide(weight.denominator);
  }
  void take(std::int64_t& value) const {
    const long double below = std::clamp(std::floor(rest_), -1e36L, 1e36L), over = rest_ - below;
    Int128 sum = whole_ + static_cast<Int128>(below);
    if (over > 0.5L || (over == 0.5L && sum % 2 != 0)) ++sum;  // ties to even
    value = static_cast<std::int64_t>(std::clamp<Int128>(sum, 0, INT64_MAX));
  }
  void take(double& value) const {
    value = std::max(0.0, static_cast<double>(static_cast<long double>(whole_) + rest_));
  }

 private:
  static long double wide(Int128 value) { return static_cast<long double>(value); }

  Int128 whole_ = 0;
  long double rest_ = 0;
};

/// Sums of counts. A row that a part does not have counts as 0.
std::vector<Count> combined_counts(const Result& like, std::span<const WeightedResult> parts) {
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  std::vector<Count> rows;
  std::vector<WeightedSum> sums;
  std::map<Key, std::size_t> places;
  const auto place = [&](const Count& count) {
    const auto [found, fresh] = places.try_emplace({count.part, count.item, count.level, count.operation}, rows.size());
    if (fresh) {
      rows.push_back(count);
      sums.emplace_back();
    }
    return found->second;
  };
  for (const Count& count : like.counts) place(count);
  for (const WeightedResult& part : parts)
    for (const Count& count : part.result->counts) sums[place(count)].add(part.weight, count.number);
  for (std::size_t i = 0; i < rows.size(); ++i) sums[i].take(rows[i].number);
  return rows;
}

}  // namespace

std::optional<Result> combined(const Result& like, std::span<const WeightedResult> parts) {
  Result result = like;
  std::vector<WeightedSum> sums;
  numbers(like, [&](Sort, const auto&) { sums.emplace_back(); });
  for (const WeightedResult& part : parts) {
    if (!same_form(like, *part.result)) return std::nullopt;
    std::size_t i = 0;
    numbers(*part.result, [&](Sort, const auto& value) { sums[i++].add(part.weight, value); });
  }
  std::size_t i = 0;
  numbers(result, [&](Sort, auto& value) { sums[i++].take(value); });
  result.counts = combined_counts(like, parts);
  return result;
}

void balance(Result& result) {
  for (UnitUse& unit : result.units) {
    std::int64_t spare = result.cycles;
    for (const std::int64_t cycles : unit.cycles) spare -= cycles;
    for (const UnitState state : {UnitState::idle, UnitState::wait_load, UnitState::wait_dependency,
                                  UnitState::wait_store, UnitState::wait_port, UnitState::busy}) {
      std::int64_t& cycles = unit.cycles[static_cast<int>(state)];
      const std::int64_t change = std::max(spare, -cycles);
      cycles += change;
      spare -= change;
    }
  }
  std::int64_t spare = result.cycles;
  for (const OperationUse& row : result.operations) spare -= row.exclusive;
  for (auto row = result.operations.rbegin(); row != result.operations.rend(); ++row) {
    const std::int64_t change = std::max(spare, -row->exclusive);
    row->exclusive += change;
    spare -= change;
  }
}

Bounds bounds(const Result& shorter, const Result& longer) {
  std::vector<double> before;
  numbers(shorter, [&](Sort, const auto& value) { before.push_back(static_cast<double>(value)); });
  const double all = static_cast<double>(longer.cycles), small = all / 100;
  Bounds found{Bounds::least, Bounds::least, Bounds::least_queues};
  std::size_t i = 0;
  numbers(longer, [&](Sort sort, const auto& value) {
    const double a = before[i++], b = static_cast<double>(value);
    if (sort == Sort::waiting) return;
    const double least = sort == Sort::count ? 1.0 : sort == Sort::queue_time ? all : small;
    double& bound = sort == Sort::cycles ? found.cycles : sort == Sort::queue_time ? found.queues : found.others;
    bound = std::max(bound, Bounds::margin * std::abs(a - b) / std::max({b, least, 1e-300}));
  });
  found.others = std::max(found.cycles, found.others);
  return found;
}

}  // namespace tilesim::engine::replay
