// The share that each core, and each context of a core, has of a machine. Contexts of a core share a kernel, so that
// one loads while another computes.
#pragma once

#include "tilesim/compile/plan/options.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// The machine as one of `cores` busy cores (0: all) sees it: with its share of the bandwidth, at most the rate of its
/// port. UserError if the machine has fewer cores.
Share shared_by(const Machine& machine, std::int64_t cores);

/// Number of contexts per core of a program: the requested number, or the most that a given mapping asks for. UserError
/// if cores have fewer.
std::int64_t contexts_of(const Share& machine, const CompileOptions& options);

/// The machine with each core's memories divided evenly by the number of contexts.
Share with_part_of_memories(const Share& machine, std::int64_t contexts);

/// The machine in which each of `contexts` contexts per core counts as a core with its share of the bandwidth.
Share with_contexts(const Share& machine, std::int64_t contexts);

/// Rewrites a kernel lowered for such a machine for contexts: virtual core c becomes context c modulo `contexts` of
/// core c divided by `contexts`. The remaining of the `of` contexts get no part.
void over_contexts(program::Scope& kernel, std::int64_t contexts, std::int64_t of);

}  // namespace tilesim::lower
