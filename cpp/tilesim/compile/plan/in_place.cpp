#include "tilesim/compile/plan/in_place.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::lower {

namespace {

const char* const marked_name = "in_place";  ///< attribute: pairs of result number and operand number

enum class RunAs : std::uint8_t { entry, called, body, other };

std::int64_t place(const std::vector<ValueId>& values, ValueId value) {
  const auto found = std::find(values.begin(), values.end(), value);
  return found == values.end() ? -1 : found - values.begin();
}

/// Facts on the values of a function.
struct FunctionFacts {
  RunAs role = RunAs::other;
  std::vector<int> readers;                            ///< by value; an output counts as a reader
  std::map<ValueId, std::pair<const Op*, int>> maker;  ///< by value: the operation, and the number of its result
};

class InPlace {
 public:
  explicit InPlace(Graph& graph) : graph_(graph), facts_(graph.functions.size()), pairs_(graph.functions.size()) {
    for (std::size_t i = 0; i < facts_.size(); ++i) facts_[i] = look(graph.functions[i]);
    facts_[at(graph.main)].role = RunAs::entry;
    std::set<std::int32_t> others;
    for (const GraphFunction& function : graph.functions)
      for (const Op& op : function.ops)
        for (std::size_t i = 0; i < op.functions.size(); ++i) {
          const bool body = op.kind == Kind::while_loop && i == 1;
          const RunAs role = op.kind == Kind::call ? RunAs::called : body ? RunAs::body : RunAs::other;
          RunAs& known = facts_[at(op.functions[i])].role;
          if (!others.insert(op.functions[i]).second && known != role)
            known = RunAs::other;
          else if (known != RunAs::entry)
            known = role;
        }
  }

  void run() {
    while (grow()) {
    }
    follow_aliases();
    while (shrink()) follow_aliases();
    for (std::size_t i = 0; i < graph_.functions.size(); ++i)
      for (Op& op : graph_.functions[i].ops) mark(i, op);
  }

 private:
  static FunctionFacts look(const GraphFunction& function) {
    FunctionFacts known;
    known.readers.assign(function.values.size(), 0);
    for (const ValueId output : function.outputs) ++known.readers[at(output)];
    for (const Op& op : function.ops) {
      for (const ValueId operand : op.operands)
        if (operand != no_value) ++known.readers[at(operand)];
      for (std::size_t i = 0; i < op.results.size(); ++i)
        if (op.results[i] != no_value) known.maker[op.results[i]] = {&op, static_cast<int>(i)};
    }
    return known;
  }

  const std::map<int, int>& pairs_of(const Op& call) const { return pairs_[at(call.functions[0])]; }

  /// The value that a result updates, if nothing else reads it; no_value: none.
  ValueId old(std::size_t function, ValueId result) const {
    const FunctionFacts& known = facts_[function];
    const auto made = known.maker.find(result);
    if (made == known.maker.end()) return no_value;
    const auto& [op, place] = made->second;
    ValueId value = no_value;
    if (op->kind == Kind::dynamic_update || (op->kind == Kind::scatter && known.role == RunAs::entry)) {
      value = op->operands[0];
    } else if (op->kind == Kind::call) {
      const auto pair = pairs_of(*op).find(place);
      if (pair != pairs_of(*op).end()) value = op->operands[at(pair->second)];
    } else if (op->kind == Kind::while_loop && carried(*op, at(place))) {
      value = op->operands[at(place)];
    }
    return value != no_value && known.readers[at(value)] == 1 ? value : no_value;
  }

  /// Whether a loop's body updates the state in place.
  bool carried(const Op& loop, std::size_t state) const {
    const auto index = at(loop.functions[1]);
    const GraphFunction& body = graph_.functions[index];
    return facts_[index].role == RunAs::body && old(index, body.outputs[state]) == body.inputs[state] &&
           facts_[index].readers[at(body.outputs[state])] >= 1 &&
           std::count(body.outputs.begin(), body.outputs.end(), body.outputs[state]) == 1;
  }

  /// Adds the called functions' outputs that update an input; returns whether there are new ones.
  bool grow() {
    bool changed = false;
    for (std::size_t i = 0; i < graph_.functions.size(); ++i) {
      if (facts_[i].role != RunAs::called) continue;
      const GraphFunction& function = graph_.functions[i];
      for (std::size_t o = 0; o < function.outputs.size(); ++o) {
        const ValueId output = function.outputs[o];
        if (std::count(function.outputs.begin(), function.outputs.end(), output) != 1) continue;
        const std::int64_t input = place(function.inputs, old(i, output));
        if (input >= 0) changed |= pairs_[i].emplace(static_cast<int>(o), static_cast<int>(input)).second;
      }
    }
    return changed;
  }

  /// Collects the entry function's values between an output and the state that the output aliases.
  void follow_aliases() {
    chained_.clear();
    const GraphFunction& entry = graph_.entry();
    for (const Alias& alias : entry.aliases) {
      const ValueId state = entry.inputs[at(alias.input)];
      std::vector<ValueId> chain;
      ValueId value = entry.outputs[at(alias.output)];
      if (std::count(entry.outputs.begin(), entry.outputs.end(), value) != 1) continue;
      for (; value != no_value && value != state; value = old(at(graph_.main), value)) chain.push_back(value);
      if (value == state) chained_.insert(chain.begin(), chain.end());
    }
  }

  /// Whether a result may reuse the bytes of the value that it updates.
  bool allowed(std::size_t function, ValueId result) const {
    const ValueId before = result == no_value ? no_value : old(function, result);
    if (before == no_value) return false;
    const GraphFunction& within = graph_.functions[function];
    const FunctionFacts& known = facts_[function];
    if (known.role == RunAs::entry && chained_.count(result)) return true;
    const std::int64_t output = place(within.outputs, result), input = place(within.inputs, before);
    if (output >= 0 && input >= 0 && known.role == RunAs::called) {
      const auto pair = pairs_[function].find(static_cast<int>(output));
      return pair != pairs_[function].end() && pair->second == input;
    }
    if (output >= 0 && input >= 0 && known.role == RunAs::body)
      return output == input && std::count(within.outputs.begin(), within.outputs.end(), result) == 1;
    const auto made = known.maker.find(before);
    if (output >= 0 || made == known.maker.end()) return false;
    const Kind kind = made->second.first->kind;  // results of these kinds have a separate tensor
    return kind == Kind::call || kind == Kind::dynamic_update || kind == Kind::scatter;
  }

  bool shrink() {
    bool changed = false;
    for (std::size_t i = 0; i < graph_.functions.size(); ++i) {
      const GraphFunction& function = graph_.functions[i];
      for (const Op& op : function.ops) {
        if (op.kind != Kind::call) continue;
        std::erase_if(pairs_[at(op.functions[0])], [&](const std::pair<const int, int>& pair) {
          const bool forbidden = !allowed(i, op.results[at(pair.first)]);
          changed |= forbidden;
          return forbidden;
        });
      }
      std::erase_if(pairs_[i], [&](const std::pair<const int, int>& pair) {
        const bool lost = old(i, function.outputs[at(pair.first)]) != function.inputs[at(pair.second)];
        changed |= lost;
        return lost;
      });
    }
    return changed;
  }

  void mark(std::size_t function, Op& op) const {
    if (op.kind != Kind::call && op.kind != Kind::dynamic_update && op.kind != Kind::scatter &&
        op.kind != Kind::while_loop)
      return;
    std::vector<std::int64_t> marked;
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      if (op.results[i] == no_value || !allowed(function, op.results[i])) continue;
      marked.push_back(static_cast<std::int64_t>(i));
      marked.push_back(place(op.operands, old(function, op.results[i])));
    }
    if (!marked.empty()) op.attributes.set(marked_name, std::move(marked));
  }

  Graph& graph_;
  std::vector<FunctionFacts> facts_;       ///< by function
  std::vector<std::map<int, int>> pairs_;  ///< by function: output number -> number of the input that it updates
  std::set<ValueId> chained_;              ///< values of the entry function, see follow_aliases
};

}  // namespace

void mark_in_place(Graph& graph) { InPlace(graph).run(); }

namespace {

/// The input of a function that a value updates, directly or through others; -1: none. Clears `in_place` at a copy.
std::int64_t updated_input(const Graph& graph, const GraphFunction& function, ValueId value, bool& in_place) {
  for (bool found = true; found;) {
    found = false;
    for (const Op& op : function.ops) {
      const std::int64_t result = place(op.results, value);
      if (result < 0) continue;
      std::int64_t operand = -1;
      bool within = true;
      if (op.kind == Kind::dynamic_update || op.kind == Kind::scatter) operand = 0;
      if (op.kind == Kind::call) {
        const GraphFunction& callee = graph.functions[at(op.functions[0])];
        operand = updated_input(graph, callee, callee.outputs[at(result)], within);
      }
      if (operand < 0) return -1;
      in_place &= old_value(op, value) == op.operands[at(operand)];
      value = op.operands[at(operand)];
      found = true;
      break;
    }
  }
  return place(function.inputs, value);
}

}  // namespace

std::vector<std::string> copied_states(const Graph& graph) {
  std::vector<std::string> copied;
  const GraphFunction& entry = graph.entry();
  for (const Alias& alias : entry.aliases) {
    const ValueId output = entry.outputs[at(alias.output)];
    bool in_place = true;
    if (updated_input(graph, entry, output, in_place) != alias.input || in_place) continue;
    const std::string& state = entry.value(entry.inputs[at(alias.input)]).name;
    copied.push_back(entry.value(output).name + ": the state \"" + state +
                     "\" is copied before it is updated: its old value, or that of another call, is read");
  }
  return copied;
}

ValueId old_value(const Op& op, ValueId result) {
  const std::vector<std::int64_t> marked = op.attributes.integers(marked_name, {});
  for (std::size_t i = 0; i + 1 < marked.size(); i += 2)
    if (op.results[at(marked[i])] == result) return op.operands[at(marked[i + 1])];
  return no_value;
}

std::vector<program::Tensor> owners_first(std::vector<program::Tensor> left) {
  std::set<std::string> names, done;
  for (const program::Tensor& tensor : left) names.insert(tensor.name);
  std::vector<program::Tensor> sorted;
  while (!left.empty()) {
    std::vector<program::Tensor> later;
    for (program::Tensor& tensor : left) {
      if (!tensor.alias_of.empty() && names.count(tensor.alias_of) && !done.count(tensor.alias_of)) {
        later.push_back(std::move(tensor));
        continue;
      }
      done.insert(tensor.name);
      sorted.push_back(std::move(tensor));
    }
    require(later.size() < left.size(), "tensors are aliases of each other");
    left = std::move(later);
  }
  return sorted;
}

}  // namespace tilesim::lower
