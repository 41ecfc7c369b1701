// The share of a machine that a core or a context has. Contexts of a core share a kernel, so that one context loads
// while another computes.
#pragma once

#include "tilesim/compile/plan/options.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// The machine for one of `cores` busy cores (0: all): its share of the bandwidth, at most its port's rate. Throws
/// UserError if the machine has fewer cores.
Share shared_by(const Machine& machine, std::int64_t cores);

/// Number of contexts per core of a program: the requested number, or the largest number in a given mapping. Throws
/// UserError if cores have fewer contexts.
std::int64_t contexts_of(const Share& machine, const CompileOptions& options);

/// The machine with each core's memories divided by the number of contexts.
Share with_part_of_memories(const Share& machine, std::int64_t contexts);

/// The machine in which each of `contexts` contexts per core counts as a core with its share of the bandwidth.
Share with_contexts(const Share& machine, std::int64_t contexts);

/// Rewrites a kernel lowered for `with_contexts`: virtual core c becomes context c modulo `contexts` of core c /
/// `contexts`. `of`: the program's contexts per core; those from `contexts` on get no part.
void over_contexts(program::Scope& kernel, std::int64_t contexts, std::int64_t of);

}  // namespace tilesim::lower
