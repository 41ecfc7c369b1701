#include "tilesim/graph/passes/unquantized.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim {

namespace {

constexpr int code_bits = 8;  // bits of codes

bool is_code(DType dtype) { return is_integer(dtype) && dtype != DType::boolean && bits(dtype) <= code_bits; }

/// Whether a number is the smallest or largest code of a type.
bool ends_codes(double number, DType dtype) {
  if (dtype == DType::f8e4m3fn) return std::abs(number) == 448;
  if (dtype == DType::f8e5m2) return std::abs(number) == 57344;
  if (dtype == DType::f4e2m1fn) return std::abs(number) == 6;
  for (const int count : {4, 8}) {
    const double half = std::ldexp(1.0, count - 1);
    if (number == 0 || number == -half || std::abs(number) == half - 1 || number == 2 * half - 1) return true;
  }
  return false;
}

/// Whether a function computes with numbers, not with their bits.
bool is_numeric(Function function) {
  switch (function) {
    case Function::bitwise_and:
    case Function::bitwise_or:
    case Function::bitwise_xor:
    case Function::bitwise_not:
    case Function::shift_left:
    case Function::shift_right:
      return false;
    default:
      return true;
  }
}

class Unquantized {
 public:
  explicit Unquantized(Graph graph) : plain_(std::move(graph)), made_(plain_), builder_(made_, "unquantized") {
    producer_ = edit::producers(plain_.entry());
    now_.assign(plain_.entry().values.size(), no_value);
  }

  Graph run() {
    const GraphFunction& function = plain_.entry();
    for (const ValueId input : function.inputs) {
      const Value& value = function.value(input);
      now_[at(input)] = widened(builder_.input(value.name, value.type));
    }
    for (const Op& op : function.ops) add(op);
    for (const ValueId output : function.outputs) builder_.output(now_[at(output)], function.value(output).name);
    builder_.finish();
    remove_dead_code(made_);
    return std::move(made_);
  }

 private:
  DType before(ValueId value) const { return plain_.entry().value(value).type.dtype; }
  DType after(ValueId value) const { return builder_.type(now_[at(value)]).dtype; }
  /// Whether the pass changed a value from an integer to a real number.
  bool real(ValueId value) const { return value != no_value && is_integer(before(value)) && is_float(after(value)); }

  ValueId widened(ValueId value) {
    const DType dtype = builder_.type(value).dtype;
    return is_float(dtype) && bits(dtype) < 32 ? builder_.convert(value, DType::f32) : value;
  }

  void add(const Op& op) {
    builder_.set_source(op.source);
    if (op.kind == Kind::constant) {
      const std::string& name = op.attributes.text("reference");
      now_[at(op.results[0])] = widened(builder_.weight(name, plain_.weights.at(name)));
    } else if (op.kind == Kind::convert) {
      now_[at(op.results[0])] = converted(op);
    } else if (!turned(op)) {
      compute(op);
    }
  }

  /// Whether the operation reads u8 as i8 by inverting the highest bit, which subtracts 128.
  bool turned(const Op& op) {
    constexpr double offset = 128;
    if (op.operands.empty() || !real(op.operands[0])) return false;
    if (op.kind == Kind::bitcast) {
      now_[at(op.results[0])] = now_[at(op.operands[0])];
      return before(op.operands[0]) == DType::u8 && before(op.results[0]) == DType::i8;
    }
    if (!is(op, Function::bitwise_xor) || before(op.operands[0]) != DType::u8) return false;
    if (edit::known_number(plain_, plain_.entry(), producer_, op.operands[1]) != offset) return false;
    now_[at(op.results[0])] = builder_.elementwise(
        Function::subtract, {now_[at(op.operands[0])], builder_.scalar(offset, after(op.operands[0]))});
    return true;
  }

  /// The number before it was rounded and clamped to a code.
  ValueId unrounded(ValueId value, DType code) const {
    constexpr int most = 8;  // roundings and clamps
    for (int i = 0; i < most && producer_[at(value)] >= 0; ++i) {
      const Op& op = plain_.entry().ops[at(producer_[at(value)])];
      if (op.kind == Kind::convert && is_float(before(op.operands[0])) && is_float(before(value)))
        value = op.operands[0];
      else if (is(op, Function::round_even))
        value = op.operands[0];
      else if (is(op, Function::clamp) && ends(op.operands[0], code) && ends(op.operands[2], code))
        value = op.operands[1];
      else
        break;
    }
    return value;
  }

  static bool is(const Op& op, Function function) {
    return op.kind == Kind::elementwise && parse_function(op.attributes.text("function")) == function;
  }

  bool ends(ValueId value, DType code) const {
    const auto number = edit::known_number(plain_, plain_.entry(), producer_, value);
    return number && ends_codes(*number, code);
  }

  ValueId converted(const Op& op) {
    const ValueId from = op.operands[0];
    const DType to = op.attributes.dtype("dtype");
    const bool code = is_code(to) || (is_float(to) && bits(to) <= code_bits);
    if (code && is_float(before(from))) return as_f32(now_[at(unrounded(from, to))]);
    if (real(from)) return now_[at(from)];
    const DType wanted = is_float(to) && bits(to) < 32 ? DType::f32 : to;
    return after(from) == wanted ? now_[at(from)]
                                 : builder_.op(Kind::convert, {now_[at(from)]}, to_dtype(op, wanted))[0];
  }

  static Attributes to_dtype(const Op& op, DType dtype) {
    Attributes attributes = op.attributes;
    attributes.set("dtype", dtype);
    return attributes;
  }

  ValueId as_f32(ValueId value) {
    return builder_.type(value).dtype == DType::f32 ? value : builder_.convert(value, DType::f32);
  }

  void compute(const Op& op) {
    const bool any = std::ranges::any_of(op.operands, [&](ValueId value) { return real(value); });
    const bool changed = any || std::ranges::any_of(op.operands, [&](ValueId value) {
                           return value != no_value && before(value) != after(value);
                         });
    const bool bitwise = op.kind == Kind::bitcast ||
                         (op.kind == Kind::elementwise && !is_numeric(parse_function(op.attributes.text("function"))));
    if ((bitwise && changed) || (changed && !op.functions.empty()))
      throw Unsupported({bitwise ? "the bits of a quantized number are undefined in f32"
                                 : "a loop, branch or comparator takes quantized numbers",
                         op.name,
                         {},
                         {},
                         "Pass the graph in f32 to compare with"});
    std::vector<ValueId> operands;
    for (const ValueId value : op.operands) {
      if (value == no_value) {
        operands.push_back(no_value);
        continue;
      }
      const bool index =
          info(op.kind).movement && value != op.operands[0] && op.kind != Kind::concat && op.kind != Kind::pad;
      const bool joins = any && !index && is_integer(before(value)) && before(value) != DType::boolean;
      operands.push_back(joins ? as_f32(now_[at(value)]) : now_[at(value)]);
    }
    Attributes attributes = op.attributes;
    if (attributes.find("dtype")) {
      const DType dtype = attributes.dtype("dtype");
      const bool widens = is_float(dtype) ? bits(dtype) < 32 : any && dtype != DType::boolean;
      if (widens) attributes.set("dtype", DType::f32);
    }
    const std::vector<ValueId> results =
        builder_.op(op.kind, operands, attributes, op.name, static_cast<int>(op.results.size()), op.functions);
    for (std::size_t i = 0; i < op.results.size(); ++i)
      if (op.results[i] != no_value) now_[at(op.results[i])] = results[i];
  }

  Graph plain_, made_;
  Builder builder_;
  std::vector<int> producer_;
  std::vector<ValueId> now_;  ///< by value of the graph
};

}  // namespace

Graph unquantized(const Graph& graph) {
  Graph plain = graph;
  inline_calls(plain);
  return Unquantized(std::move(plain)).run();
}

}  // namespace tilesim
