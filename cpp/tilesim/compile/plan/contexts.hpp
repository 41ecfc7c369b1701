// The share that each core, and each context of a core, has of a machine. Contexts of a core share a kernel, so that
// one loads while another computes.
#pragma once

#include "tilesim/compile/plan/options.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// The machine as each of `cores` cores (0: all) sees it while all are at work: its share of the bandwidth, at most
/// what its port passes. UserError where it has fewer.
Share shared_by(const Machine& machine, std::int64_t cores);

/// Contexts of a core that a program has: those asked for, or the most that a given mapping asks for. UserError where
/// cores have fewer.
std::int64_t contexts_of(const Share& machine, const CompileOptions& options);

/// The machine with a context's share of each core's memories: contexts share them evenly.
Share with_part_of_memories(const Share& machine, std::int64_t contexts);

/// The machine in which each of `contexts` contexts of a core counts as a core, with its share of the bandwidth.
Share with_contexts(const Share& machine, std::int64_t contexts);

/// A kernel that was lowered for such a machine, as one of `of` contexts of a core runs it: virtual core c is context
/// c modulo `contexts` of core c divided by `contexts`. Further contexts have no part.
void over_contexts(program::Scope& kernel, std::int64_t contexts, std::int64_t of);

}  // namespace tilesim::lower
