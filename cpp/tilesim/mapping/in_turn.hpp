// The pattern of a product's prologue or epilogue, if only the number of its functions is known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tilesim/machine/share.hpp"
#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/vector_work.hpp"

namespace tilesim::mapping {

/// A pattern of `count` dependent functions. `edges`: number of axes with zero padding; each needs functions that move,
/// clamp and compare the position, and select the value.
inline VectorPattern functions_in_turn(DType from, DType to, std::int64_t count, std::int64_t edges = 0) {
  using Op = VectorNode::Op;
  std::vector<VectorNode> nodes{{.op = Op::input, .dtype = from}};
  const auto last = [&] { return static_cast<int>(nodes.size()) - 1; };
  const auto apply = [&](Function function, int a, int b, int c = -1) {
    nodes.push_back({.op = Op::function, .function = function, .arguments = {a, b, c}});
    return last();
  };
  const auto put = [&](Op op, DType dtype) {
    nodes.push_back({.op = op, .dtype = dtype});
    return last();
  };
  for (std::int64_t i = 0; i < count; ++i) apply(Function::maximum, last(), last());
  int value = last();
  for (std::int64_t i = 0; i < edges; ++i) {
    const int place = put(Op::iota, DType::i32), start = put(Op::scalar, DType::i32);
    const int moved = apply(Function::add, place, start);
    const int low = put(Op::constant, DType::i32), high = put(Op::constant, DType::i32);
    const int inside = apply(Function::equal, apply(Function::clamp, moved, low, high), moved);
    const int zero = put(Op::constant, from);
    value = apply(Function::select, inside, value, zero);
  }
  const VectorRead read{from, ~std::uint32_t{0}};
  const VectorWrite write{value, to, 0, Combiner::add, false};
  return pattern_of(nodes, {&read, 1}, {&write, 1});
}

/// Number of an operand's axes for which the compiler counts four functions in the prologue.
inline std::int64_t edges_of(const Problem& problem, std::size_t operand, const Share& machine) {
  if (machine.whole.lowering.fusion) return 0;
  const std::vector<AxisAccess>& axes = problem.domain.operands[operand].axes;
  const std::int64_t edges = std::ranges::count_if(axes, [](const AxisAccess& axis) { return axis.may_leave; });
  return std::min(edges, problem.prologue_functions[operand] / 4);
}

}  // namespace tilesim::mapping
