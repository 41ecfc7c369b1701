// Values of one element whose number is known when a program is made.
#include <set>

#include "tilesim/compile/prepare/prepare.hpp"

namespace tilesim::lower {

namespace {

/// Whether an operation's kernel reads this operand from a tensor, although its one element may be known. Only vector
/// computes take numbers, and loops where a counter starts.
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

/// Numbers of a program are doubles, which not every integer of 64 bits is.
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

/// Values that must have bytes, those that are seen through views included.
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

void give_bytes(const GraphFunction& function, ValueId value, std::map<ValueId, double>& scalars) {
  if (!scalars.erase(value)) return;
  for (const Op& op : function.ops)
    if (is_view(op) && op.results.at(0) == value) give_bytes(function, op.operands[0], scalars);
}

}  // namespace tilesim::lower
