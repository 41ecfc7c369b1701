#include "tilesim/compile/plan/contexts.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/compile/plan/core_sorts.hpp"
#include "tilesim/compile/plan/divide.hpp"

namespace tilesim::lower {

Share shared_by(const Machine& machine, std::int64_t cores) {
  if (cores < 0 || cores > machine.core.count)
    throw UserError({"the machine does not have so many cores",
                     "cores",
                     std::to_string(cores),
                     "1 to " + std::to_string(machine.core.count) + "; 0: all",
                     {}});
  Share share = with_cores(machine, cores > 0 ? cores : machine.core.count);
  const auto dma = static_cast<double>(share.core.dma.bytes_per_cycle) * static_cast<double>(share.core.clock.hertz);
  const double most = std::min({port_rate(share), dma, 1e18}) / share.memory.efficiency;
  share.memory.bytes_per_second = std::clamp<std::int64_t>(share.memory.bytes_per_second / share.core.count, 1,
                                                           std::max<std::int64_t>(1, static_cast<std::int64_t>(most)));
  return share;
}

std::int64_t contexts_of(const Share& machine, const CompileOptions& options) {
  std::int64_t contexts = std::max<std::int64_t>(1, options.contexts);
  for (const auto& [name, nest] : options.mappings) contexts = std::max(contexts, nest.contexts);
  for (const auto& [name, tiles] : options.vectors) contexts = std::max(contexts, tiles.contexts);
  if (contexts > machine.core.contexts)
    throw UserError({"the machine's cores have fewer contexts",
                     "contexts",
                     std::to_string(contexts),
                     "1 to " + std::to_string(machine.core.contexts) + " (core.contexts)",
                     {}});
  if (contexts > 1 && !machine.sorts.empty())
    throw UserError({"several contexts need cores of one type", "contexts", std::to_string(contexts), "1",
                     "Compile for one core type: sort=..."});
  return contexts;
}

Share with_part_of_memories(const Share& machine, std::int64_t contexts) {
  Share part = machine;
  for (std::int64_t* bytes : {&part.core.scratchpad.bytes, &part.core.scratchpad.accumulator_bytes})
    if (contexts > 1) *bytes = *bytes / contexts / 64 * 64;
  return part;
}

Share with_contexts(const Share& machine, std::int64_t contexts) {
  Share part = machine;
  if (contexts == 1) return part;
  part.core.count *= contexts;
  part.network.multicast = false;  // no network connects the contexts of a core
  part.memory.bytes_per_second = std::max<std::int64_t>(1, part.memory.bytes_per_second / contexts);
  return part;
}

void over_contexts(program::Scope& kernel, std::int64_t contexts, std::int64_t of) {
  for_each_step(kernel, [&](program::Scope& step) {
    if (contexts > 1)
      substitute(step.body, {{"core", Expr::symbol("core") * Expr(contexts) + Expr::symbol("context")}});
    if (contexts == of) return;
    program::If has_part{less(Expr::symbol("context"), Expr(contexts)), std::move(step.body), {}};
    step.body = {};
    step.body.push_back(on("", std::move(has_part)));
  });
}

}  // namespace tilesim::lower
