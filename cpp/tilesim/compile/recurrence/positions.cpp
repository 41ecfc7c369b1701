#include "tilesim/compile/recurrence/positions.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/prepare/trips.hpp"

namespace tilesim::lower {

namespace {

std::optional<std::int64_t> applied(const std::string& function, const std::vector<std::int64_t>& x) {
  if (function == "select" && x.size() == 3) return x[0] != 0 ? x[1] : x[2];
  if (x.size() != 2) return std::nullopt;
  if (function == "add") return x[0] + x[1];
  if (function == "subtract") return x[0] - x[1];
  if (function == "multiply") return x[0] * x[1];
  if (function == "maximum") return std::max(x[0], x[1]);
  if (function == "minimum") return std::min(x[0], x[1]);
  if (function == "less") return x[0] < x[1];
  if (function == "greater_equal") return x[0] >= x[1];
  return std::nullopt;
}

}  // namespace

bool is_recurrence_view(Kind kind) {
  return kind == Kind::reshape || kind == Kind::broadcast || kind == Kind::transpose || kind == Kind::copy;
}

std::optional<std::int64_t> Positions::in_trip(ValueId value, std::int64_t trip) const {
  if (value == plan_.counter_value) return plan_.start + trip * plan_.step;
  for (const Induction& own : plan_.inductions)
    if (value == own.value) return own.start + trip * own.step;
  if (const auto known = scalars_.find(value); known != scalars_.end()) return static_cast<std::int64_t>(known->second);
  const Op* op = producer(body_, value);
  if (!op || op->operands.empty() || element_count(body_.value(value).type.shape) != 1) return std::nullopt;
  if (is_recurrence_view(op->kind) || op->kind == Kind::convert) return in_trip(op->operands[0], trip);
  if (op->kind != Kind::elementwise) return std::nullopt;
  std::vector<std::int64_t> x;
  for (const ValueId operand : op->operands) {
    const auto one = in_trip(operand, trip);
    if (!one) return std::nullopt;
    x.push_back(*one);
  }
  return applied(op->attributes.text("function"), x);
}

}  // namespace tilesim::lower
