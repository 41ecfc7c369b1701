#include "tilesim/compile/kernels.hpp"

#include <algorithm>
#include <set>
#include <variant>

#include "tilesim/base/error.hpp"
#include "tilesim/compile/attention/attention.hpp"
#include "tilesim/compile/chain/chain.hpp"
#include "tilesim/mapping/cost.hpp"

namespace tilesim::lower {

bool tiled(const Kernel& kernel) { return kernel.family == Family::vector || kernel.family == Family::movement; }

bool is_given(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options) {
  if (tiled(kernel)) return options.vectors.count(kernel.name) > 0;
  return kernel.anchor >= 0 && options.mappings.count(function.ops[static_cast<std::size_t>(kernel.anchor)].name);
}

bool is_only(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options) {
  if (kernel.family == Family::call) return true;
  if (tiled(kernel)) return kernel.name == options.only;
  return function.ops[static_cast<std::size_t>(kernel.anchor)].name == options.only;
}

bool joined_already(const GraphFunction& function, const Kernel& kernel, const program::Statement& statement) {
  const auto* scope = std::get_if<program::Scope>(&statement.action);
  return scope && scope->body.empty() && function.ops[static_cast<std::size_t>(kernel.ops[0])].kind == Kind::concat;
}

bool take_apart(const GraphFunction& function, const Kernel& kernel, const Refusal& refused, const KeptApart& before,
                KeptApart& kept_apart) {
  const Apart why{refused.by_price, refused.text()};
  if (!kernel.parts.empty() && (refused.siblings || !refused.by_price)) {
    for (const Kernel::SiblingProduct& part : kernel.parts)
      kept_apart.products.try_emplace(function.ops[static_cast<std::size_t>(part.product)].name, why);
    return true;
  }
  std::set<ValueId> made;
  for (int op : kernel.ops)
    for (ValueId result : function.ops[static_cast<std::size_t>(op)].results) made.insert(result);
  bool changed = false;
  const auto keep = [&](ValueId value) {
    const std::string& name = function.value(value).name;
    if (before.contains(name)) return;
    kept_apart.try_emplace(name, why);
    changed = true;
  };
  for (int op : kernel.ops)
    if (kernel.anchor >= 0 && function.ops[static_cast<std::size_t>(op)].kind == Kind::reduce)
      for (ValueId operand : function.ops[static_cast<std::size_t>(op)].operands)
        if (made.count(operand)) keep(operand);
  if (changed) return true;
  if (kernel.anchor >= 0)
    for (ValueId operand : function.ops[static_cast<std::size_t>(kernel.anchor)].operands)
      if (made.count(operand)) keep(operand);
  if (changed || kernel.ops.size() < 2) return changed;
  for (int op : kernel.ops)
    for (ValueId operand : function.ops[static_cast<std::size_t>(op)].operands)
      if (made.count(operand)) keep(operand);
  return changed;
}

bool holds_whole_rows(Kind kind) {
  return kind == Kind::sort || kind == Kind::top_k || kind == Kind::linear_solve || kind == Kind::cumulative;
}

void add_prices(KernelFacts& facts, std::span<const ProductChoice> products, std::span<const VectorChoice> vectors) {
  for (const ProductChoice& choice : products) {
    const mapping::Cost cost = mapping::CostModel(choice.problem, choice.machine).price(choice.nest);
    facts.compute = std::max({facts.compute, cost.compute, cost.epilogue});
    facts.cycles += cost.bound;
  }
  for (const VectorChoice& choice : vectors) {
    const mapping::VectorCost cost = mapping::price(choice.problem, choice.tiles, choice.machine);
    facts.compute = std::max(facts.compute, cost.compute);
    facts.cycles += cost.cycles;
  }
}

namespace {

std::int64_t checked_contexts(std::int64_t contexts, const std::string& name, std::int64_t most) {
  if (contexts < 1 || contexts > most)
    throw UserError({"a kernel is shared by some of the program's contexts",
                     name,
                     std::to_string(contexts),
                     "1 to " + std::to_string(most),
                     {}});
  return contexts;
}

}  // namespace

std::int64_t contexts_of_kernel(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options,
                                std::int64_t most) {
  if (const auto tiles = options.vectors.find(kernel.name); tiled(kernel) && tiles != options.vectors.end())
    return checked_contexts(tiles->second.contexts, kernel.name, most);
  if (kernel.anchor >= 0) {
    const std::string& name = function.ops[static_cast<std::size_t>(kernel.anchor)].name;
    if (const auto nest = options.mappings.find(name); nest != options.mappings.end())
      return checked_contexts(nest->second.contexts, name, most);
  }
  return options.each > 0 ? checked_contexts(options.each, "each", most) : options.contexts > 0 ? options.contexts : 1;
}

/// Lowered products are split over the cores already; a ragged product is not.
KernelFacts facts_of(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options,
                     std::int64_t most_contexts) {
  const bool divided = kernel.family == Family::product &&
                       function.ops[static_cast<std::size_t>(kernel.anchor)].kind != Kind::ragged_contract;
  return {contexts_of_kernel(function, kernel, options, most_contexts), divided};
}

Lowered lower_by_family(Context& context, const Kernel& kernel) {
  if (kernel.family == Family::product) return lower_product(context, kernel);
  if (kernel.family == Family::chain) return lower_chain(context, kernel);
  if (kernel.family == Family::vector) return lower_vector(context, kernel);
  if (context.function.ops[static_cast<std::size_t>(kernel.ops[0])].kind == Kind::attention)
    return lower_attention(context, kernel);
  return lower_movement(context, kernel);
}

std::set<std::int32_t> called_functions(const Graph& graph) {
  std::set<std::int32_t> called;
  for (const GraphFunction& function : graph.functions)
    for (const Op& op : function.ops)
      if (op.kind == Kind::call) called.insert(op.functions.begin(), op.functions.end());
  return called;
}

program::Call call_of(const Context& context, const Op& op) {
  if (op.kind != Kind::call)
    throw CannotRun(op, Lack::lowering, {"no lowering for " + std::string(info(op.kind).name), op.name, {}, {}, {}});
  const GraphFunction& callee = context.graph.functions[static_cast<std::size_t>(op.functions[0])];
  program::Call statement;
  statement.function = callee.name;
  const auto bind = [&](const std::string& formal, ValueId actual) {
    const Placement& placement = context.placements[static_cast<std::size_t>(actual)];
    require(context.placed(actual) && placement.identity, "a call's operand has no separate tensor");
    statement.tensors[formal] = placement.tensor;
  };
  for (std::size_t i = 0; i < op.operands.size(); ++i)
    bind(callee.name + "." + callee.value(callee.inputs[i]).name, op.operands[i]);
  for (std::size_t i = 0; i < op.results.size(); ++i) bind(callee.name + ".result" + std::to_string(i), op.results[i]);
  return statement;
}

}  // namespace tilesim::lower
