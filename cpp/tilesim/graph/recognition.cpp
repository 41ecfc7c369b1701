// Runs the passes that recognise, and puts what they find in place.
#include "tilesim/graph/recognition.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "tilesim/base/error.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim {

namespace recognition {

namespace {

/// "multiply, erf, add": the operations of a part but constants and movements, each once.
std::string described(const std::vector<const Op*>& ops) {
  std::vector<std::string> names;
  std::size_t more = 0;
  for (const Op* op : ops) {
    if (op->kind == Kind::constant) continue;
    const std::string name =
        op->kind == Kind::elementwise ? op->attributes.text("function") : std::string(info(op->kind).name);
    if (std::ranges::find(names, name) != names.end()) continue;
    if (names.size() < 8) {
      names.push_back(name);
    } else {
      ++more;
    }
  }
  return join(names) + (more > 0 ? ", .." : "");
}

struct Pass {
  std::string_view name;
  Matcher matcher;
};

/// In the order in which they build on each other.
constexpr Pass patterns[] = {
    {"transposes", match_transposed_product},
    {"quantized_pairs", match_quantized_pair},
    {"integer_products", match_integer_product},
    {"activations", match_activation},
    {"gates", match_gate},
    {"softmax", match_softmax},
    {"normalize", match_normalize},
    {"rotary", match_rotary},
    {"attention", match_attention},
    {"grouped_heads", match_grouped_heads},
};

/// Index of the operation that gives a value.
std::size_t place_of(const GraphFunction& function, ValueId value) {
  const auto found = std::ranges::find_if(
      function.ops, [&](const Op& op) { return std::ranges::find(op.results, value) != op.results.end(); });
  return static_cast<std::size_t>(found - function.ops.begin());
}

/// The same with each leaf once.
Candidate distinct(Candidate candidate) {
  Values leaves;
  std::vector<std::size_t> places;
  for (const ValueId leaf : candidate.leaves) {
    const auto found = std::ranges::find(leaves, leaf);
    places.push_back(static_cast<std::size_t>(found - leaves.begin()));
    if (found == leaves.end()) leaves.push_back(leaf);
  }
  if (leaves.size() == candidate.leaves.size()) return candidate;
  candidate.leaves = leaves;
  candidate.build = [places, build = candidate.build](Builder& builder, const Values& given) {
    Values all;
    for (const std::size_t place : places) all.push_back(given[place]);
    return build(builder, all);
  };
  return candidate;
}

/// From the last operation to the first, so that the largest pattern around a value is found first.
void apply(Graph& graph, std::size_t number, const Pass& pass, Checker& checker, std::vector<Change>& changes) {
  GraphFunction& function = graph.functions[number];
  edit::sweep_dead(function);
  auto reader = std::make_unique<Reader>(graph, function);
  for (std::size_t i = function.ops.size(); i-- > 0;) {
    for (const Candidate& found : pass.matcher(*reader, function.ops[i])) {
      const Candidate candidate = distinct(found);
      if (!checker.refusal(*reader, candidate).empty()) continue;
      const Op& op = function.ops[i];
      const auto ops = cone(*reader, candidate);
      changes.push_back({std::string(pass.name), function.name, op.name, described(*ops), candidate.after, op.source});
      replace(graph, function, candidate);
      edit::sweep_dead(function);
      i = std::min(place_of(function, candidate.root), function.ops.size() - 1);
      reader = std::make_unique<Reader>(graph, function);
      break;
    }
  }
  edit::drop_unused_values(function);
}

bool same_elements(const Weight& a, const Weight& b) {
  return a.type == b.type && a.source == Weight::Source::data && b.source == Weight::Source::data &&
         a.data.size() == 1 && b.data.size() == 1 && a.data.at(0) == b.data.at(0) && a.trainable == b.trainable;
}

}  // namespace

void replace(Graph& graph, GraphFunction& function, const Candidate& candidate) {
  std::vector<TensorType> types;
  for (const ValueId leaf : candidate.leaves) types.push_back(function.value(leaf).type);
  const Graph made = replacement(candidate, types);
  const GraphFunction& body = made.functions[0];
  const std::size_t place = place_of(function, candidate.root);
  const Op old = function.ops[place];
  if (body.ops.size() == 1 && body.ops[0].kind == Kind::copy) {
    const ValueId leaf =
        candidate.leaves[at(std::ranges::find(body.inputs, body.ops[0].operands[0]) - body.inputs.begin())];
    if (edit::redirect(function, candidate.root, leaf)) return;
    Op copy = old;  // an output that would be an input
    copy.kind = Kind::copy;
    copy.attributes = {};
    copy.operands = {leaf};
    function.ops[place] = copy;
    return;
  }
  std::vector<ValueId> renumbered(body.values.size(), no_value);
  for (std::size_t i = 0; i < candidate.leaves.size(); ++i) renumbered[at(body.inputs[i])] = candidate.leaves[i];
  renumbered[at(body.outputs[0])] = candidate.root;
  std::vector<Op> ops;
  for (const Op& part : body.ops) {
    Op op = part;
    const bool last = part.results[0] == body.outputs[0];
    op.name = last ? old.name : edit::fresh_name(function, old.name + "." + part.name);
    op.source = old.source;
    if (op.kind == Kind::constant) {
      const std::string& reference = part.attributes.text("reference");
      const Weight& weight = made.weights.at(reference);
      std::string name = reference;
      if (const auto found = graph.weights.find(name);
          found == graph.weights.end() || !same_elements(found->second, weight)) {
        name = edit::fresh_weight(graph, reference);
        graph.weights.emplace(name, weight);
      }
      op.attributes.set("reference", name);
    }
    for (ValueId& id : op.operands)
      if (id != no_value) id = renumbered[at(id)];
    for (ValueId& id : op.results) {
      if (renumbered[at(id)] == no_value) {
        function.values.push_back({op.name, body.value(id).type});
        renumbered[at(id)] = static_cast<ValueId>(function.values.size()) - 1;
      }
      id = renumbered[at(id)];
    }
    ops.push_back(std::move(op));
  }
  function.ops.erase(function.ops.begin() + static_cast<std::ptrdiff_t>(place));
  function.ops.insert(function.ops.begin() + static_cast<std::ptrdiff_t>(place), ops.begin(), ops.end());
}

}  // namespace recognition

std::vector<std::string> recognition_passes() {
  std::vector<std::string> names{"constants", "no_ops", "common_subexpressions"};
  for (const recognition::Pass& pass : recognition::patterns) names.emplace_back(pass.name);
  names.insert(names.end(), {"known_masks", "layers"});
  return names;
}

std::vector<Change> recognise(Graph& graph, const Evaluator& evaluate, const std::vector<std::string>& passes) {
  const std::vector<std::string> known = recognition_passes();
  for (const std::string& name : passes)
    if (std::ranges::find(known, name) == known.end())
      throw UserError({"unknown pass", {}, "'" + name + "'", join(known), nearest(name, known)});
  const auto wanted = [&](std::string_view name) { return std::ranges::find(passes, name) != passes.end(); };
  std::vector<Change> changes;
  constexpr std::int64_t small = 4096;  // elements: numbers that a pattern is told by, and tables of positions
  const auto general = [&](const char* name, int count, const char* after) {
    if (count > 0) changes.push_back({name, graph.entry().name, "", std::to_string(count) + " operations", after, ""});
  };
  if (wanted("constants")) general("constants", fold_constants(graph, evaluate, small, false), "their values");
  if (wanted("no_ops")) general("no_ops", remove_no_ops(graph), "their operands");
  if (wanted("common_subexpressions"))
    general("common_subexpressions", merge_common_subexpressions(graph), "equal ones before them");
  const std::size_t simplified = changes.size();
  recognition::Checker checker(evaluate);
  for (const recognition::Pass& pass : recognition::patterns) {
    if (!wanted(pass.name)) continue;
    for (std::size_t f = 0; f < graph.functions.size(); ++f) {
      constexpr int rounds = 4;  // what was found makes room for more: a scale behind a normalization
      for (int round = 0; round < rounds; ++round) {
        const std::size_t before = changes.size();
        recognition::apply(graph, f, pass, checker, changes);
        if (changes.size() == before) break;
      }
    }
  }
  if (wanted("known_masks")) recognition::known_masks(graph, evaluate, changes);
  if (wanted("layers")) recognition::repeated_layers(graph, changes);
  if (changes.size() > simplified) {
    if (wanted("no_ops")) remove_no_ops(graph);
    if (wanted("common_subexpressions")) merge_common_subexpressions(graph);
  }
  if (!changes.empty()) {
    remove_dead_code(graph);
    check(graph);
  }
  return changes;
}

}  // namespace tilesim
