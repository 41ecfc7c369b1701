// Several contexts of a core that share a kernel, so that one loads while another computes.
#pragma once

#include "tilesim/compile/plan.hpp"

namespace tilesim::lower {

/// The machine with a context's share of each core's memories: contexts share them evenly.
Machine with_part_of_memories(const Machine& machine, std::int64_t contexts);

/// The machine in which each of `contexts` contexts of a core counts as a core, with its share of the bandwidth.
Machine with_contexts(const Machine& machine, std::int64_t contexts);

/// A kernel that was lowered for such a machine, as one of `of` contexts of a core runs it: virtual core c is context
/// c modulo `contexts` of core c divided by `contexts`. Further contexts have no part.
void over_contexts(program::Scope& kernel, std::int64_t contexts, std::int64_t of);

}  // namespace tilesim::lower
