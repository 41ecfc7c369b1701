#include "tilesim/compile/passes/passes.hpp"

#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/compile/passes/ahead.hpp"
#include "tilesim/compile/passes/numbers.hpp"
#include "tilesim/compile/passes/overlap.hpp"
#include "tilesim/compile/passes/residency.hpp"
#include "tilesim/compile/plan/contexts.hpp"
#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

/// Calls `call(kernel, facts)` with each kernel of the program.
template <class Call>
void for_each_kernel(Lowering& lowering, const Call& call) {
  program::for_each_function(lowering.program, [&](program::Block& body, const std::string& function) {
    const std::vector<KernelFacts>& facts = lowering.kernels[function];
    std::size_t next = 0;
    for (program::Statement& statement : body)
      if (auto* kernel = std::get_if<program::Scope>(&statement.action)) {
        require(next < facts.size(), "a kernel without facts from lowering");
        call(*kernel, facts[next++]);
      }
  });
}

void divide(Lowering& lowering) {
  TensorIndex tensors;
  for_each_kernel(lowering, [&](program::Scope& kernel, const KernelFacts& facts) {
    distribute(lowering, kernel, facts, tensors);
  });
}

/// Errors in the generated program are internal errors: the user wrote the graph, not the program.
void check(Lowering& lowering) {
  try {
    program::check(lowering.program, &lowering.whole.core.scratchpad);
  } catch (const Unsupported&) {
    throw;
  } catch (const UserError& error) {
    throw InternalError("the compiler made a program of \"" + lowering.program.name +
                        "\" that does not check: " + error.what());
  }
}

}  // namespace

void distribute(Lowering& lowering, program::Scope& kernel, const KernelFacts& facts, TensorIndex& tensors) {
  if (!facts.divided) {
    const Share share = with_contexts(lowering.machine, facts.contexts);
    if (!KernelNumbers::runs_functions(kernel.body)) {
      divide_loops(kernel, lowering.program, tensors, share);
    } else {
      for (program::Statement& statement : kernel.body)  // copies before and after a loop of the graph
        if (auto* step = std::get_if<program::Scope>(&statement.action))
          divide_loops(*step, lowering.program, tensors, share);
    }
  }
  if (lowering.program.contexts > 1) over_contexts(kernel, facts.contexts, lowering.program.contexts);
}

std::span<const Pass> passes() {
  static const std::vector<Pass> list{
      {"divide", "kernels over the cores, where trips are proven independent, and their contexts", {}, &divide},
      {"residency", "values that stay in the scratchpad between kernels", {"divide"}, &choose_residents},
      {"overlap",
       "kernels wait for their operands, not for all earlier kernels",
       {"divide"},
       [](Lowering& lowering) { overlap(lowering.program, lowering.machine); }},
      {"ahead", "independent loads are prefetched", {"residency", "overlap"}, &load_ahead},
      {"addresses",
       "an address for each slot, by lifetime",
       {"residency"},
       [](Lowering& lowering) { give_addresses(lowering.program, lowering.machine, lowering.residents); }},
      {"apart", "tiles and values that share bytes wait for each other", {"overlap", "addresses"}, &keep_apart},
      {"dying",
       "elementwise results reuse operands without further readers",
       {"residency", "overlap"},
       &lie_over_dying},
      {"check", "tile programs obey their rules", {"addresses"}, &check},
  };
  return list;
}

program::Program finished(Lowering lowering) {
  for (const Pass& pass : passes()) pass.run(lowering);
  return std::move(lowering.program);
}

}  // namespace tilesim::lower
