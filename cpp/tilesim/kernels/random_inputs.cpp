// Deterministic inputs: element i of input n depends only on (seed, n, i).
#include <algorithm>
#include <cstdint>
#include <limits>

#include "tilesim/graph/attention.hpp"
#include "tilesim/kernels/kernels.hpp"

namespace tilesim {
namespace {

/// Finalizer of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Integers in [low, high) are legal for every reader; `usual`: limit on values if no reader needs larger ones.
struct Range {
  std::int64_t low = 0, high = std::numeric_limits<std::int64_t>::max() / 4, usual = 8;
  void limit(const Range& other) {
    low = std::max(low, other.low);
    high = std::max(low + 1, std::min(high, other.high));
    usual = std::max(usual, other.usual);
  }
  std::int64_t end() const { return std::max(low + 1, std::min(high, usual)); }
};

/// Largest start + 1 that is in range for every component of a gather's index vector.
std::int64_t gather_limit(const Op& op, const Shape& shape) {
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  const auto& sizes = op.attributes.integers("slice_sizes");
  for (const std::int64_t axis : op.attributes.integers("start_index_map")) {
    limit = std::min(limit, shape[static_cast<std::size_t>(axis)] - sizes[static_cast<std::size_t>(axis)] + 1);
  }
  return limit;
}

/// The same of a scatter.
std::int64_t scatter_limit(const Op& op, const Shape& shape, const Shape& updates) {
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  const auto& window = op.attributes.integers("update_window_dims");
  const auto& inserted = op.attributes.integers("inserted_window_dims");
  std::vector<std::int64_t> sizes;
  for (std::int64_t axis = 0, next = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
    const bool single = std::find(inserted.begin(), inserted.end(), axis) != inserted.end();
    sizes.push_back(single ? 1 : updates[static_cast<std::size_t>(window[static_cast<std::size_t>(next++)])]);
  }
  for (const std::int64_t axis : op.attributes.integers("scatter_dims_to_operand_dims"))
    limit = std::min(limit, shape[static_cast<std::size_t>(axis)] - sizes[static_cast<std::size_t>(axis)] + 1);
  return limit;
}

/// Legal range of operand `index` of `op`, given the ranges of its results.
Range operand_range(const GraphFunction& function, const Op& op, std::size_t index, const std::vector<Range>& ranges) {
  const auto shape = [&](std::size_t operand) -> const Shape& {
    return function.value(op.operands[operand]).type.shape;
  };
  Range range{std::numeric_limits<std::int64_t>::min() / 4, std::numeric_limits<std::int64_t>::max() / 4};
  switch (op.kind) {
    case Kind::embedding:
      if (index == 1) range = {0, shape(0)[0]};
      break;
    case Kind::gather:
      if (index == 1) range = {0, gather_limit(op, shape(0))};
      break;
    case Kind::scatter:
      if (index == 1) range = {0, scatter_limit(op, shape(0), shape(2))};
      break;
    case Kind::dynamic_slice:
      if (index >= 1) range = {0, shape(0)[index - 1] - op.attributes.integers("sizes")[index - 1] + 1};
      break;
    case Kind::dynamic_update:
      if (index >= 2) range = {0, shape(0)[index - 2] - shape(1)[index - 2] + 1};
      break;
    case Kind::attention: {
      const AttentionShape whole = attention_shape(function, op);
      if (index == attention_kv_len) range = {0, whole.keys + 1, whole.keys + 1};
      if (index == attention_pages) range = {0, whole.stored, whole.stored};
      break;
    }
    case Kind::elementwise: {
      const std::string& name = op.attributes.text("function");
      if (index == 1 && (name == "divide" || name == "remainder" || name == "floor_divide")) range.low = 1;
      if (index >= 1 && name == "select") range = ranges[static_cast<std::size_t>(op.results[0])];
      break;
    }
    case Kind::convert:
    case Kind::reshape:
    case Kind::transpose:
    case Kind::broadcast:
    case Kind::slice:
    case Kind::reverse:
    case Kind::concat:
    case Kind::copy:
      range = ranges[static_cast<std::size_t>(op.results[0])];
      break;
    default:
      break;
  }
  return range;
}

/// Legal ranges of the inputs of a function, following readers back through movement and calls.
std::vector<Range> input_ranges(const Graph& graph, const GraphFunction& function) {
  std::vector<Range> ranges(function.values.size());
  for (std::size_t i = function.ops.size(); i-- > 0;) {
    const Op& op = function.ops[i];
    std::vector<Range> callee;
    if (op.kind == Kind::call || op.kind == Kind::fused)
      callee = input_ranges(graph, graph.functions[static_cast<std::size_t>(op.functions[0])]);
    for (std::size_t operand = 0; operand < op.operands.size(); ++operand) {
      if (op.operands[operand] == no_value) continue;
      Range& range = ranges[static_cast<std::size_t>(op.operands[operand])];
      range.limit(callee.empty() ? operand_range(function, op, operand, ranges) : callee[operand]);
    }
  }
  std::vector<Range> inputs;
  for (const ValueId id : function.inputs) inputs.push_back(ranges[static_cast<std::size_t>(id)]);
  return inputs;
}

Array random_array(const TensorType& type, std::pair<std::int64_t, std::int64_t> range, std::uint64_t stream,
                   CancelToken* cancel) {
  const bool floating = is_float(type.dtype) || dtype_class(type.dtype) == DTypeClass::complex;
  Array values(floating ? DType::f64 : DType::i64, type.shape);
  for (std::int64_t i = 0; i < values.size(); ++i) {
    if ((i & 0xFFFFF) == 0 && cancel != nullptr) cancel->poll();
    const std::uint64_t bits = mix(stream + static_cast<std::uint64_t>(i) * 0xd1342543de82ef95U);
    if (floating) {
      values.as<double>()[i] = static_cast<double>(bits >> 11) * 0x1p-52 - 1;
    } else if (type.dtype == DType::boolean) {
      values.as<std::int64_t>()[i] = static_cast<std::int64_t>(bits >> 63);
    } else {
      values.as<std::int64_t>()[i] =
          range.first + static_cast<std::int64_t>((bits >> 1) % static_cast<std::uint64_t>(range.second - range.first));
    }
  }
  return values.to(type.dtype);
}

}  // namespace

std::vector<Array> random_inputs(const Graph& graph, std::int64_t seed, CancelToken* cancel) {
  const GraphFunction& entry = graph.entry();
  const auto ranges = random_ranges(graph);
  std::vector<Array> inputs;
  for (std::size_t i = 0; i < entry.inputs.size(); ++i)
    inputs.push_back(random_input(entry.value(entry.inputs[i]).type, i, ranges[i], seed, cancel));
  return inputs;
}

std::vector<std::pair<std::int64_t, std::int64_t>> random_ranges(const Graph& graph) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const Range& range : input_ranges(graph, graph.entry())) ranges.emplace_back(range.low, range.end());
  return ranges;
}

Array random_input(const TensorType& type, std::size_t index, std::pair<std::int64_t, std::int64_t> range,
                   std::int64_t seed, CancelToken* cancel) {
  return random_array(type, range, mix(mix(static_cast<std::uint64_t>(seed)) + index), cancel);
}

}  // namespace tilesim
