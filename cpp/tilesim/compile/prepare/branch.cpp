// branch: a known choice becomes a call of that side. Otherwise every side is computed and a select picks the result:
// no jump is needed, the cost is the sum of all sides, and the program gets a note.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/prepare/prepare.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim::lower {

namespace {

bool pure(const Graph& graph, std::int32_t function) {
  return std::ranges::all_of(graph.functions[at(function)].ops, [&](const Op& op) {
    return info(op.kind).effect == Effect::pure &&
           std::ranges::all_of(op.functions, [&](std::int32_t callee) { return pure(graph, callee); });
  });
}

/// Rewrites one function operation by operation.
class Chooser {
 public:
  Chooser(Graph& graph, GraphFunction& function, std::vector<std::string>& notes)
      : graph_(graph), function_(function), notes_(notes), names_(function) {}

  void run() {
    std::vector<Op> ops = std::move(function_.ops);
    function_.ops.clear();
    for (Op& op : ops) {
      see(op);
      if (op.kind != Kind::branch)
        function_.ops.push_back(std::move(op));
      else if (const auto known = number(op.operands[0]))
        call(op, chosen(op, *known), op.results, op.name);
      else
        compute_all(op);
    }
  }

 private:
  /// The constant value of a one-element value, if known.
  std::optional<double> number(ValueId value) const {
    const auto found = constants_.find(value);
    if (found == constants_.end()) return std::nullopt;
    const Weight& weight = graph_.weights.at(found->second);
    const bool known = weight.source == Weight::Source::data && weight.data.size() == 1;
    return known ? std::optional<double>(weight.data.at(0)) : std::nullopt;
  }

  /// Records the weight of each constant, and of reshapes of constants.
  void see(const Op& op) {
    if (op.kind == Kind::constant) constants_.emplace(op.results[0], op.attributes.text("reference"));
    if (op.kind != Kind::reshape) return;
    if (const auto found = constants_.find(op.operands[0]); found != constants_.end())
      constants_.emplace(op.results[0], found->second);
  }

  ValueId new_value(const std::string& stem, const TensorType& type) {
    function_.values.push_back({names_.taken(stem), type});
    return static_cast<ValueId>(function_.values.size()) - 1;
  }

  static std::size_t last_of(const Op& op) { return op.functions.size() - 1; }

  std::size_t chosen(const Op& op, double number) const {
    if (function_.value(op.operands[0]).type.dtype == DType::boolean) return number != 0 ? 0 : 1;
    return number < 0 || number > static_cast<double>(last_of(op)) ? last_of(op) : static_cast<std::size_t>(number);
  }

  void call(const Op& op, std::size_t side, std::vector<ValueId> results, const std::string& name) {
    Op made;
    made.kind = Kind::call;
    made.name = name;
    made.source = op.source;
    made.functions = {op.functions[side]};
    made.operands.assign(op.operands.begin() + 1, op.operands.end());
    made.results = std::move(results);
    function_.ops.push_back(std::move(made));
  }

  ValueId add(const Op& op, Function function, std::vector<ValueId> operands, ValueId result) {
    Op made;
    made.kind = Kind::elementwise;
    made.name = function_.value(result).name;
    made.source = op.source;
    made.attributes.set("function", std::string(info(function).name));
    made.operands = std::move(operands);
    made.results = {result};
    function_.ops.push_back(std::move(made));
    return result;
  }

  /// The condition which == side, or `which` itself if it is a boolean.
  ValueId condition(const Op& op, std::size_t side) {
    const ValueId which = op.operands[0];
    const DType dtype = function_.value(which).type.dtype;
    if (dtype == DType::boolean) return which;
    Array wide(DType::i64, {});
    wide.as<std::int64_t>()[0] = static_cast<std::int64_t>(side);
    Weight weight;
    weight.type = {dtype, {}};
    weight.source = Weight::Source::data;
    weight.data = wide.to(dtype);
    weight.trainable = false;
    const std::string reference = op.name + ".number" + std::to_string(side);
    graph_.weights.insert_or_assign(reference, std::move(weight));
    Op constant;
    constant.kind = Kind::constant;
    constant.name = reference;
    constant.attributes.set("reference", reference);
    constant.results = {new_value(reference, {dtype, {}})};
    const ValueId number = constant.results[0];
    function_.ops.push_back(std::move(constant));
    const ValueId is = new_value(op.name + ".is" + std::to_string(side), {DType::boolean, {}});
    return add(op, Function::equal, {which, number}, is);
  }

  void compute_all(const Op& op) {
    for (const std::int32_t side : op.functions)
      if (!pure(graph_, side))
        throw CannotRun(op, Lack::effect,
                        {"branch: a side has a side effect, so it cannot run unless it is chosen", op.name,
                         "function \"" + graph_.functions[at(side)].name + "\"",
                         "sides without random numbers, "
                         "state and collectives",
                         ""});
    notes_.push_back(op.name + ": all " + std::to_string(op.functions.size()) +
                     " sides are computed and one result is selected, because the choice depends on data");
    std::vector<std::vector<ValueId>> found;
    for (std::size_t side = 0; side < op.functions.size(); ++side) {
      const std::string name = op.name + ".side" + std::to_string(side);
      std::vector<ValueId> results;
      for (const ValueId result : op.results) results.push_back(new_value(name, function_.value(result).type));
      call(op, side, results, name);
      found.push_back(std::move(results));
    }
    std::vector<ValueId> taken = found.back();
    for (std::size_t left = last_of(op); left-- > 0;) {
      const ValueId is = condition(op, left);
      for (std::size_t i = 0; i < op.results.size(); ++i) {
        const TensorType type = function_.value(op.results[i]).type;
        const ValueId to = left == 0 ? op.results[i] : new_value(op.name + ".taken", type);
        taken[i] = add(op, Function::select, {is, found[left][i], taken[i]}, to);
      }
    }
  }

  Graph& graph_;
  GraphFunction& function_;
  std::vector<std::string>& notes_;
  edit::Names names_;
  std::unordered_map<ValueId, std::string> constants_;  ///< names of weights, by value
};

}  // namespace

void choose_branches(Graph& graph, std::vector<std::string>& notes) {
  for (GraphFunction& function : graph.functions) {
    const auto is_branch = [](const Op& op) { return op.kind == Kind::branch; };
    if (std::ranges::any_of(function.ops, is_branch)) Chooser(graph, function, notes).run();
  }
}

}  // namespace tilesim::lower
