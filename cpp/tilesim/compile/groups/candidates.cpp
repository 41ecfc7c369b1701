// Every group that a rule looked at, with its price.
#include <algorithm>
#include <map>
#include <set>

#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

void Grouping::taken(Rule rule, int kernel, int op) {
  for (Looked& looked : looked_)
    if (looked.kernel == kernel && looked.rule == rule && looked.decision == "taken") {
      looked.ops.push_back(op);
      return;
    }
  looked_.push_back({rule, kernel, {op}, "taken", {}});
}

void Grouping::refused(Rule rule, int kernel, int op, std::string reason) {
  looked_.push_back({rule, kernel, {op}, "not legal", std::move(reason)});
}

void Grouping::refused(Rule rule, int kernel, int op, const Apart& why) {
  looked_.push_back({rule, kernel, {op}, why.by_price ? "not worth it" : "not legal", why.reason});
}

/// The group of a rule that was taken: what it added, and the product that it was added to. Of one that was not: the
/// kernel as it is, and the operation that did not join.
FusionCandidate Grouping::priced(const Looked& looked, const GroupPrice& price) const {
  FusionCandidate row;
  const bool took = looked.decision == "taken";
  const std::vector<int>& whole = kernel_ops_[index(looked.kernel)];
  const int anchor = graph_.kernels[index(looked.kernel)].anchor;
  std::set<int> group(looked.ops.begin(), looked.ops.end());
  if (took && anchor >= 0) group.insert(anchor);
  if (!took || anchor < 0) group.insert(whole.begin(), whole.end());
  const std::vector<int> all(group.begin(), group.end());
  GroupPrice::Price saved = price.saved(all);
  if (!took) saved -= price.saved(whole);
  row.bytes_saved = saved.bytes, row.cycles_saved = saved.cycles;
  for (int i : all) {
    row.operations.push_back(op(i).name);
    if (looked.rule == Rule::recompute || looked.rule == Rule::prologue)
      if (took && !owned_by(i, graph_.kernels[index(looked.kernel)])) row.recomputed_flops += price.flops(i);
  }
  row.candidate = (context_.graph.entry().name == function_.name ? "" : function_.name + ".") + name_of(looked.kernel);
  row.rule = info(looked.rule).name;
  row.decision = looked.decision, row.reason = looked.reason;
  return row;
}

std::string Grouping::name_of(int kernel) const { return names_[index(kernel)]; }

std::vector<FusionCandidate> Grouping::candidates() const {
  const GroupPrice price(context_, uses_);
  std::vector<FusionCandidate> rows;
  for (const Looked& looked : looked_)
    if (!kernel_ops_[index(looked.kernel)].empty()) rows.push_back(priced(looked, price));
  return rows;
}

}  // namespace tilesim::lower
