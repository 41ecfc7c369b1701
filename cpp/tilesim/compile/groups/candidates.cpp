// Lists every group that a rule considered, with its estimate.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

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

/// Prices a considered group. For a taken group: the added operations and the product that they joined. For a rejected
/// one: the whole kernel and the operation that did not join.
FusionCandidate Grouping::priced(const Looked& looked, const GroupPrice& price) const {
  FusionCandidate row;
  const bool took = looked.decision == "taken";
  const std::vector<int>& whole = kernel_ops_[index(looked.kernel)];
  const int anchor = graph_.kernels[index(looked.kernel)].anchor;
  std::set<int> group(looked.ops.begin(), looked.ops.end());
  if (took && anchor >= 0) group.insert(anchor);
  if (!took || anchor < 0) group.insert(whole.begin(), whole.end());
  const std::vector<Kernel::SiblingProduct>& parts = kernel_parts_[index(looked.kernel)];
  const bool siblings = took && looked.rule == Rule::sibling_products;
  if (siblings)
    for (const Kernel::SiblingProduct& part : parts) group.insert(part.ops.begin(), part.ops.end());
  const std::vector<int> all(group.begin(), group.end());
  GroupPrice::Price saved = siblings ? GroupPrice::Price{} : price.saved(all);
  if (siblings) {
    for (const Kernel::SiblingProduct& part : parts) saved += price.price_of(part.ops);
    saved -= price.price_of(all);
  }
  if (!took) saved -= price.saved(whole);
  row.bytes_saved = saved.bytes, row.cycles_saved = saved.cycles;
  for (int i : all) {
    row.operations.push_back(op(i).name);
    if (!took || (looked.rule != Rule::recompute && looked.rule != Rule::prologue) || i == anchor) continue;
    const auto times = std::count_if(kernel_ops_.begin(), kernel_ops_.end(), [&](const std::vector<int>& ops) {
      return std::binary_search(ops.begin(), ops.end(), i);
    });
    row.recomputed_flops += price.flops(i) * (1 - 1 / static_cast<double>(times));
  }
  row.candidate = (context_.graph.entry().name == function_.name ? "" : function_.name + ".") + name_of(looked.kernel);
  row.rule = info(looked.rule).name;
  row.decision = looked.decision, row.reason = looked.reason;
  return row;
}

/// A key of the operation: its function, the types and other readers of its operands, and the readers of its result.
std::string Grouping::surroundings(int i) const {
  std::string text = op(i).attributes.text("function", "other");
  const int kernel = graph_.owner[index(i)];
  for (ValueId operand : op(i).operands) {
    const int producer = uses_.producer[index(operand)], made_by = producer < 0 ? -1 : graph_.owner[index(producer)];
    text += " " + tilesim::to_string(context_.value(operand).type) + (made_by == kernel ? "own" : "");
    for (int reader : uses_.consumers[index(operand)]) text += "," + std::string(tilesim::info(op(reader).kind).name);
  }
  for (int reader : uses_.consumers[index(op(i).results[0])])
    text +=
        ";" + std::string(tilesim::info(op(reader).kind).name) + (graph_.owner[index(reader)] == kernel ? "own" : "");
  return text;
}

namespace {

/// Rank of a rule in the search for cuts; rank 0 (rules that cause repeated reads) is tried first. -1: not searched.
int doubt_of(Rule rule) {
  if (rule == Rule::epilogue || rule == Rule::siblings) return 0;
  if (rule == Rule::prologue) return 1;
  return rule == Rule::rows || rule == Rule::elementwise || rule == Rule::branches ? 2 : -1;
}

}  // namespace

std::vector<Cut> Grouping::doubtful() const {
  std::map<std::tuple<int, Rule, std::string>, std::vector<int>> alike;
  for (const Looked& looked : looked_) {
    const int rank = doubt_of(looked.rule);
    if (rank < 0 || looked.decision != "taken") continue;
    for (int i : looked.ops) {
      if (op(i).results.empty() || is_product(op(i).kind)) continue;
      const Shape& own = shape(op(i).results[0]);
      const auto whole = [&](ValueId value) {
        const int producer = value == no_value ? -1 : uses_.producer[index(value)];
        return value != no_value && shape(value) == own &&
               (producer < 0 || graph_.owner[index(producer)] != looked.kernel);
      };
      const std::vector<int>& readers = uses_.consumers[index(op(i).results[0])];
      const bool read = std::any_of(readers.begin(), readers.end(), [&](int reader) {
        return graph_.owner[index(reader)] != looked.kernel && is_vector_kind(op(reader).kind);
      });
      if (looked.rule != Rule::epilogue || read || std::any_of(op(i).operands.begin(), op(i).operands.end(), whole))
        alike[{rank, looked.rule, surroundings(i)}].push_back(i);
    }
  }
  std::vector<std::pair<int, Cut>> ranked;
  for (auto& [key, ops] : alike) ranked.push_back({std::get<0>(key), {std::get<1>(key), std::move(ops)}});
  std::ranges::stable_sort(ranked, {}, [](const auto& one) { return std::pair{one.first, one.second.ops}; });
  std::vector<Cut> found;
  for (auto& [rank, cut] : ranked) found.push_back(std::move(cut));
  return found;
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
