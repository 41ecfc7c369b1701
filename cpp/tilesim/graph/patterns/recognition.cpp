// Runs the recognition passes, and applies their replacements.
#include "tilesim/graph/patterns/recognition.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim {

namespace recognition {

namespace {

/// "multiply, erf, add": the functions of a part, each once, without constants and movements.
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
  return tilesim::join(names) + (more > 0 ? ", .." : "");
}

struct Pass {
  std::string_view name;
  Matcher matcher;
};

/// In order of dependence: later patterns contain earlier ones.
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

/// The candidate with each leaf once.
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

/// Visits operations from last to first, to find the largest pattern that contains a value first.
void apply(Graph& graph, std::size_t number, const Pass& pass, Checker& checker, std::vector<Change>& changes) {
  GraphFunction& function = graph.functions[number];
  edit::sweep_dead(function);
  Edits edits(graph, function);
  for (std::size_t i = function.ops.size(); i-- > 0;) {
    worked(1024);
    if (edits.reader().dead(function.ops[i])) continue;
    for (const Candidate& found : pass.matcher(edits.reader(), function.ops[i])) {
      const Candidate candidate = distinct(found);
      const auto ops = cone(edits.reader(), candidate);
      if (!ops || !checker.refusal(edits.reader(), pass.name, candidate, *ops).empty()) continue;
      const Op& op = function.ops[i];
      changes.push_back({std::string(pass.name), function.name, op.name, described(*ops), candidate.after, op.source});
      edits.replace(i, candidate);
      break;
    }
  }
  edits.commit();
  edit::order_values(function);
}

}  // namespace

}  // namespace recognition

std::vector<std::string> recognition_passes() {
  std::vector<std::string> names{"constants", "no_ops", "common_subexpressions"};
  for (const recognition::Pass& pass : recognition::patterns) names.emplace_back(pass.name);
  names.insert(names.end(), {"length_masks", "known_masks", "indices", "layers"});
  return names;
}

std::vector<std::string> recognised_functions() { return recognition::spelled_functions(); }

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
  if (wanted("length_masks")) recognition::length_masks(graph, changes);
  if (wanted("known_masks")) recognition::known_masks(graph, evaluate, changes);
  if (wanted("indices")) recognition::affine_indices(graph, evaluate, changes);
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
