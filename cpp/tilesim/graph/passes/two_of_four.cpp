#include "tilesim/graph/passes/two_of_four.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim {

namespace {

constexpr std::int64_t four = 4, kept_of_four = 2;

/// Positions, ascending, of the two elements to keep of four adjacent ones: nonzero elements first, then leading ones.
std::array<int, kept_of_four> places_of(const std::array<bool, four>& some) {
  std::array<int, kept_of_four> places{};
  std::size_t found = 0;
  for (const bool wanted : {true, false})
    for (int place = 0; place < four && found < kept_of_four; ++place)
      if (some[at(place)] == wanted) places[found++] = place;
  if (places[0] > places[1]) std::swap(places[0], places[1]);
  return places;
}

[[noreturn]] void refuse_group(const std::string& name, std::int64_t vector, std::int64_t first, std::int64_t last,
                               std::int64_t held) {
  throw UserError({"a group of a 2:4 operand has more than two nonzero values",
                   name + ": vector " + std::to_string(vector) + ", elements " + std::to_string(first) + " to " +
                       std::to_string(last),
                   std::to_string(held) + " values",
                   "at most 2 of 4 adjacent elements along the contracted axis",
                   {}});
}

}  // namespace

Array compressed_two_of_four(const Array& matrix, int axis, const std::string& name) {
  const std::int64_t depth = matrix.shape()[at(axis)], across = matrix.shape()[at(1 - axis)];
  const std::int64_t along = axis == 0 ? across : 1, beside = axis == 0 ? 1 : depth;
  const DType plain = matrix.dtype();
  const auto width = static_cast<std::size_t>(host_bytes(plain));
  Shape shape = matrix.shape();
  shape[at(axis)] = ceil_div(depth, pattern_neighbours);
  Array result(two_of_four(plain), shape);
  const Array real = matrix.to(DType::f64);
  const auto* number = real.as<double>();
  for (std::int64_t vector = 0; vector < across; ++vector) {
    worked(depth);
    for (std::int64_t element = 0; element < shape[at(axis)]; ++element) {
      const std::int64_t where = axis == 0 ? element * across + vector : vector * shape[at(axis)] + element;
      std::byte* to = result.bytes() + at(where) * at(host_bytes(result.dtype()));
      unsigned codes = 0;
      for (std::int64_t half = 0; half < pattern_neighbours / four; ++half) {
        const std::int64_t first = element * pattern_neighbours + half * four;
        std::array<bool, four> some{};
        for (std::int64_t i = 0; i < four && first + i < depth; ++i)
          some[at(i)] = number[vector * beside + (first + i) * along] != 0;
        if (const std::int64_t held = std::count(some.begin(), some.end(), true); held > kept_of_four)
          refuse_group(name, vector, first, std::min(first + four, depth) - 1, held);
        const auto places = places_of(some);
        for (std::int64_t i = 0; i < kept_of_four; ++i) {
          const std::int64_t from = first + places[at(i)], slot = half * kept_of_four + i;
          codes |= static_cast<unsigned>(places[at(i)]) << (2 * slot);
          if (from < depth)
            std::memcpy(to + at(slot) * width, matrix.bytes() + at(vector * beside + from * along) * width, width);
        }
      }
      to[at(pattern_values) * width] = static_cast<std::byte>(codes);
    }
  }
  return result;
}

Array expanded_two_of_four(const Array& stored, int axis, std::int64_t depth) {
  const std::int64_t elements = stored.shape()[at(axis)], across = stored.shape()[at(1 - axis)];
  Shape shape = stored.shape();
  shape[at(axis)] = depth;
  Array result(plain_of(stored.dtype()), shape);
  std::fill_n(result.bytes(), result.nbytes(), std::byte{});
  const auto width = at(host_bytes(result.dtype())), whole = at(host_bytes(stored.dtype()));
  const std::int64_t along = axis == 0 ? across : 1, beside = axis == 0 ? 1 : depth;
  for (std::int64_t vector = 0; vector < across; ++vector)
    for (std::int64_t element = 0; element < elements; ++element) {
      const std::int64_t where = axis == 0 ? element * across + vector : vector * elements + element;
      const std::byte* from = stored.bytes() + at(where) * whole;
      const auto codes = static_cast<unsigned>(from[at(pattern_values) * width]);
      for (std::int64_t slot = 0; slot < pattern_values; ++slot) {
        const std::int64_t place = slot / kept_of_four * four + (codes >> (2 * slot) & 3);
        const std::int64_t to = element * pattern_neighbours + place;
        if (to < depth)
          std::memcpy(result.bytes() + at(vector * beside + to * along) * width, from + at(slot) * width, width);
      }
    }
  return result;
}

std::map<std::string, TwoOfFour> expand_two_of_four(Graph& graph) {
  std::map<std::string, TwoOfFour> found;
  for (GraphFunction& function : graph.functions) {
    std::map<ValueId, std::string> references;
    for (const Op& op : function.ops) {
      if (op.kind == Kind::constant) references[op.results[0]] = op.attributes.text("reference");
      if (op.kind != Kind::contract) continue;
      TensorType& type = function.values[at(op.operands[1])].type;
      if (!is_two_of_four(type.dtype)) continue;
      const auto axis = static_cast<int>(op.attributes.integers("b_contract", {})[0]);
      const std::int64_t a_axis = op.attributes.integers("a_contract", {})[0];
      const std::string& reference = references.at(op.operands[1]);
      const TwoOfFour known{axis, function.value(op.operands[0]).type.shape[at(a_axis)]};
      type.dtype = plain_of(type.dtype);
      type.shape[at(axis)] = known.depth;
      if (!found.emplace(reference, known).second) continue;
      Weight& weight = graph.weights.at(reference);
      weight.data = expanded_two_of_four(weight.load(reference), axis, known.depth);
      weight.type = {weight.data.dtype(), weight.data.shape()};
    }
  }
  return found;
}

namespace {

class Compressing {
 public:
  Compressing(Graph& graph, const std::function<std::string(const Op&, DType)>& takes) : graph_(graph), takes_(takes) {}

  std::vector<std::string> run() {
    for (GraphFunction& function : graph_.functions) {
      references_.clear();
      made_.clear();
      std::vector<Op> ops;
      for (Op& op : function.ops) {
        if (op.kind == Kind::constant) references_[op.results[0]] = op.attributes.text("reference");
        if (op.kind == Kind::contract && op.attributes.text("b_format", "dense") == "2:4" &&
            !is_two_of_four(function.value(op.operands[1]).type.dtype))
          add(function, op, ops);
        if (op.kind == Kind::contract && op.attributes.text("a_format", "dense") == "2:4")
          leave(op, "arrays take the pattern of the second operand");
        ops.push_back(std::move(op));
      }
      function.ops = std::move(ops);
    }
    return std::move(said_);
  }

 private:
  void add(GraphFunction& function, Op& op, std::vector<Op>& ops) {
    std::string why = unsuitable(function, op);
    const DType plain = function.value(op.operands[1]).type.dtype;
    if (why.empty()) why = takes_(op, plain);
    if (!why.empty()) return leave(op, why);
    op.operands[1] = compressed(function, op, ops);
    said_.push_back(op.name +
                    ": its 2:4 operand is loaded as values and positions, and multiplied in half of the passes");
  }

  void leave(const Op& op, const std::string& why) {
    said_.push_back(op.name + ": its 2:4 operand is expanded, zeros are loaded and multiplied: " + why);
  }

  std::string unsuitable(const GraphFunction& function, const Op& op) const {
    const TensorType &a = function.value(op.operands[0]).type, &b = function.value(op.operands[1]).type;
    const auto reference = references_.find(op.operands[1]);
    if (reference == references_.end()) return "it is not a weight of this function";
    if (graph_.weights.at(reference->second).source == Weight::Source::random)
      return "its values are random, not in the pattern";
    if (b.shape.size() != 2 || op.attributes.integers("b_contract", {}).size() != 1) return "it is not a matrix";
    if (a.dtype != b.dtype || two_of_four(b.dtype) == b.dtype)
      return "arrays take the pattern in f32, f16, bf16 and i8, the same for both operands";
    if (op.attributes.text("precision", "default") == "exact" && is_float(b.dtype)) return "the product is exact";
    if (op.operands.size() > 3) return "tiles of zeros are searched";
    return {};
  }

  /// The compressed constant of a product. Products that contract a weight along the same axis share the constant.
  ValueId compressed(GraphFunction& function, const Op& op, std::vector<Op>& ops) {
    const ValueId dense = op.operands[1];
    const auto axis = static_cast<int>(op.attributes.integers("b_contract", {})[0]);
    const auto [known, fresh] = made_.try_emplace({dense, axis}, no_value);
    if (!fresh) return known->second;
    const std::string& reference = references_.at(dense);
    const std::string name = reference + (axis == 0 ? ".2of4" : ".2of4 along 1");
    if (const auto found = graph_.weights.find(name); found == graph_.weights.end()) {
      const Weight& from = graph_.weights.at(reference);
      Weight weight;
      weight.source = Weight::Source::data;
      weight.trainable = false;
      weight.data = compressed_two_of_four(from.load(reference), axis, op.name + ", operand b ('" + reference + "')");
      weight.type = {weight.data.dtype(), weight.data.shape()};
      graph_.weights.emplace(name, std::move(weight));
    }
    edit::Names names(function);
    Op constant;
    constant.kind = Kind::constant;
    constant.name = names.fresh(op.name + ".2of4");
    constant.source = op.source;
    constant.attributes.set("reference", name);
    function.values.push_back({names.fresh(function.value(dense).name + ".2of4"), graph_.weights.at(name).type});
    constant.results = {static_cast<ValueId>(function.values.size()) - 1};
    ops.push_back(constant);
    return known->second = constant.results[0];
  }

  Graph& graph_;
  const std::function<std::string(const Op&, DType)>& takes_;
  std::map<ValueId, std::string> references_;  ///< of the function's constants so far: they stand before readers
  std::map<std::pair<ValueId, int>, ValueId> made_;
  std::vector<std::string> said_;
};

}  // namespace

std::vector<std::string> compress_two_of_four(Graph& graph, const std::function<std::string(const Op&, DType)>& takes) {
  return Compressing(graph, takes).run();
}

}  // namespace tilesim
