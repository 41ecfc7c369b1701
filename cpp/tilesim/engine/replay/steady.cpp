#include "tilesim/engine/replay/steady.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"

namespace tilesim::engine::replay {

namespace {

constexpr std::int64_t longest_period = 64;  ///< in trips; longer periods of addresses are ignored
constexpr std::int64_t first_trips = 2;      ///< number of first and of last trips that may differ from others
constexpr std::int64_t most_samples = 512;   ///< limit on trips at which an expression is evaluated
constexpr std::size_t most_symbols = 5;      ///< limit on symbols of an evaluated expression

/// Collects the divisors of floor divisions and remainders. `bent`: set to true if the expression is not linear.
void divisors(const Expr& expr, std::set<std::int64_t>& found, bool& bent) {
  using Kind = Expr::Kind;
  const Kind kind = expr.kind();
  const bool divides = kind == Kind::floor_div || kind == Kind::modulo;
  if (divides) found.insert(expr.operand());
  bent |= divides || (kind != Kind::constant && kind != Kind::symbol && kind != Kind::add && kind != Kind::multiply &&
                      kind != Kind::read);
  for (const Expr& argument : expr.arguments()) divisors(argument, found, bent);
}

/// Least common multiple of the steps; 0 if it exceeds `longest_period`.
std::int64_t turns_of(const std::set<std::int64_t>& steps) {
  std::int64_t turns = 1;
  for (const std::int64_t step : steps) {
    if (step > longest_period) return 0;
    turns = std::lcm(turns, step);
    if (turns > longest_period) return 0;
  }
  return turns;
}

/// Evaluates an expression for values of its symbols, of which the first is the loop's index.
class Sampled {
 public:
  Sampled(const Expr& expr, const Trip& trip) {
    names_.push_back(trip.index);
    ends_.push_back({});
    for (const std::string& name : expr.symbols()) {
      if (name == trip.index) continue;
      const auto loop = trip.last.find(name);
      names_.push_back(name);
      ends_.push_back({0});
      if (loop == trip.last.end() || loop->second.empty())
        ends_.back().push_back(1);
      else
        ends_.back().insert(ends_.back().end(), loop->second.begin(), loop->second.end());
    }
    values_.assign(names_.size(), 0);
    expr_ = CompiledExpr(expr, [&](const std::string& name) {
      return static_cast<int>(std::find(names_.begin(), names_.end(), name) - names_.begin());
    });
  }

  std::int64_t operator()(std::int64_t index) {
    worked(4);
    values_[0] = index;
    return expr_(values_.data());
  }

  /// Whether `holds()` is true for the first and last values of all other indices.
  template <class Holds>
  bool everywhere(const Holds& holds, std::size_t symbol = 1) {
    if (symbol == names_.size()) return holds();
    return std::all_of(ends_[symbol].begin(), ends_[symbol].end(), [&](std::int64_t end) {
      values_[symbol] = end;
      return everywhere(holds, symbol + 1);
    });
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> ends_;
  std::vector<std::int64_t> values_;
  CompiledExpr expr_;
};

/// Whether the expression is linear in the index, except in the first and last trips. With divisions, steps of the
/// divisors' common multiple must be linear.
bool straight(const Expr& expr, const std::set<std::int64_t>& steps, const Trip& trip) {
  if (expr.reads_tensors() || expr.symbols().size() > most_symbols) return false;
  const std::int64_t turns = turns_of(steps), edge = first_trips * turns;
  if (turns == 0) return false;
  if (trip.trips <= 2 * edge + 3 * turns) return turns == 1;
  const std::int64_t first = edge, last = trip.trips - 1 - edge;
  const std::int64_t spacing = turns * std::max<std::int64_t>(1, (last - first) / turns / most_samples);
  Sampled value(expr, trip);
  return value.everywhere([&] {
    const std::int64_t rise = value(first + turns) - value(first);
    if (value(last) - value(last - turns) != rise) return false;
    std::int64_t before = value(first);
    for (std::int64_t i = first + spacing; i <= last; i += spacing) {
      const std::int64_t here = value(i);
      if (here - before != rise * (spacing / turns)) return false;
      before = here;
    }
    return true;
  });
}

/// Bits between adjacent elements along each axis in memory, without padding to layout tiles.
std::vector<std::int64_t> axis_bits(const program::Tensor& tensor, const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> result(tensor.shape.size(), 0);
  std::int64_t stride = bits(tensor.dtype);
  for (const std::size_t axis : order) {
    result[axis] = stride;
    const Expr& extent = tensor.shape[axis];
    if (extent.is_constant() && extent.value() > 0 && stride < (std::int64_t{1} << 56) / extent.value())
      stride *= extent.value();
  }
  return result;
}

std::int64_t slope(const Expr& expr, const std::string& index) {
  if (expr.reads_tensors() || !expr.symbols().contains(index)) return 0;
  std::int64_t at = 0;
  const auto value = [&](const std::string& name) { return name == index ? at : 0; };
  const std::int64_t low = expr.evaluate(value);
  at = 1;
  return expr.evaluate(value) - low;
}

/// Adds the numbers of trips after which a transfer's position within layout tiles, bursts and channels repeats.
void add_turns(const Moved& moved, const std::string& index, const Places& places, std::set<std::int64_t>& turns,
               std::set<std::int64_t>& later) {
  const program::Tensor& tensor = *moved.tensor;
  std::vector<std::size_t> order(tensor.minor_to_major.begin(), tensor.minor_to_major.end());
  for (std::size_t i = tensor.shape.size(); order.size() < tensor.shape.size();) order.push_back(--i);
  const std::vector<std::int64_t> strides = axis_bits(tensor, order);
  std::int64_t far = 0;
  for (std::size_t axis = 0; axis < std::min(moved.at.size(), strides.size()); ++axis) {
    const std::int64_t step = slope(moved.at[axis], index);
    far += std::abs(step) * strides[axis];
    for (std::size_t i = 0; i < std::min(order.size(), tensor.tile.size()) && step != 0; ++i) {
      const std::int64_t granule = tensor.tile[tensor.tile.size() - 1 - i];
      if (order[i] == axis) turns.insert(granule / std::gcd(granule, step));
    }
  }
  if (far == 0) return;
  turns.insert(8 * places.burst_bytes / std::gcd(8 * places.burst_bytes, far));
  later.insert(8 * places.round_bytes / std::gcd(8 * places.round_bytes, far));
}

}  // namespace

bool steady(const Trip& trip) {
  if (trip.unclear) return false;
  for (const IndexedExpression& place : trip.places) {
    worked(64);
    if (place.moves && (place.extent || place.counted)) return false;
    if (!place.expr.reads_tensors()) continue;
    const auto symbols = place.expr.symbols();
    if (trip.calls || std::any_of(symbols.begin(), symbols.end(), [&](const auto& n) { return trip.last.contains(n); }))
      return false;
  }
  return std::all_of(trip.places.begin(), trip.places.end(), [&](const IndexedExpression& place) {
    std::set<std::int64_t> steps;
    bool bent = false;
    if (place.moves) divisors(place.expr, steps, bent);
    return !bent || straight(place.expr, steps, trip);
  });
}

Steady repetition(const Trip& trip, const Places& places) {
  std::set<std::int64_t> turns, later;
  for (const Moved& moved : trip.moved) add_turns(moved, trip.index, places, turns, later);
  for (const IndexedExpression& place : trip.places) {
    bool bent = false;
    if (place.moves) divisors(place.expr, turns, bent);
  }
  Steady found{trip.trips, 1, true};
  for (const auto* sort : {&turns, &later})
    for (const std::int64_t turn : *sort)
      if (turn <= longest_period && std::lcm(found.period, turn) <= longest_period)
        found.period = std::lcm(found.period, turn);
  const auto repeats = [&](std::int64_t turn) { return found.period % turn == 0; };
  found.whole = std::all_of(turns.begin(), turns.end(), repeats) && std::all_of(later.begin(), later.end(), repeats);
  return found;
}

}  // namespace tilesim::engine::replay
