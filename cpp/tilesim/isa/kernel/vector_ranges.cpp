// Ranges of function results, from the ranges of the operands.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tilesim/isa/kernel/vector_values.hpp"

namespace tilesim::isa {

namespace {

__extension__ using Wide = __int128;

Numbers bounded_by(Wide low, Wide high) {
  constexpr Numbers all;
  if (low < all.low || high > all.high) return all;
  return {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

Numbers product_of(const Numbers& x, const Numbers& y) {
  const Wide all[] = {Wide{x.low} * y.low, Wide{x.low} * y.high, Wide{x.high} * y.low, Wide{x.high} * y.high};
  return bounded_by(*std::min_element(all, all + 4), *std::max_element(all, all + 4));
}

/// Number of bits without the sign.
int width_of(const Numbers& x) {
  const auto magnitude = [](std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n < 0 ? ~n : n)); };
  return static_cast<int>(std::max(magnitude(x.low), magnitude(x.high)));
}

Numbers bitwise(Function f, const Numbers& x, const Numbers& y) {
  if (f == Function::bitwise_and && (x.low >= 0 || y.low >= 0))
    return {0, x.low < 0 ? y.high : y.low < 0 ? x.high : std::min(x.high, y.high)};
  const Wide end = Wide{1} << std::max(width_of(x), width_of(y));
  return bounded_by(x.low >= 0 && y.low >= 0 ? Wide{0} : -end, end - 1);
}

Numbers shifted_left(const Numbers& x, const Numbers& by) {
  if (by.low < 0 || by.high > 62) return {};
  const Wide small = Wide{1} << by.low, large = Wide{1} << by.high;
  return bounded_by(std::min(x.low * small, x.low * large), std::max(x.high * small, x.high * large));
}

/// Range of a quotient rounded towards zero or down.
Numbers quotient_of(const Numbers& x, const Numbers& y) {
  const Wide magnitude = std::max<Wide>(-Wide{x.low}, x.high);
  if (y.low < 0) return bounded_by(-std::max<Wide>(magnitude, 0), std::max<Wide>(magnitude, 0));
  const std::int64_t least = std::max<std::int64_t>(y.low, 1);
  if (x.low >= 0) return {0, x.high / least};
  return {x.low, std::max<std::int64_t>(x.high, 0)};
}

/// Range of a remainder with the dividend's sign.
Numbers remainder_of(const Numbers& x, const Numbers& y) {
  const Wide most = std::max<Wide>(std::max<Wide>(-Wide{y.low}, y.high) - 1, 0);
  return bounded_by(x.low < 0 ? std::max<Wide>(-most, x.low) : 0, x.high > 0 ? std::min<Wide>(most, x.high) : 0);
}

Numbers one_operand(Function f, const Numbers& x) {
  switch (f) {
    case Function::negate:
      return bounded_by(-Wide{x.high}, -Wide{x.low});
    case Function::abs:
      return bounded_by(x.low > 0 ? x.low : x.high < 0 ? -Wide{x.high} : 0, std::max<Wide>(-Wide{x.low}, x.high));
    case Function::sign:
      return {-1, 1};
    case Function::bitwise_not:
      return {~x.high, ~x.low};
    case Function::popcount:
      return {0, 64};
    case Function::relu:
      return {std::max<std::int64_t>(x.low, 0), std::max<std::int64_t>(x.high, 0)};
    default:
      return x;
  }
}

Numbers two_operands(Function f, const Numbers& x, const Numbers& y) {
  switch (f) {
    case Function::add:
      return bounded_by(Wide{x.low} + y.low, Wide{x.high} + y.high);
    case Function::subtract:
      return bounded_by(Wide{x.low} - y.high, Wide{x.high} - y.low);
    case Function::multiply:
      return product_of(x, y);
    case Function::divide:
    case Function::floor_divide:
      return quotient_of(x, y);
    case Function::remainder:
      return remainder_of(x, y);
    case Function::maximum:
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    case Function::minimum:
      return {std::min(x.low, y.low), std::min(x.high, y.high)};
    case Function::bitwise_and:
    case Function::bitwise_or:
    case Function::bitwise_xor:
      return bitwise(f, x, y);
    case Function::shift_left:
      return shifted_left(x, y);
    case Function::shift_right:
      return {x.low >= 0 ? 0 : x.low, x.low >= 0 ? x.high : std::max<std::int64_t>(x.high, -1)};
    default:
      return {};
  }
}

}  // namespace

Numbers either(const Numbers& a, const Numbers& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

bool Numbers::fits(Held held) const {
  if (held == Held::integer) return within({INT32_MIN, INT32_MAX});
  if (held == Held::natural) return within({0, UINT32_MAX});
  return true;
}

Numbers Numbers::all_of_type(DType dtype) {
  if (dtype == DType::boolean) return {0, 1};
  if (!is_integer(dtype) || bits(dtype) == 64) return {};
  const int width = bits(dtype);
  if (dtype_class(dtype) == DTypeClass::unsigned_integer) return {0, (std::int64_t{1} << width) - 1};
  return {-(std::int64_t{1} << (width - 1)), (std::int64_t{1} << (width - 1)) - 1};
}

bool is_modular(Function function) {
  switch (function) {
    case Function::identity:
    case Function::floor:
    case Function::ceil:
    case Function::round_even:
    case Function::trunc:
    case Function::negate:
    case Function::bitwise_not:
    case Function::add:
    case Function::subtract:
    case Function::multiply:
    case Function::bitwise_and:
    case Function::bitwise_or:
    case Function::bitwise_xor:
    case Function::shift_left:
    case Function::select:
    case Function::fma:
      return true;
    default:
      return false;
  }
}

Numbers numbers_of(const VectorNode& node, const Numbers* x) {
  const FunctionInfo& function = info(node.function);
  if (function.returns_boolean || node.dtype == DType::boolean) return {0, 1};
  if (node.dtype == DType::u64 && !is_modular(node.function))
    for (int a = 0; a < function.arity; ++a)
      if (x[a].low < 0) return {};
  if (function.arity == 1) return one_operand(node.function, x[0]);
  if (function.arity == 2) return two_operands(node.function, x[0], x[1]);
  if (node.function == Function::select) return either(x[1], x[2]);
  if (node.function == Function::clamp)
    return two_operands(Function::minimum, two_operands(Function::maximum, x[1], x[0]), x[2]);
  return two_operands(Function::add, product_of(x[0], x[1]), x[2]);
}

void float_bounds(const VectorNode& node, const NodeValue* const* x, NodeValue& result) {
  switch (node.function) {
    case Function::identity:
      result.least = x[0]->least, result.most = x[0]->most;
      break;
    case Function::round_even:
    case Function::trunc:
    case Function::floor:
    case Function::ceil:
      result.least = std::floor(x[0]->least), result.most = std::ceil(x[0]->most);
      break;
    case Function::relu:
      result.least = std::max(x[0]->least, 0.0), result.most = std::max(x[0]->most, 0.0);
      break;
    case Function::maximum:
    case Function::minimum: {
      const auto extreme = [&](double a, double b) {
        return node.function == Function::maximum ? std::max(a, b) : std::min(a, b);
      };
      result.least = extreme(x[0]->least, x[1]->least), result.most = extreme(x[0]->most, x[1]->most);
      break;
    }
    case Function::clamp:
      result.least = std::min(std::max(x[1]->least, x[0]->least), x[2]->least);
      result.most = std::min(std::max(x[1]->most, x[0]->most), x[2]->most);
      break;
    case Function::select:
      result.least = std::min(x[1]->least, x[2]->least), result.most = std::max(x[1]->most, x[2]->most);
      break;
    case Function::tanh:
    case Function::sigmoid:
    case Function::sin:
    case Function::cos:
      result.least = -1, result.most = 1;
      break;
    default:
      break;
  }
}

/// Whether an input, output or running sum has more than 32 bits, or is u32.
bool TypedCompute::stores_wide() const {
  const auto wide = [](DType dtype) { return bits_of(held_as(dtype)) == 64 || dtype == DType::u32; };
  return std::ranges::any_of(compute_.inputs, [&](const TileView& view) { return wide(view.dtype); }) ||
         std::ranges::any_of(compute_.outputs, [&](const VectorOutput& output) { return wide(output.view.dtype); }) ||
         std::ranges::any_of(compute_.nodes, [&](const VectorNode& node) {
           return node.op == VectorNode::Op::scan && wide(node.dtype);
         });
}

/// Gives all integers 64 bits, except boolean results of functions and conversions.
void TypedCompute::as_wide() {
  bits_ = 64;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const VectorNode& node = compute_.nodes[i];
    NodeValue& value = values_[i];
    const bool function = node.op == VectorNode::Op::function;
    const bool flag = (function && info(node.function).returns_boolean) ||
                      (node.dtype == DType::boolean && (function || node.op == VectorNode::Op::convert));
    const auto kept = [&](Kind kind) {
      return kind == Kind::floating ? (real_ ? Held::real : Held::floating) : Held::wide;
    };
    value.held = flag ? Held::integer : kept(kinds_[i]);
    if (node.op == VectorNode::Op::scan) value.held = value_at(node.arguments[0]).held;
    value.work = value.held;
    if (!function) continue;
    value.work = value_at(node.arguments[node.function == Function::select ? 1 : 0]).held;
    if (flag || is_floating(value.work)) continue;
    value.held = value.work;
  }
  for (const VectorOutput& output : compute_.outputs)
    totals_.push_back(value_at(output.node).held), bounded_.push_back(false);
}

}  // namespace tilesim::isa
