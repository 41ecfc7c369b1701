// Finds values of one element that are known at compile time.
#include <algorithm>
#include <optional>
#include <set>

#include "tilesim/compile/prepare/loops.hpp"
#include "tilesim/compile/prepare/prepare.hpp"

namespace tilesim::lower {

namespace {

/// Whether a kernel reads this operand from a tensor even if its one element is known. Only vector computes take
/// numbers, and loops for the start of a counter.
bool reads_tensor(const Op& op, std::size_t operand) {
  switch (op.kind) {
    case Kind::pad:
    case Kind::dynamic_slice:
      return operand == 0;
    case Kind::dynamic_update:
      return operand < 2;
    case Kind::elementwise:
    case Kind::convert:
    case Kind::reduce:
    case Kind::while_loop:
    case Kind::reshape:
    case Kind::transpose:
    case Kind::broadcast:
    case Kind::slice:
      return false;
    default:
      return true;
  }
}

/// Whether a double represents the constant exactly; 64-bit integers beyond 2^53 may not be exact.
bool is_number(const Array& one) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if (is_complex(one.dtype())) return false;
  if (!is_integer(one.dtype()) || bits(one.dtype()) < 64) return true;
  const std::int64_t value = one.int_at(0);
  return value >= -exact && value <= exact;
}

bool is_view(const Op& op) {
  return op.kind == Kind::reshape || op.kind == Kind::transpose || op.kind == Kind::broadcast || op.kind == Kind::slice;
}

/// Values that need a tensor, directly or through views.
std::set<ValueId> needed_as_tensors(const GraphFunction& function) {
  std::set<ValueId> needed(function.outputs.begin(), function.outputs.end());
  for (auto op = function.ops.rbegin(); op != function.ops.rend(); ++op)
    for (std::size_t i = 0; i < op->operands.size(); ++i)
      if (reads_tensor(*op, i) || (is_view(*op) && needed.count(op->results.at(0)))) needed.insert(op->operands[i]);
  return needed;
}

}  // namespace

std::map<ValueId, double> known_scalars(const Graph& graph, const GraphFunction& function) {
  const std::set<ValueId> needed = needed_as_tensors(function);
  std::map<ValueId, double> scalars;
  for (const Op& op : function.ops) {
    if (op.results.empty() || needed.count(op.results[0])) continue;
    if (is_view(op) && scalars.count(op.operands[0])) scalars[op.results[0]] = scalars.at(op.operands[0]);
    if (op.kind != Kind::constant) continue;
    const Weight& weight = graph.weights.at(op.attributes.text("reference"));
    if (weight.source != Weight::Source::data || weight.data.size() != 1 || !is_number(weight.data)) continue;
    scalars[op.results[0]] = weight.data.at(0);
  }
  return scalars;
}

namespace {

/// Values that only elementwise functions and positions of slices read.
std::set<ValueId> read_as_numbers(const GraphFunction& function) {
  std::set<ValueId> read, otherwise(function.outputs.begin(), function.outputs.end());
  for (const Op& op : function.ops)
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const bool number = op.kind == Kind::elementwise ||
                          (!reads_tensor(op, i) && (op.kind == Kind::dynamic_slice || op.kind == Kind::dynamic_update));
      (number ? read : otherwise).insert(op.operands[i]);
    }
  for (const ValueId value : otherwise) read.erase(value);
  return read;
}

class CountedScalars {
 public:
  CountedScalars(const LoopPlan& loop, const std::map<ValueId, double>& known)
      : body_(loop.body),
        known_(known),
        counter_{{counter_name, {loop.start, loop.start + std::max<std::int64_t>(loop.trips - 1, 0) * loop.step}}},
        numbers_(read_as_numbers(body_)) {
    found_[loop.counter_value] = Expr::symbol(counter_name);
  }

  std::map<ValueId, Expr> run() && {
    for (const Op& op : body_.ops)
      if (op.kind == Kind::elementwise && numbers_.count(op.results[0]) && is_whole(op.results[0]))
        if (const auto value = evaluate(op); value && fits(*value, body_.value(op.results[0]).type.dtype))
          found_[op.results[0]] = *value;
    return std::move(found_);
  }

 private:
  bool is_whole(ValueId value) const {
    const TensorType& type = body_.value(value).type;
    return type.shape.empty() && (is_integer(type.dtype) || type.dtype == DType::boolean);
  }

  Expr::Range range(const Expr& value) const { return value.range(counter_); }

  bool fits(const Expr& value, DType dtype) const {
    const bool sign = name(dtype)[0] == 'i';
    const std::int64_t limit = std::int64_t{1} << std::min(52, bits(dtype) - (sign ? 1 : 0));
    return range(value).low >= (sign ? -limit : 0) && range(value).high < limit;
  }

  std::optional<Expr> number(ValueId value) const {
    if (const auto counted = found_.find(value); counted != found_.end()) return counted->second;
    const auto known = known_.find(value);
    if (known == known_.end() || !is_whole(value)) return std::nullopt;
    return Expr(static_cast<std::int64_t>(known->second));
  }

  /// 1 or 0 if a < b holds for all, or for no, values of the counter.
  std::optional<Expr> decided(const Expr& a, const Expr& b) const {
    if (range(a).high < range(b).low) return Expr(1);
    if (range(a).low >= range(b).high) return Expr(0);
    return std::nullopt;
  }

  std::optional<Expr> evaluate(const Op& op) const {
    std::vector<Expr> x;
    for (const ValueId operand : op.operands)
      if (const auto value = number(operand))
        x.push_back(*value);
      else
        return std::nullopt;
    const std::string& function = op.attributes.text("function");
    if (function == "add") return x[0] + x[1];
    if (function == "subtract") return x[0] - x[1];
    if (function == "multiply" && (x[0].is_constant() || x[1].is_constant())) return x[0] * x[1];
    if (function == "minimum") return min(x[0], x[1]);
    if (function == "maximum") return max(x[0], x[1]);
    if (function == "less") return decided(x[0], x[1]);
    if (function == "greater") return decided(x[1], x[0]);
    if (function == "select" && x[0].is_constant()) return x[0].value() != 0 ? x[1] : x[2];
    return std::nullopt;
  }

  const GraphFunction& body_;
  const std::map<ValueId, double>& known_;
  const std::map<std::string, Expr::Range> counter_;
  const std::set<ValueId> numbers_;
  std::map<ValueId, Expr> found_;
};

}  // namespace

std::map<ValueId, Expr> counted_scalars(const LoopPlan& loop, const std::map<ValueId, double>& known) {
  return CountedScalars(loop, known).run();
}

void give_bytes(const GraphFunction& function, ValueId value, std::map<ValueId, double>& scalars) {
  if (!scalars.erase(value)) return;
  for (const Op& op : function.ops)
    if (is_view(op) && op.results.at(0) == value) give_bytes(function, op.operands[0], scalars);
}

}  // namespace tilesim::lower
