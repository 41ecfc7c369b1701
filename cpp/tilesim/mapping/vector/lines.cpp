#include "tilesim/mapping/vector/lines.hpp"

#include <algorithm>
#include <array>

#include "tilesim/mapping/vector/plan.hpp"
#include "tilesim/tile/vector_work.hpp"

namespace tilesim::mapping {

Lines lines_of(const Shape& space, const std::vector<std::int64_t>& tiles, std::size_t axis, LatencyModel& latency) {
  const auto size = [&](std::size_t i) { return std::max<std::int64_t>(1, std::min(tiles[i], space[i])); };
  // inner axes that are split into equal tiles
  Lines lines{false, space.size() - 1};
  while (lines.first > 0 && space[lines.first] % size(lines.first) == 0) --lines.first;
  while (lines.first < axis && size(lines.first) == 1) ++lines.first;
  if (lines.first > axis) return lines;
  std::int64_t before = 1, after = 1;
  for (std::size_t i = lines.first; i < space.size(); ++i)
    if (i != axis) (i < axis ? before : after) = saturating(i < axis ? before : after, size(i));
  const std::int64_t extent = size(axis), count = saturating(before, after),
                     most = INT32_MAX / std::max<std::int64_t>(1, extent);
  if (count <= 1 || count > most) return lines;
  const std::int64_t alone = latency.latency(gathered(DType::i32, extent), {}).busy;
  const std::int64_t all = latency.latency(gathered(DType::i32, count * extent), {}).busy +
                           latency.latency(places_descriptor(before, extent, after), {}).busy;
  lines.together = all < saturating(count, alone);
  return lines;
}

Descriptor gathered(DType dtype, std::int64_t elements) {
  Descriptor d;
  d.kind = ComputeKind::indexed;
  d.dtype = dtype, d.second = DType::i32;
  d.m = d.elements = elements;
  return d;
}

std::vector<VectorNode> places_nodes(std::int64_t before, std::int64_t extent, std::int64_t after) {
  using Op = VectorNode::Op;
  std::vector<VectorNode> nodes;
  const auto add = [&](const VectorNode& node) { return nodes.push_back(node), static_cast<int>(nodes.size()) - 1; };
  const auto times = [&](int node, std::int64_t factor) {
    if (factor == 1) return node;
    const int number = add({.op = Op::constant, .number = static_cast<double>(factor), .dtype = DType::i32});
    return add(
        {.op = Op::function, .function = Function::multiply, .arguments = {node, number, -1}, .dtype = DType::i32});
  };
  const auto plus = [&](int a, int b) {
    return add({.op = Op::function, .function = Function::add, .arguments = {a, b, -1}, .dtype = DType::i32});
  };
  int place = times(add({.op = Op::input, .index = 0, .dtype = DType::i32}), after);
  if (before > 1) place = plus(place, times(add({.op = Op::iota, .index = 0, .dtype = DType::i32}), extent * after));
  if (after > 1) place = plus(place, add({.op = Op::iota, .index = 2, .dtype = DType::i32}));
  return nodes;
}

Descriptor places_descriptor(std::int64_t before, std::int64_t extent, std::int64_t after) {
  std::vector<std::int64_t> extents{before, extent};
  if (after > 1) extents.push_back(after);
  const std::vector<VectorNode> nodes = places_nodes(before, extent, after);
  const std::array reads{VectorRead{DType::i32, ~std::uint32_t{0}}};
  const std::array writes{VectorWrite{static_cast<int>(nodes.size()) - 1, DType::i32, 0, Combiner::add, false}};
  Descriptor d;
  d.kind = ComputeKind::vector;
  d.dtype = DType::i32;
  d.elements = before * extent * after, d.lane_extent = extents.back();
  for (const VectorNode& node : nodes) {
    if (node.op != VectorNode::Op::function) continue;
    ++d.functions[node.function == Function::multiply ? 1 : 0];
  }
  add_moves(d, pattern_of(nodes, reads, writes), extents, -1);
  return d;
}

}  // namespace tilesim::mapping
