#include "tilesim/graph/passes/zero_tiles.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim {

namespace {

/// Whether tiles [contraction, across] of a matrix have an element that is not zero (NaN is none).
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

/// Weights of the entry's constants that are held or read; those that are drawn have no zeros to speak of.
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

/// The one axis of a matrix that is contracted; -1: it is no matrix, or has batches.
int contracted_axis(const GraphFunction& function, const Op& op, int operand) {
  const Shape& shape = function.value(op.operands[at(operand)]).type.shape;
  const std::string of = operand == 0 ? "a" : "b";
  const auto axes = op.attributes.integers(of + "_contract", {operand == 0 ? 1 : 0});
  if (shape.size() != 2 || axes.size() != 1 || !op.attributes.integers(of + "_batch", {}).empty()) return -1;
  return static_cast<int>(axes[0]);
}

struct Found {
  int operand = -1;
  TileMask mask;
};

Found fewest_left(const GraphFunction& function, const Constants& constants, const Op& op) {
  Found best;
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

std::vector<std::string> mark_zero_tiles(Graph& graph) {
  std::vector<std::string> said;
  const Constants constants(graph);
  std::map<std::string, Weight> made;
  for (Op& op : graph.entry().ops) {
    if (op.kind != Kind::contract || zero_tiles_of(op).operand >= 0) continue;
    Found found = fewest_left(graph.entry(), constants, op);
    if (found.operand < 0) continue;
    const std::string tiles = std::to_string(std::ssize(found.mask.some) - found.mask.left) + " of " +
                              std::to_string(found.mask.some.size()) + " tiles of " + (found.operand == 0 ? "a" : "b");
    if (op.attributes.text("precision", "default") == "exact" &&
        is_float(graph.entry().value(op.operands[0]).type.dtype)) {
      const std::optional<Array> other = constants.load(op.operands[at(1 - found.operand)]);
      if (!other || !all_finite(*other)) {
        said.push_back(
            op.name + ": " + tiles +
            " are zero and multiplied all the same: the product is exact, and the other operand may have NaN "
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

double share_left(const Graph& graph, const GraphFunction& function, const Op& op, int operand) {
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
