#include "tilesim/validate/exact_values.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tilesim/base/index.hpp"
#include "tilesim/graph/passes/sparse_plan.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim::validate {

namespace {

/// Whether results are legal indices or conditions for any operands.
bool is_bounded(const Op& op) {
  if (op.kind == Kind::top_k || op.kind == Kind::sort) return true;
  if (op.kind != Kind::reduce) return false;
  const std::string& combiner = op.attributes.text("combiner");
  return combiner == "argmax" || combiner == "argmin";
}

bool is_index(const Op& op, std::size_t operand) {
  switch (op.kind) {
    case Kind::embedding:
    case Kind::gather:
    case Kind::scatter:
      return operand == 1;
    case Kind::dynamic_slice:
      return operand >= 1;
    case Kind::dynamic_update:
      return operand >= 2;
    case Kind::ragged_contract:
      return operand == 2;
    case Kind::contract:  // which tiles are zero
      return operand >= 3 && finds_zero_tiles(op);
    case Kind::while_loop:
    case Kind::branch:
      return true;
    default:
      return false;
  }
}

/// Finds the values that may be drawn, until functions and their callers agree.
class PatternPlanner {
 public:
  PatternPlanner(const Graph& graph, const std::set<std::string>& tensors) : graph_(graph), tensors_(tensors) {
    plan_.frozen.assign(graph.functions.size(), false);
    for (const GraphFunction& function : graph.functions) {
      std::vector<Pattern>& own = plan_.values.emplace_back(function.values.size());
      for (std::size_t i = 0; i < own.size(); ++i) {
        const TensorType& type = function.values[i].type;
        if (is_float(type.dtype) && element_count(type.shape) > 1) own[i].draw = Draw::dense;
      }
    }
  }

  Patterns run() {
    do {
      changed_ = false;
      for (std::size_t f = 0; f < graph_.functions.size(); ++f) keep_indices(f);
    } while (changed_);
    for (std::size_t f = 0; f < graph_.functions.size(); ++f) {
      if (!plan_.frozen[f]) choose(f);
    }
    return std::move(plan_);
  }

 private:
  const Pattern& pattern_of(std::size_t f, ValueId id) const { return plan_.values[f][at(id)]; }

  void keep(std::size_t f, ValueId id) {
    if (id == no_value) return;
    Pattern& pattern = plan_.values[f][at(id)];
    changed_ |= pattern.draw != Draw::keep;
    pattern = {};
  }

  void freeze(std::size_t f) {
    changed_ |= !plan_.frozen[f];
    plan_.frozen[f] = true;
    for (std::size_t i = 0; i < plan_.values[f].size(); ++i) keep(f, static_cast<ValueId>(i));
    for (const Op& op : graph_.functions[f].ops) {
      for (const std::int32_t callee : op.functions) {
        if (!plan_.frozen[at(callee)]) freeze(at(callee));
      }
    }
  }

  /// Marks the values from which indices are computed, last operations first.
  void keep_indices(std::size_t f) {
    const GraphFunction& function = graph_.functions[f];
    std::vector<bool> wanted(function.values.size(), false);
    for (std::size_t i = function.ops.size(); i-- > 0;) {
      const Op& op = function.ops[i];
      const bool calls = op.kind == Kind::call || op.kind == Kind::fused;
      bool reached = std::any_of(op.results.begin(), op.results.end(),
                                 [&](ValueId id) { return id != no_value && wanted[at(id)]; });
      reached = reached && !is_bounded(op);
      if (op.kind == Kind::while_loop || op.kind == Kind::branch || (calls && reached)) {
        for (const std::int32_t callee : op.functions) {
          if (!plan_.frozen[at(callee)]) freeze(at(callee));
        }
      }
      if (op.kind == Kind::while_loop || op.kind == Kind::branch) {
        for (const ValueId id : op.results) keep(f, id);
      }
      for (std::size_t k = 0; k < op.operands.size(); ++k) {
        const ValueId id = op.operands[k];
        if (id == no_value) continue;
        bool kept = reached || is_index(op, k);
        if (calls) {
          const auto callee = at(op.functions[0]);
          kept |= plan_.frozen[callee] || is_kept_input(callee, k);
        }
        if (!kept) continue;
        wanted[at(id)] = true;
        keep(f, id);
      }
      if (calls) agree(f, op);
    }
  }

  /// Whether a float input of a function is kept there.
  bool is_kept_input(std::size_t callee, std::size_t index) const {
    const GraphFunction& function = graph_.functions[callee];
    const ValueId input = function.inputs[index];
    const TensorType& type = function.value(input).type;
    return is_float(type.dtype) && element_count(type.shape) > 1 && pattern_of(callee, input).draw == Draw::keep;
  }

  /// A result of a call and the callee's output are one tensor.
  void agree(std::size_t f, const Op& op) {
    const auto callee = at(op.functions[0]);
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      if (op.results[i] == no_value) continue;
      const ValueId output = graph_.functions[callee].outputs[i];
      if (pattern_of(callee, output).draw == Draw::keep) keep(f, op.results[i]);
      if (pattern_of(f, op.results[i]).draw == Draw::keep) keep(callee, output);
    }
  }

  bool is_tensor(std::size_t f, ValueId id) const {
    const GraphFunction& function = graph_.functions[f];
    const std::string& name = function.value(id).name;
    if (std::ranges::count(function.inputs, id) > 0 || std::ranges::count(function.outputs, id) > 0) return true;
    return tensors_.count(name) > 0 || tensors_.count(function.name + "." + name) > 0;
  }

  void choose(std::size_t f) {
    const GraphFunction& function = graph_.functions[f];
    const auto set = [&](ValueId id, Draw draw, std::vector<std::int64_t> axes) {
      Pattern& pattern = plan_.values[f][at(id)];
      // Inputs of called functions are the caller's, and outputs both sides'.
      const bool shared = &function != &graph_.entry() && (std::ranges::count(function.inputs, id) > 0);
      if (pattern.draw == Draw::keep || shared || std::ranges::count(function.outputs, id) > 0) return;
      pattern = {draw, std::move(axes)};
    };
    for (const Op& op : function.ops) {
      if (op.kind == Kind::contract) {
        const ValueId a = op.operands[0], b = op.operands[1];
        if (is_tensor(f, b) && !is_tensor(f, a)) set(b, Draw::one_hot, op.attributes.integers("b_contract", {}));
        if (is_tensor(f, a) && !is_tensor(f, b)) set(a, Draw::one_hot, op.attributes.integers("a_contract", {}));
      }
      if (op.kind != Kind::reduce || op.attributes.text("combiner") != "maximum") continue;
      if (!is_shifted(function, op.operands[0])) continue;
      set(op.operands[0], Draw::peaks, op.attributes.integers("dims"));
      if (pattern_of(f, op.operands[0]).draw == Draw::peaks) set(op.results[0], Draw::zero, {});
    }
  }

  /// Whether something is subtracted from a value, as softmax does with its maximum.
  static bool is_shifted(const GraphFunction& function, ValueId id) {
    return std::ranges::any_of(function.ops, [&](const Op& op) {
      return op.kind == Kind::elementwise && op.attributes.text("function") == "subtract" && op.operands[0] == id;
    });
  }

  const Graph& graph_;
  const std::set<std::string>& tensors_;
  Patterns plan_;
  bool changed_ = false;
};

/// Finalizer of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t number_of(const std::string& name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash;
}

/// Calls call(position, row, k): row counts vectors along `axes`, k the elements of each.
template <class F>
void for_each(const Shape& shape, const std::vector<std::int64_t>& axes, F&& call) {
  std::vector<bool> along(shape.size(), false);
  for (const std::int64_t axis : axes) along[at(axis)] = true;
  Shape index(shape.size(), 0);
  const std::int64_t count = element_count(shape);
  for (std::int64_t position = 0; position < count; ++position) {
    std::int64_t row = 0, k = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t& number = along[d] ? k : row;
      number = number * shape[d] + index[d];
    }
    call(position, row, k);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

std::int64_t along(const Shape& shape, const std::vector<std::int64_t>& axes) {
  std::int64_t length = 1;
  for (const std::int64_t axis : axes) length *= shape[at(axis)];
  return length;
}

constexpr double hidden = -240;  ///< its exponential is 0 in f32; every 8-bit float of two signs holds it
constexpr std::int64_t most_peaks = 24;
constexpr std::int64_t period = 65521;  ///< of dense values: a prime, so that no tile or row is a multiple of it

}  // namespace

Patterns patterns_of(const Graph& graph, const std::set<std::string>& tensors) {
  return PatternPlanner(graph, tensors).run();
}

bool is_view(const Op& op) {
  constexpr std::array kinds{Kind::reshape, Kind::bitcast,   Kind::transpose, Kind::slice,
                             Kind::reverse, Kind::broadcast, Kind::copy};
  return std::ranges::count(kinds, op.kind) > 0;
}

Array drawn(const Pattern& pattern, DType dtype, const Shape& shape, const std::string& name) {
  const std::uint64_t stream = mixed(number_of(name));
  const bool vector = std::ranges::count_if(shape, [](std::int64_t extent) { return extent != 1; }) <= 1;
  const bool positive = vector || dtype == DType::f8e8m0fnu;
  Array values(DType::f32, shape);
  if (pattern.draw == Draw::zero) return values.to(dtype);
  auto* out = values.as<float>();
  const std::int64_t drawn = std::min(values.size(), period);
  for (std::int64_t i = 0; i < drawn; ++i) {
    const std::uint64_t bits = mixed(stream + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ULL);
    const float size = (bits & 1) != 0 ? 1 : 2;
    out[i] = positive || (bits & 2) != 0 ? size : -size;
  }
  for (std::int64_t i = drawn; i < values.size(); i += period)
    std::copy_n(out, std::min(period, values.size() - i), out + i);
  const std::int64_t length = along(shape, pattern.axes), rows = values.size() / std::max<std::int64_t>(length, 1);
  if (pattern.draw == Draw::one_hot && rows > 1) {
    const std::int64_t sparse = rows / 2;
    for_each(shape, pattern.axes, [&](std::int64_t i, std::int64_t row, std::int64_t k) {
      if (row % 2 == 0) return;
      const std::int64_t r = row / 2;
      const std::int64_t place = sparse < length ? ((r + 1) * length - 1) / sparse : length - 1 - r % length;
      if (k != place) out[i] = 0;
    });
  }
  const bool deep = dtype != DType::f4e2m1fn && dtype != DType::f8e8m0fnu;
  if (pattern.draw == Draw::peaks && deep) {
    const std::int64_t peaks = std::max<std::int64_t>(1, std::min(most_peaks, length / 2));
    for_each(shape, pattern.axes, [&](std::int64_t i, std::int64_t row, std::int64_t k) {
      // Rows shift their peaks, so that together they cover every place; the first has the last place.
      const std::int64_t shift = row * 40503 % length;
      const std::int64_t turned = (length - 1 - k + shift) % length;
      out[i] = turned * peaks / length != (turned - 1) * peaks / length || turned == 0 ? 0.0F : float{hidden};
    });
  }
  return values.to(dtype);
}

std::string constant_of(const GraphFunction& function, ValueId value) {
  for (const Op& maker : function.ops)
    if (maker.kind == Kind::constant && maker.results[0] == value) return maker.attributes.text("reference");
  return {};
}

std::set<std::string> with_known_zeros(const Graph& graph) {
  std::set<std::string> found;
  for (const GraphFunction& function : graph.functions)
    for (const Op& op : function.ops) {
      const int zeros = zero_tiles_of(op).operand;
      const auto plan = sparse_plan_of(graph, op);
      for (const int operand : {0, 1}) {
        if (operand != zeros && (!plan || plan->forms[operand] == 0)) continue;
        if (const std::string name = constant_of(function, op.operands[at(operand)]); !name.empty()) found.insert(name);
      }
    }
  return found;
}

Array with_zeros_of(const Array& given, const Array& other) {
  const Array known = given.to(DType::f64);
  Array values = other.to(DType::f64).clone();
  for (std::int64_t i = 0; i < values.size(); ++i)
    if (known.as<double>()[i] == 0) values.as<double>()[i] = 0;
  return values.to(given.dtype());
}

}  // namespace tilesim::validate
