// Groups a function's operations into kernels: the operations, the values that each kernel reads and stores, the order.
#include "tilesim/compile/groups/grouping.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/groups/chains.hpp"
#include "tilesim/compile/groups/groups.hpp"
#include "tilesim/compile/groups/moving.hpp"
#include "tilesim/compile/groups/order.hpp"

namespace tilesim::lower {

Grouping::Grouping(Context& context, const FusionRules& rules, const KeptApart& kept_apart, const Uses& uses,
                   const Views& views, const Cuts& cuts)
    : context_(context),
      function_(context.function),
      rules_(rules),
      kept_apart_(kept_apart),
      uses_(uses),
      views_(views),
      cuts_(cuts),
      graph_(function_, uses) {}

std::vector<Kernel> Grouping::run() {
  for (int i = 0; i < count(); ++i)
    if (is_product(op(i).kind))
      make_product(i);
    else if (op(i).kind == Kind::ragged_contract)
      graph_.add(Family::product, i);
  for (int i = 0; i < count(); ++i) {
    if (context_.options.cancel) context_.options.cancel->poll();
    if (graph_.owner[index(i)] < 0 && is_vector_kind(op(i).kind) && !scalar(op(i).results[0])) place_vector(i);
  }
  feed_products();
  join_siblings();
  for (int i = 0; i < count(); ++i)
    if (graph_.owner[index(i)] < 0 && needs_movement(i))
      graph_.add(runs_functions(op(i).kind) ? Family::call : Family::movement, i);
  make_passes();
  for (Kernel& kernel : graph_.kernels) {
    if (!kernel.ops.empty()) finish(kernel);
    names_.push_back(kernel.name);
    kernel_ops_.push_back(kernel.ops);
    kernel_parts_.push_back(kernel.parts);
  }
  return ordered();
}

const Apart* Grouping::apart(ValueId value) const {
  const auto found = kept_apart_.find(context_.value(value).name);
  return found == kept_apart_.end() ? nullptr : &found->second;
}

/// The reason why the search for cuts excludes the operation from the rule; empty: not excluded.
std::optional<Apart> Grouping::cut(Rule rule, int op) const {
  auto found = cuts_.find({rule, op});
  if (found == cuts_.end()) found = cuts_.find({rule, -1});
  if (found == cuts_.end()) return std::nullopt;
  return Apart{true, found->second};
}

/// Whether the operation is a movement kernel. Views and constants are not; placement.cpp decides which ones are views.
bool Grouping::needs_movement(int i) const {
  const Op& candidate = op(i);
  if (candidate.kind == Kind::constant) return false;
  const KindInfo& kind = tilesim::info(candidate.kind);
  if (kind.movement) return !views_.view[index(i)] && candidate.kind != Kind::iota;
  return !is_vector_kind(candidate.kind) && !is_product(candidate.kind);
}

/// Sets the kernel's inputs, outputs and name.
void Grouping::finish(Kernel& kernel) {
  std::sort(kernel.ops.begin(), kernel.ops.end());
  const std::set<int> members(kernel.ops.begin(), kernel.ops.end());
  std::set<ValueId> inputs;
  for (int member : kernel.ops) {
    for (ValueId operand : op(member).operands) {
      if (operand == no_value || scalar(operand)) continue;
      const int producer = uses_.producer[index(operand)];
      if (producer < 0 || !members.count(producer)) inputs.insert(operand);
    }
    for (ValueId result : op(member).results) {
      if (result == no_value || !owned_by(member, kernel)) continue;  // recomputed by the kernel
      const bool read = read_outside(result, member, members);
      const bool bound = kernel.family == Family::call && op(member).kind != Kind::while_loop;
      if (read || bound) kernel.outputs.push_back(result);  // a called function stores all its outputs
    }
  }
  kernel.inputs.assign(inputs.begin(), inputs.end());
  kernel.name = op(kernel.anchor >= 0 ? kernel.anchor : kernel.ops.back()).name;
  if (kernel.outputs.empty()) {
    const ValueId last = op(kernel.ops.back()).results[0];
    kernel.outputs.push_back(last);
  }
}

bool Grouping::owned_by(int member, const Kernel& kernel) const {
  const int owner = graph_.owner[index(member)];
  return owner >= 0 && &graph_.kernels[index(owner)] == &kernel;
}

/// By operation: the kernel that computes its results; views inherit the kernel of their operand.
std::vector<int> Grouping::sources() const {
  std::vector<int> result(graph_.owner);
  for (int i = 0; i < count(); ++i)
    for (ValueId operand : op(i).operands)
      if (result[index(i)] < 0 && operand != no_value && uses_.producer[index(operand)] >= 0)
        result[index(i)] = result[index(uses_.producer[index(operand)])];
  return result;
}

std::vector<Kernel> Grouping::ordered() {
  const std::vector<int> made_by = sources();
  std::vector<int> waits(graph_.kernels.size(), 0);
  std::vector<std::set<int>> next(graph_.kernels.size());
  for (int k = 0; k < static_cast<int>(graph_.kernels.size()); ++k)
    for (ValueId input : graph_.kernels[index(k)].inputs) {
      const int producer = uses_.producer[index(input)], source = producer < 0 ? -1 : made_by[index(producer)];
      if (source >= 0 && source != k && next[index(source)].insert(k).second) ++waits[index(k)];
    }
  std::set<std::pair<int, int>> ready;  // ordered by last operation, for a stable order
  for (int k = 0; k < static_cast<int>(graph_.kernels.size()); ++k)
    if (waits[index(k)] == 0 && !kernel_ops_[index(k)].empty()) ready.insert({kernel_ops_[index(k)].back(), k});
  std::vector<Kernel> result;
  while (!ready.empty()) {
    const int k = ready.begin()->second;
    ready.erase(ready.begin());
    result.push_back(std::move(graph_.kernels[index(k)]));
    for (int other : next[index(k)])
      if (--waits[index(other)] == 0) ready.insert({kernel_ops_[index(other)].back(), other});
  }
  const auto merged =
      std::count_if(kernel_ops_.begin(), kernel_ops_.end(), [](const auto& ops) { return ops.empty(); });
  require(result.size() + static_cast<std::size_t>(merged) == graph_.kernels.size(),
          "kernels of a function depend on each other in a cycle");
  return result;
}

namespace {

/// Throws InternalError if a kernel reads a value without a tensor.
void require_places(const Context& context, const std::vector<Kernel>& kernels) {
  for (const Kernel& kernel : kernels)
    for (const ValueId input : kernel.inputs)
      if (!context.placed(input) && !context.counters.count(input))
        throw InternalError("the kernel \"" + kernel.name + "\" reads \"" + context.value(input).name +
                            "\", which has neither a tensor nor a number");
}

}  // namespace

std::vector<Kernel> plan_function(Context& context, const FusionRules& rules, const std::string& prefix,
                                  const std::map<ValueId, std::string>& boundary, const KeptApart& kept_apart,
                                  bool is_main, std::vector<FusionCandidate>* looked_at) {
  const Uses uses(context.function);
  const Views views = find_views(context, uses, is_main, rules.native ? nullptr : &context.machine);
  const auto grouped = [&](const Cuts& cuts) { return Grouping(context, rules, kept_apart, uses, views, cuts); };
  const Cuts cuts = rules.native ? Cuts{} : cheapest_cuts(grouped, Moving(context, uses, views), context);
  Grouping grouping = grouped(cuts);
  std::vector<Kernel> kernels = grouping.run();
  std::vector<FusionCandidate> chains;
  if (!rules.native && rules.has(Rule::chain)) chains = join_chains(kernels, context, uses, kept_apart);
  if (!rules.native) kernels = ordered_for_peak(std::move(kernels), context, uses, views);
  if (looked_at) *looked_at = grouping.candidates();
  if (looked_at) std::ranges::move(chains, std::back_inserter(*looked_at));
  place_values(context, rules.narrow_for_products, kernels, uses, views, prefix, boundary);
  require_places(context, kernels);
  return kernels;
}

}  // namespace tilesim::lower
