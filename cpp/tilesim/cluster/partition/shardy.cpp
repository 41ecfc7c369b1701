#include "tilesim/cluster/partition/partition.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/halo.hpp"
#include "tilesim/cluster/partition/propagate.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim::partitioning {

namespace {

std::string mlir_type(const TensorType& type) {
  std::string text = "tensor<";
  for (const std::int64_t extent : type.shape) text += std::to_string(extent) + "x";
  return text + (type.dtype == DType::boolean ? "i1>" : "f32>");
}

/// Shardy's names of factors by index: i, j, .. z, z_1, z_2, ..
std::string symbol(int index) {
  if (index < 18) return std::string(1, static_cast<char>('i' + index));
  return "z_" + std::to_string(index - 17);
}

/// The #sdy.op_sharding_rule of an operation. The rest of an axis beyond its factors is a separate factor.
class RuleText {
 public:
  RuleText(const GraphFunction& function, const Op& op, const Rule& rule) : function_(function), rule_(rule) {
    std::string operands, results;
    for (std::size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i] != no_value) add(operands, op.operands[i], rule.operands[i], true, i);
    for (std::size_t i = 0; i < op.results.size(); ++i) add(results, op.results[i], rule.results[i], false, i);
    std::string sizes, reduced;
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      sizes += (i ? ", " : "") + symbol(static_cast<int>(i)) + "=" + std::to_string(sizes_[i]);
    for (const auto& [factor, index] : index_)
      if (rule.factors[at(factor)].sort == Factor::Sort::reduced)
        reduced += (reduced.empty() ? "" : ", ") + symbol(index);
    text_ = "#sdy.op_sharding_rule<(" + operands + ")->(" + results + ")";
    if (!sizes.empty()) text_ += " {" + sizes + "}";
    if (!reduced.empty()) text_ += " reduction={" + reduced + "}";
    text_ += ">";
  }
  const std::string& text() const { return text_; }

 private:
  int made(std::int64_t size) {
    sizes_.push_back(size);
    return static_cast<int>(sizes_.size()) - 1;
  }
  void add(std::string& text, ValueId value, const AxisFactors& axes, bool operand, std::size_t number) {
    text += text.empty() ? "[" : ", [";
    const Shape& shape = function_.value(value).type.shape;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis) text += ", ";
      std::int64_t reach = 1;
      for (const int factor : axes[axis]) {
        if (rule_.factors[at(factor)].extent == 1 && (shape[axis] > 1 || factor != axes[axis].front())) continue;
        const auto [found, fresh] = index_.try_emplace(factor, 0);
        if (fresh) found->second = made(rule_.factors[at(factor)].extent);
        text += symbol(found->second);
        reach *= rule_.factors[at(factor)].extent;
      }
      const bool joined = rule_.join.factor >= 0 && axis == rule_.join.axis && !axes[axis].empty();
      const bool slides = operand && (joined || find_halo(rule_, number, axis));
      if (axes[axis].empty() || (!slides && reach != shape[axis])) text += symbol(made(shape[axis] / reach));
    }
    text += "]";
  }

  const GraphFunction& function_;
  const Rule& rule_;
  std::map<int, int> index_;
  std::vector<std::int64_t> sizes_;
  std::string text_;
};

/// The rule at a region's border: an axis continues minor to the factor that makes tensors per-device.
std::string border_text(const GraphFunction& function, const Op& op) {
  const Shape &from = function.value(op.operands[0]).type.shape, &to = function.value(op.results[0]).type.shape;
  std::string operand, result, sizes;
  int factors = 0;
  const auto made = [&](std::int64_t size) {
    const std::string name = symbol(factors++);
    sizes += (sizes.empty() ? "" : ", ") + name + "=" + std::to_string(size);
    return name;
  };
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const std::int64_t inside = std::min(from[axis], to[axis]), outside = std::max(from[axis], to[axis]);
    const std::string own = inside > 0 && outside > inside ? made(outside / inside) : "", through = made(inside);
    // An axis with several factors must have none of size 1.
    const std::string all = own.empty() ? through : inside == 1 ? own : own + through;
    operand += (axis ? ", " : "") + (from[axis] == outside ? all : through);
    result += (axis ? ", " : "") + (to[axis] == outside ? all : through);
  }
  return "#sdy.op_sharding_rule<([" + operand + "])->([" + result + "])" + (sizes.empty() ? "" : " {" + sizes + "}") +
         ">";
}

class ShardyWriter {
 public:
  explicit ShardyWriter(const Graph& graph) : graph_(graph) {}

  std::string module() {
    text_ = "module {\n sdy.mesh @mesh = <[";
    for (std::size_t i = 0; i < graph_.mesh->axes.size(); ++i)
      text_ += (i ? ", \"" : "\"") + graph_.mesh->axes[i].name + "\"=" + std::to_string(graph_.mesh->axes[i].size);
    text_ += "]>\n func.func @main(";
    const GraphFunction& entry = graph_.entry();
    Names names(entry.values.size());
    for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
      names[at(entry.inputs[i])] = "%in" + std::to_string(i);
      text_ += (i ? ", " : "") + names[at(entry.inputs[i])] + ": " + bordered(entry, entry.inputs[i]);
    }
    text_ += ") -> (";
    for (std::size_t i = 0; i < entry.outputs.size(); ++i) text_ += (i ? ", " : "") + bordered(entry, entry.outputs[i]);
    text_ += ") {\n";
    body(at(graph_.main), names);
    finish("func.return", entry, names);
    return text_ + " }\n}\n";
  }

 private:
  using Names = std::vector<std::string>;  ///< names of values

  std::string bordered(const GraphFunction& function, ValueId id) const {
    const Value& value = function.value(id);
    std::string text = mlir_type(value.type);
    if (value.sharding && value.sharding->given)
      text += " {sdy.sharding = #sdy.sharding<@mesh, " + value.sharding->text() + ">}";
    return text;
  }
  std::string fresh() { return "%v" + std::to_string(values_++); }

  void finish(const std::string& name, const GraphFunction& function, const Names& names) {
    text_ += " \"" + name + "\"(";
    std::string types;
    for (std::size_t i = 0; i < function.outputs.size(); ++i) {
      text_ += (i ? ", " : "") + names[at(function.outputs[i])];
      types += (i ? ", " : "") + mlir_type(function.value(function.outputs[i]).type);
    }
    text_ += ") : (" + types + ") -> ()\n";
  }

  /// Given shardings of an operation's results; results without one are open.
  static std::string given(const GraphFunction& function, const Op& op) {
    std::string text;
    bool any = false;
    for (const ValueId id : op.results) {
      const Value& value = function.value(id);
      text += text.empty() ? "<@mesh, " : ", <@mesh, ";
      if (value.sharding && value.sharding->given) {
        any = true;
        text += value.sharding->text() + ">";
        continue;
      }
      text += "[";
      for (std::size_t i = 0; i < value.type.shape.size(); ++i) text += i ? ", {?}" : "{?}";
      text += "]>";
    }
    return any ? "sdy.sharding = #sdy.sharding_per_value<[" + text + "]>" : "";
  }

  void body(std::size_t index, Names& names) {
    const GraphFunction& function = graph_.functions[index];
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      const Op& op = function.ops[i];
      const std::string config = std::to_string(index) + " " + std::to_string(i);
      if (op.kind == Kind::while_loop)
        loop(function, op, config, names);
      else if (op.kind == Kind::branch)
        branch(function, op, config, names);
      else
        call(function, op, config, names);
    }
  }

  void begin(const Op& op, Names& names, const std::string& name, std::size_t first_operand) {
    const std::string made = fresh();
    text_ +=
        " " + made + (op.results.size() > 1 ? ":" + std::to_string(op.results.size()) : "") + " = \"" + name + "\"(";
    std::string list;
    for (std::size_t i = first_operand; i < op.operands.size(); ++i)
      if (op.operands[i] != no_value) list += (list.empty() ? "" : ", ") + names[at(op.operands[i])];
    text_ += list + ")";
    for (std::size_t i = 0; i < op.results.size(); ++i)
      names[at(op.results[i])] = op.results.size() > 1 ? made + "#" + std::to_string(i) : made;
  }
  void end(const GraphFunction& function, const Op& op, const std::string& attributes, std::size_t first_operand) {
    const std::string sharding = given(function, op);
    text_ += " {" + attributes + (sharding.empty() || attributes.empty() ? "" : ", ") + sharding + "} : (";
    std::string list;
    for (std::size_t i = first_operand; i < op.operands.size(); ++i)
      if (op.operands[i] != no_value)
        list += (list.empty() ? "" : ", ") + mlir_type(function.value(op.operands[i]).type);
    text_ += list + ") -> (";
    for (std::size_t i = 0; i < op.results.size(); ++i)
      text_ += (i ? ", " : "") + mlir_type(function.value(op.results[i]).type);
    text_ += ")\n";
  }

  void call(const GraphFunction& function, const Op& op, const std::string& config, Names& names) {
    begin(op, names, "stablehlo.custom_call", 0);
    text_ += " <{call_target_name = \"" + std::string(info(op.kind).name) + "\", backend_config = \"" + config + "\"}>";
    // Operations without operands have no rule: their results take the sharding that readers need.
    const bool reads = std::ranges::any_of(op.operands, [](ValueId id) { return id != no_value; });
    std::string rule;
    if (crosses(op))
      rule = border_text(function, op);
    else if (reads)
      rule = RuleText(function, op, rule_of(function, op)).text();
    end(function, op, rule.empty() ? "" : "sdy.sharding_rule = " + rule, 0);
  }

  void loop(const GraphFunction& function, const Op& op, const std::string& config, Names& names) {
    begin(op, names, "stablehlo.while", 0);
    for (std::size_t c = 0; c < 2; ++c) {
      const GraphFunction& callee = graph_.functions[at(op.functions[c])];
      Names inner(callee.values.size());
      text_ += c ? ", {\n" : " ({\n";
      for (std::size_t i = 0; i < callee.inputs.size(); ++i) {
        inner[at(callee.inputs[i])] = fresh();
        text_ +=
            (i ? ", " : " ^bb0(") + inner[at(callee.inputs[i])] + ": " + mlir_type(callee.value(callee.inputs[i]).type);
      }
      text_ += "):\n";
      body(at(op.functions[c]), inner);
      finish("stablehlo.return", callee, inner);
      text_ += " }";
    }
    text_ += ")";
    end(function, op, "mhlo.frontend_attributes = {place = \"" + config + "\"}", 0);
  }

  void branch(const GraphFunction& function, const Op& op, const std::string& config, Names& names) {
    const std::string which = fresh(), chosen = names[at(op.operands[0])];
    text_ += " " + which + " = \"stablehlo.custom_call\"(" + chosen + ") <{call_target_name = \"which\"}> : (" +
             mlir_type(function.value(op.operands[0]).type) + ") -> tensor<i32>\n";
    const std::string made = fresh();
    text_ += " " + made + (op.results.size() > 1 ? ":" + std::to_string(op.results.size()) : "") +
             " = \"stablehlo.case\"(" + which + ") (";
    for (std::size_t c = 0; c < op.functions.size(); ++c) {
      const GraphFunction& callee = graph_.functions[at(op.functions[c])];
      Names inner(callee.values.size());
      for (std::size_t i = 0; i < callee.inputs.size(); ++i)
        inner[at(callee.inputs[i])] = names[at(op.operands[i + 1])];
      text_ += c ? ", {\n" : "{\n";
      body(at(op.functions[c]), inner);
      finish("stablehlo.return", callee, inner);
      text_ += " }";
    }
    text_ += ")";
    const std::string sharding = given(function, op);
    text_ += " {mhlo.frontend_attributes = {place = \"" + config + "\"}" + (sharding.empty() ? "" : ", ") + sharding +
             "} : (tensor<i32>) -> (";
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      names[at(op.results[i])] = op.results.size() > 1 ? made + "#" + std::to_string(i) : made;
      text_ += (i ? ", " : "") + mlir_type(function.value(op.results[i]).type);
    }
    text_ += ")\n";
  }

  const Graph& graph_;
  std::string text_;
  int values_ = 0;
};

}  // namespace

std::string shardy_module(const Graph& graph) { return ShardyWriter(graph).module(); }

}  // namespace tilesim::partitioning
