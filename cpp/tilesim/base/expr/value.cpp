// Queries on an expression: its symbols, its value for given symbols, and an interval that contains its values.
#include <algorithm>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/expr/expr.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/base/units.hpp"

namespace tilesim {

std::set<std::string> Expr::symbols() const {
  std::set<std::string> names;
  if (kind() == Kind::symbol) names.insert(name());
  for (const Expr& argument : arguments()) names.merge(argument.symbols());
  return names;
}

bool Expr::reads_tensors() const {
  return kind() == Kind::read ||
         std::any_of(arguments().begin(), arguments().end(), [](const Expr& e) { return e.reads_tensors(); });
}

namespace {

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) throw UserError("an expression leaves the range of 64-bit integers");
  return result;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) throw UserError("an expression leaves the range of 64-bit integers");
  return result;
}

}  // namespace

std::int64_t Expr::evaluate(const Lookup& lookup, const ElementReader& read_tensor) const {
  const auto at = [&](std::size_t i) { return arguments()[i].evaluate(lookup, read_tensor); };
  switch (kind()) {
    case Kind::constant:
      return value();
    case Kind::symbol:
      return lookup(name());
    case Kind::add: {
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < arguments().size(); ++i) sum = checked_add(sum, at(i));
      return sum;
    }
    case Kind::multiply:
      return checked_multiply(at(0), operand());
    case Kind::floor_div:
      return tilesim::floor_div(at(0), operand());
    case Kind::modulo:
      return floor_mod(at(0), operand());
    case Kind::min:
      return std::min(at(0), at(1));
    case Kind::max:
      return std::max(at(0), at(1));
    case Kind::equal:
      return at(0) == at(1);
    case Kind::less:
      return at(0) < at(1);
    case Kind::less_equal:
      return at(0) <= at(1);
    case Kind::logical_and:
      return at(0) != 0 && at(1) != 0;
    case Kind::logical_or:
      return at(0) != 0 || at(1) != 0;
    case Kind::logical_not:
      return at(0) == 0;
    case Kind::read: {
      if (!read_tensor)
        throw UserError({"the expression reads a tensor whose values are not known here", {}, name(), {}, {}});
      std::vector<std::int64_t> index;
      for (std::size_t i = 0; i < arguments().size(); ++i) index.push_back(at(i));
      return read_tensor(name(), index);
    }
  }
  throw InternalError("unknown expression kind");
}

namespace {

// A bound at an end of the 64-bit range means infinity, and does not change.
constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

bool infinite(std::int64_t bound) { return bound == lowest || bound == highest; }

std::int64_t clamped(Int128 value) {
  return static_cast<std::int64_t>(std::clamp(value, static_cast<Int128>(lowest), static_cast<Int128>(highest)));
}

std::int64_t add_bounds(std::int64_t a, std::int64_t b) {
  return infinite(a) ? a : infinite(b) ? b : clamped(static_cast<Int128>(a) + b);
}

std::int64_t scale_bound(std::int64_t bound, std::int64_t factor) {
  if (factor == 0) return 0;
  if (infinite(bound)) return (bound > 0) == (factor > 0) ? highest : lowest;
  return clamped(static_cast<Int128>(bound) * factor);
}

std::int64_t divide_bound(std::int64_t bound, std::int64_t divisor) {
  return infinite(bound) ? bound : floor_div(bound, divisor);
}

Expr::Range modulo_range(Expr::Range r, std::int64_t divisor) {
  const bool one_period =
      !infinite(r.low) && !infinite(r.high) && floor_div(r.low, divisor) == floor_div(r.high, divisor);
  if (!one_period) return {0, divisor - 1};
  return {floor_mod(r.low, divisor), floor_mod(r.high, divisor)};
}

/// Range of a truth value: 1 if always true, 0 if never true, else both.
Expr::Range truth_range(bool always, bool never) { return {always ? 1 : 0, never ? 0 : 1}; }

}  // namespace

Expr::Range Expr::range(const std::map<std::string, Range>& symbols) const {
  std::vector<Range> r;
  r.reserve(arguments().size());
  for (const Expr& argument : arguments()) r.push_back(argument.range(symbols));
  const auto is_true = [](Range x) { return x.low > 0 || x.high < 0; };
  const auto is_false = [](Range x) { return x.low == 0 && x.high == 0; };
  switch (kind()) {
    case Kind::constant:
      return {value(), value()};
    case Kind::symbol: {
      const auto found = symbols.find(name());
      return found == symbols.end() ? Range{lowest, highest} : found->second;
    }
    case Kind::read:
      return {lowest, highest};
    case Kind::add: {
      Range sum{0, 0};
      for (const Range& part : r) sum = {add_bounds(sum.low, part.low), add_bounds(sum.high, part.high)};
      return sum;
    }
    case Kind::multiply: {
      const std::int64_t a = scale_bound(r[0].low, operand()), b = scale_bound(r[0].high, operand());
      return {std::min(a, b), std::max(a, b)};
    }
    case Kind::floor_div:
      return {divide_bound(r[0].low, operand()), divide_bound(r[0].high, operand())};
    case Kind::modulo:
      return modulo_range(r[0], operand());
    case Kind::min:
      return {std::min(r[0].low, r[1].low), std::min(r[0].high, r[1].high)};
    case Kind::max:
      return {std::max(r[0].low, r[1].low), std::max(r[0].high, r[1].high)};
    case Kind::equal:
      return truth_range(r[0].low == r[0].high && r[1].low == r[1].high && r[0].low == r[1].low && !infinite(r[0].low),
                         r[0].high < r[1].low || r[1].high < r[0].low);
    case Kind::less:
      return truth_range(r[0].high < r[1].low, r[0].low >= r[1].high);
    case Kind::less_equal:
      return truth_range(r[0].high <= r[1].low, r[0].low > r[1].high);
    case Kind::logical_and:
      return truth_range(is_true(r[0]) && is_true(r[1]), is_false(r[0]) || is_false(r[1]));
    case Kind::logical_or:
      return truth_range(is_true(r[0]) || is_true(r[1]), is_false(r[0]) && is_false(r[1]));
    case Kind::logical_not:
      return truth_range(is_false(r[0]), is_true(r[0]));
  }
  throw InternalError("unknown expression kind");
}

}  // namespace tilesim
