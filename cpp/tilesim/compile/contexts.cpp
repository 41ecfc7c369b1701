#include "tilesim/compile/contexts.hpp"

#include <algorithm>

#include "tilesim/compile/divide.hpp"

namespace tilesim::lower {

Machine with_part_of_memories(const Machine& machine, std::int64_t contexts) {
  Machine part = machine;
  for (std::int64_t* bytes : {&part.core.scratchpad.bytes, &part.core.scratchpad.accumulator_bytes})
    if (contexts > 1) *bytes = *bytes / contexts / 64 * 64;
  return part;
}

Machine with_contexts(const Machine& machine, std::int64_t contexts) {
  Machine part = machine;
  if (contexts == 1) return part;
  part.core.count *= contexts;
  part.network.multicast = false;  // contexts of a core reach each other through no network
  part.memory.bytes_per_second = std::max<std::int64_t>(1, part.memory.bytes_per_second / contexts);
  return part;
}

void over_contexts(program::Scope& kernel, std::int64_t contexts, std::int64_t of) {
  const auto is_step = [](const program::Statement& s) { return std::holds_alternative<program::Scope>(s.action); };
  if (!kernel.body.empty() && std::all_of(kernel.body.begin(), kernel.body.end(), is_step)) {
    for (program::Statement& step : kernel.body) over_contexts(std::get<program::Scope>(step.action), contexts, of);
    return;
  }
  if (contexts > 1)
    substitute(kernel.body, {{"core", Expr::symbol("core") * Expr(contexts) + Expr::symbol("context")}});
  if (contexts == of) return;
  program::If has_part{less(Expr::symbol("context"), Expr(contexts)), std::move(kernel.body), {}};
  kernel.body = {};
  kernel.body.push_back(on("", std::move(has_part)));
}

}  // namespace tilesim::lower
