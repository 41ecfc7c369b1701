#include "tilesim/graph/passes/zero_tiles.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes/sparse_plan.hpp"

namespace tilesim {

namespace {

/// For each tile [contraction, across] of a matrix, whether it has a nonzero element (NaN counts as nonzero).
struct TileMask {
  std::int64_t depth = 0, across = 0;
  std::vector<char> some;
  std::int64_t left = 0;
};

TileMask mask_of(const Array& matrix, int contracted) {
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  const Array values = matrix.to(DType::f64);
  TileMask mask;
  const std::int64_t down = ceil_div(rows, zero_tile), along = ceil_div(columns, zero_tile);
  mask.depth = contracted == 0 ? down : along;
  mask.across = contracted == 0 ? along : down;
  mask.some.assign(at(down * along), 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    worked(columns);
    const double* row = values.as<double>() + r * columns;
    for (std::int64_t c = 0; c < columns; ++c) {
      if (row[c] == 0) continue;
      const std::int64_t i = r / zero_tile, j = c / zero_tile;
      mask.some[at(contracted == 0 ? i * along + j : j * down + i)] = 1;
    }
  }
  mask.left = std::count(mask.some.begin(), mask.some.end(), 1);
  return mask;
}

bool all_finite(const Array& array) {
  if (!is_float(array.dtype())) return true;
  const Array values = array.to(DType::f64);
  return std::all_of(values.as<double>(), values.as<double>() + values.size(),
                     [](double v) { return std::isfinite(v); });
}

Weight counted(const TileMask& mask, bool before) {
  Weight weight;
  weight.source = Weight::Source::data;
  weight.trainable = false;
  const std::int64_t depth = mask.depth + (before ? 1 : 0), across = mask.across + (before ? 0 : 1);
  weight.type = {DType::i32, {depth, across}};
  weight.data = Array(DType::i32, weight.type.shape);
  auto* counts = weight.data.as<std::int32_t>();
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t o = 0; o < across; ++o) {
      std::int32_t& count = counts[k * across + o];
      if (before)
        count = k == 0 ? 0 : counts[(k - 1) * across + o] + mask.some[at((k - 1) * mask.across + o)];
      else
        count = o == 0 ? 0 : counts[k * across + o - 1] + mask.some[at(k * mask.across + o - 1)];
    }
  return weight;
}

/// Weights of the entry's constants with stored or readable elements; randomly drawn weights have no zeros.
class Constants {
 public:
  explicit Constants(const Graph& graph) : graph_(graph) {
    for (const Op& op : graph.entry().ops)
      if (op.kind == Kind::constant) names_.emplace_back(op.results[0], op.attributes.text("reference"));
  }
  const std::string* name(ValueId value) const {
    for (const auto& [own, name] : names_)
      if (own == value) return &name;
    return nullptr;
  }
  std::optional<Array> load(ValueId value) const {
    const std::string* reference = name(value);
    if (!reference) return std::nullopt;
    const Weight& weight = graph_.weights.at(*reference);
    if (weight.source == Weight::Source::random) return std::nullopt;
    return weight.load(*reference);
  }

 private:
  const Graph& graph_;
  std::vector<std::pair<ValueId, std::string>> names_;
};

/// The contracted axis of a matrix; -1 if the operand is not a matrix or has batch axes.
int contracted_axis(const GraphFunction& function, const Op& op, int operand) {
  const Shape& shape = function.value(op.operands[at(operand)]).type.shape;
  const std::string of = operand == 0 ? "a" : "b";
  const auto axes = op.attributes.integers(of + "_contract", {operand == 0 ? 1 : 0});
  if (shape.size() != 2 || axes.size() != 1 || !op.attributes.integers(of + "_batch", {}).empty()) return -1;
  return static_cast<int>(axes[0]);
}

struct OperandMask {
  int operand = -1;
  TileMask mask;
};

OperandMask fewest_left(const GraphFunction& function, const Constants& constants, const Op& op) {
  OperandMask best;
  for (int operand : {1, 0}) {
    const int axis = contracted_axis(function, op, operand);
    if (axis < 0) continue;
    const std::optional<Array> matrix = constants.load(op.operands[at(operand)]);
    if (!matrix) continue;
    TileMask mask = mask_of(*matrix, axis);
    if (mask.left == std::ssize(mask.some)) continue;
    const auto share = [](const TileMask& m) {
      return static_cast<double>(m.left) / static_cast<double>(m.some.size());
    };
    if (best.operand < 0 || share(mask) < share(best.mask)) best = {operand, std::move(mask)};
  }
  return best;
}

}  // namespace

ZeroTiles zero_tiles_of(const Op& op) {
  for (int operand : {0, 1})
    if (const std::string key = op.attributes.text(operand == 0 ? "a_tiles" : "b_tiles", ""); !key.empty())
      return {operand, key + ".before", key + ".beside"};
  return {};
}

ZeroTiles zero_tiles_of(const Graph& graph, const GraphFunction& function, const Op& op) {
  const ZeroTiles tiles = zero_tiles_of(op);
  const int contracted = tiles.operand < 0 ? -1 : contracted_axis(function, op, tiles.operand);
  const auto found = contracted < 0 ? graph.weights.end() : graph.weights.find(tiles.beside);
  if (found == graph.weights.end() || found->second.data.empty() || !graph.weights.contains(tiles.before)) return {};
  const Shape& shape = function.value(op.operands[at(tiles.operand)]).type.shape;
  const Shape wanted{ceil_div(shape[at(contracted)], zero_tile), ceil_div(shape[at(1 - contracted)], zero_tile) + 1};
  return found->second.type.shape == wanted ? tiles : ZeroTiles{};
}

std::vector<std::string> mark_zero_tiles(Graph& graph, const std::set<std::string>& leave) {
  std::vector<std::string> said;
  const Constants constants(graph);
  std::map<std::string, Weight> made;
  for (Op& op : graph.entry().ops) {
    if (op.kind != Kind::contract || zero_tiles_of(op).operand >= 0 || leave.contains(op.name)) continue;
    OperandMask found = fewest_left(graph.entry(), constants, op);
    if (found.operand < 0) continue;
    const std::string tiles = std::to_string(std::ssize(found.mask.some) - found.mask.left) + " of " +
                              std::to_string(found.mask.some.size()) + " tiles of " + (found.operand == 0 ? "a" : "b");
    if (op.attributes.text("precision", "default") == "exact" &&
        is_float(graph.entry().value(op.operands[0]).type.dtype)) {
      const std::optional<Array> other = constants.load(op.operands[at(1 - found.operand)]);
      if (!other || !all_finite(*other)) {
        said.push_back(op.name + ": " + tiles +
                       " are zero but multiplied: the product is exact, and the other operand may have NaN "
                       "or infinity");
        continue;
      }
    }
    const std::string key = op.name + ".tiles";
    op.attributes.set(found.operand == 0 ? "a_tiles" : "b_tiles", key);
    made[key + ".before"] = counted(found.mask, true);
    made[key + ".beside"] = counted(found.mask, false);
    said.push_back(op.name + ": " + tiles + " are zero, neither loaded nor multiplied");
  }
  graph.weights.merge(made);
  return said;
}

bool finds_zero_tiles(const Op& op) {
  constexpr std::size_t all = 5;  // a, b, bias, before, beside
  return op.kind == Kind::contract && op.operands.size() == all && op.operands[3] != no_value;
}

namespace {

/// Adds operations to a function that test an activation's tiles before the product that reads them.
class TileTests {
 public:
  explicit TileTests(GraphFunction& function) : function_(function), names_(function) {}

  /// Adds the running counts `before` and `beside` of a matrix.
  std::pair<ValueId, ValueId> add(const Op& product, ValueId matrix, int contracted, std::vector<Op>& ops) {
    ops_ = &ops;
    stem_ = product.name + ".tiles";
    source_ = product.source;
    const TensorType type = function_.value(matrix).type;
    const Shape tiles{ceil_div(type.shape[0], zero_tile), ceil_div(type.shape[1], zero_tile)};
    const Shape apart{tiles[0], zero_tile, tiles[1], zero_tile};
    ValueId value = padded(matrix, {tiles[0] * zero_tile, tiles[1] * zero_tile}, {});
    value = shaped(value, apart);
    Attributes differs;
    differs.set("function", std::string("not_equal"));
    value = emit(Kind::elementwise, {value, zero(type.dtype)}, differs, {DType::boolean, apart});
    value = emit(Kind::convert, {value}, dtype(DType::i32), {DType::i32, apart});
    Attributes reduce;
    reduce.set("dims", std::vector<std::int64_t>{1, 3});
    reduce.set("combiner", std::string("maximum"));
    value = emit(Kind::reduce, {value}, reduce, {DType::i32, tiles});
    Shape order = tiles;
    if (contracted == 1) {
      std::swap(order[0], order[1]);
      Attributes turn;
      turn.set("permutation", std::vector<std::int64_t>{1, 0});
      value = emit(Kind::transpose, {value}, turn, {DType::i32, order});
    }
    return {counted(value, order, 0), counted(value, order, 1)};
  }

 private:
  static Attributes dtype(DType to) {
    Attributes attributes;
    attributes.set("dtype", to);
    return attributes;
  }

  ValueId emit(Kind kind, std::vector<ValueId> operands, Attributes attributes, TensorType type) {
    Op op;
    op.kind = kind;
    op.name = names_.taken(stem_);
    op.source = source_;
    op.operands = std::move(operands);
    op.attributes = std::move(attributes);
    function_.values.push_back({names_.taken(op.name), std::move(type)});
    op.results = {static_cast<ValueId>(function_.values.size()) - 1};
    ops_->push_back(std::move(op));
    return ops_->back().results[0];
  }

  ValueId shaped(ValueId value, const Shape& shape) {
    Attributes attributes;
    attributes.set("shape", shape);
    return emit(Kind::reshape, {value}, attributes, {function_.value(value).type.dtype, shape});
  }

  /// Adds the constant 0 of a type. Zero times an element would not do: the element may be NaN.
  ValueId zero(DType of) {
    Attributes attributes;
    attributes.set("reference", zero_name(of));
    return emit(Kind::constant, {}, attributes, {of, {}});
  }

  ValueId padded(ValueId value, const Shape& shape, const std::vector<std::int64_t>& low) {
    const TensorType type = function_.value(value).type;
    if (type.shape == shape) return value;
    std::vector<std::int64_t> front(shape.size(), 0), back = front, none = front;
    if (!low.empty()) front = low;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) back[axis] = shape[axis] - type.shape[axis] - front[axis];
    Attributes pad;
    pad.set("low", front);
    pad.set("high", back);
    pad.set("interior", none);
    pad.set("mode", std::string("constant"));
    return emit(Kind::pad, {value, zero(type.dtype)}, pad, {type.dtype, shape});
  }

  /// Adds sums along an axis, with a leading zero.
  ValueId counted(ValueId value, Shape shape, int axis) {
    Attributes sum;
    sum.set("dim", std::int64_t{axis});
    sum.set("combiner", std::string("add"));
    const ValueId sums = emit(Kind::cumulative, {value}, sum, {DType::i32, shape});
    std::vector<std::int64_t> low(2, 0);
    low[at(axis)] = 1;
    ++shape[at(axis)];
    return padded(sums, shape, low);
  }

 public:
  static std::string zero_name(DType dtype) { return "zero of tiles in " + std::string(name(dtype)); }

 private:
  GraphFunction& function_;
  edit::Names names_;
  std::vector<Op>* ops_ = nullptr;
  std::string stem_, source_;
};

bool gives_zeros(const GraphFunction& function, ValueId value) {
  if (std::ranges::count(function.inputs, value) > 0) return true;
  for (const Op& op : function.ops) {
    if (op.results.empty() || op.results[0] != value) continue;
    if (op.kind == Kind::reshape || op.kind == Kind::convert) return gives_zeros(function, op.operands[0]);
    if (op.kind != Kind::elementwise) return false;
    const Function made = parse_function(op.attributes.text("function"));
    return made == Function::relu || made == Function::maximum || made == Function::select || made == Function::clamp ||
           made == Function::multiply;
  }
  return false;
}

}  // namespace

std::vector<std::string> find_zero_tiles(Graph& graph, const std::set<std::string>& leave) {
  std::vector<std::string> said;
  const Constants constants(graph);
  GraphFunction& function = graph.entry();
  TileTests tests(function);
  std::vector<Op> ops;
  std::vector<Op> before = std::move(function.ops);
  function.ops = before;
  std::set<DType> zeros;
  for (Op& op : before) {
    const bool exact = op.attributes.text("precision", "default") == "exact" || leave.contains(op.name);
    for (int operand : {0, 1}) {
      if (op.kind != Kind::contract || zero_tiles_of(op).operand >= 0 || exact) break;
      const ValueId value = op.operands[at(operand)];
      const int axis = contracted_axis(function, op, operand);
      if (axis < 0 || constants.name(value) || !gives_zeros(function, value)) continue;
      const TensorType type = function.value(value).type;
      if (type.shape[at(axis)] < 2 * zero_tile || type.dtype == DType::boolean || bits(type.dtype) < 8) continue;
      const auto [own, beside] = tests.add(op, value, axis, ops);
      op.operands.resize(3, no_value);
      op.operands.push_back(own);
      op.operands.push_back(beside);
      op.attributes.set(operand == 0 ? "a_tiles" : "b_tiles", op.name + ".tiles");
      zeros.insert({type.dtype, DType::i32});
      said.push_back(op.name + ": tiles of " + (operand == 0 ? "a" : "b") + " are tested");
    }
    ops.push_back(std::move(op));
  }
  function.ops = std::move(ops);
  for (const DType dtype : zeros) {
    Weight weight;
    weight.source = Weight::Source::data;
    weight.trainable = false;
    weight.type = {dtype, {}};
    weight.data = Array(dtype, {});
    std::fill_n(weight.data.bytes(), weight.data.nbytes(), std::byte{});
    graph.weights.emplace(TileTests::zero_name(dtype), std::move(weight));
  }
  return said;
}

double share_left(const Graph& graph, const GraphFunction& function, const Op& op, int operand) {
  if (const auto plan = sparse_plan_of(graph, op); plan && plan->bytes[operand] > 0) {
    const TensorType& type = function.value(op.operands[at(operand)]).type;
    const auto dense = static_cast<double>(packed_bytes(type.dtype, element_count(type.shape)));
    return std::min(1.0, static_cast<double>(plan->bytes[operand]) / std::max(1.0, dense));
  }
  if (finds_zero_tiles(op)) return 0;
  const ZeroTiles tiles = zero_tiles_of(graph, function, op);
  if (tiles.operand < 0) return 1;
  const Weight& beside = graph.weights.at(tiles.beside);
  const Shape& counted = beside.type.shape;
  const auto* counts = beside.data.as<std::int32_t>();
  const int contracted = contracted_axis(function, op, tiles.operand);
  const Shape& shape = function.value(op.operands[at(tiles.operand)]).type.shape;
  const std::int64_t depth = shape[at(contracted)], across = shape[at(1 - contracted)];
  double left = 0, elements = 0, rows = 0, slices = 0;
  for (std::int64_t k = 0; k < counted[0]; ++k) {
    const auto high = static_cast<double>(std::min(zero_tile, depth - k * zero_tile));
    const std::int32_t* line = counts + k * counted[1];
    for (std::int64_t o = 0; o + 1 < counted[1]; ++o) {
      if (line[o + 1] == line[o]) continue;
      ++left;
      elements += high * static_cast<double>(std::min(zero_tile, across - o * zero_tile));
    }
    if (line[counted[1] - 1] > 0) rows += high, ++slices;
  }
  const double all = static_cast<double>(counted[0] * (counted[1] - 1));
  if (!(all > 0)) return 1;
  if (operand == tiles.operand) return std::min(left / all, elements / static_cast<double>(depth * across));
  return std::min(slices / static_cast<double>(counted[0]), rows / static_cast<double>(depth));
}

}  // namespace tilesim
