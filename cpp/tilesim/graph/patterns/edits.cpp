// Applies replacements. They are collected and applied together, so that a function is traversed once for any number of
// replacements; the reader is kept up to date.
#include <algorithm>

#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

bool same_elements(const Weight& a, const Weight& b) {
  return a.type == b.type && a.source == Weight::Source::data && b.source == Weight::Source::data &&
         a.data.size() == 1 && b.data.size() == 1 && a.data.at(0) == b.data.at(0) && a.trainable == b.trainable;
}

}  // namespace

Edits::Edits(Graph& graph, GraphFunction& function) : graph_(graph), function_(function) { restart(); }

void Edits::restart() {
  rewritten_.clear();
  redirects_ = std::make_unique<edit::Redirects>(function_);
  reader_ = std::make_unique<Reader>(graph_, function_);
  names_.clear();
  for (const Value& value : function_.values) names_.insert(value.name);
  for (const Op& op : function_.ops) names_.insert(op.name);
}

std::string Edits::fresh_name(const std::string& stem) {
  std::string name = stem;
  for (int i = 1; !names_.insert(name).second; ++i) name = stem + "." + std::to_string(i);
  return name;
}

/// Copies a constant of the replacement into this graph under a new name.
void Edits::take_weight(Op& op, const Graph& made) {
  const std::string& reference = op.attributes.text("reference");
  const Weight& weight = made.weights.at(reference);
  std::string name = reference;
  if (const auto found = graph_.weights.find(name);
      found == graph_.weights.end() || !same_elements(found->second, weight)) {
    name = edit::fresh_weight(graph_, reference);
    graph_.weights.emplace(name, weight);
  }
  op.attributes.set("reference", name);
}

void Edits::replace(std::size_t place, const Candidate& candidate) {
  std::vector<TensorType> types;
  for (const ValueId leaf : candidate.leaves) types.push_back(function_.value(leaf).type);
  const Graph made = replacement(candidate, types);
  const GraphFunction& body = made.functions[0];
  if (body.ops.size() == 1 && body.ops[0].kind == Kind::copy) {
    const auto leaf = std::ranges::find(body.inputs, body.ops[0].operands[0]) - body.inputs.begin();
    return redirect(place, candidate.root, candidate.leaves[at(leaf)]);
  }
  const Op old = function_.ops[place];
  std::vector<ValueId> renumbered(body.values.size(), no_value);
  for (std::size_t i = 0; i < candidate.leaves.size(); ++i) renumbered[at(body.inputs[i])] = candidate.leaves[i];
  renumbered[at(body.outputs[0])] = candidate.root;
  std::vector<Op> ops;
  for (const Op& part : body.ops) {
    Op op = part;
    const bool last = part.results[0] == body.outputs[0];
    op.name = last ? old.name : fresh_name(old.name + "." + part.name);
    op.source = old.source;
    if (op.kind == Kind::constant) take_weight(op, made);
    for (ValueId& id : op.operands)
      if (id != no_value) id = renumbered[at(id)];
    for (ValueId& id : op.results) {
      if (renumbered[at(id)] == no_value) {
        function_.values.push_back({op.name, body.value(id).type});
        renumbered[at(id)] = static_cast<ValueId>(function_.values.size()) - 1;
      }
      id = renumbered[at(id)];
    }
    ops.push_back(std::move(op));
  }
  const std::vector<Op>& kept = rewritten_[place] = std::move(ops);
  reader_->replace(place, kept);
}

/// Lets the readers of the root read another value; inserts a copy if an output would become an input.
void Edits::redirect(std::size_t place, ValueId root, ValueId leaf) {
  if (redirects_->add(function_, root, leaf)) return reader_->redirect(place, root, leaf);
  Op copy;
  copy.kind = Kind::copy;
  copy.name = function_.ops[place].name;
  copy.source = function_.ops[place].source;
  copy.operands = {leaf};
  copy.results = {root};
  const std::vector<Op>& kept = rewritten_[place] = {std::move(copy)};
  reader_->replace(place, kept);
}

void Edits::commit() {
  std::vector<Op> ops;
  for (std::size_t i = 0; i < function_.ops.size(); ++i) {
    const auto found = rewritten_.find(i);
    if (found == rewritten_.end()) {
      if (!reader_->dead(function_.ops[i])) ops.push_back(std::move(function_.ops[i]));
      continue;
    }
    std::ranges::move(found->second, std::back_inserter(ops));
  }
  function_.ops = std::move(ops);
  for (Op& op : function_.ops) redirects_->rewrite(op.operands);
  redirects_->rewrite(function_.outputs);
  edit::sweep_dead(function_);
  restart();
}

}  // namespace tilesim::recognition
