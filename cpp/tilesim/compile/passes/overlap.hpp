// Lets kernels overlap in time by replacing barriers with counters.
#pragma once

#include "tilesim/machine/share.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// For machines without a barrier between kernels (core.kernel_barrier). Every kernel signals a semaphore of its core
/// on each store queue when its stores are complete. Loads of tensors that earlier kernels stored, and stores over
/// tensors that earlier kernels read or stored, wait for a count; loads of weights and inputs do not. A kernel whose
/// loops or addresses read a stored tensor keeps its barrier. A function gets the number of kernels before it as a
/// parameter.
///
/// In programs of several cores, every core signals all cores when its part of a kernel (or of a step of a kernel) is
/// complete, with one counter per kernel, and each core waits for the signals of all cores. If the machine has a
/// barrier between kernels, the barrier covers all cores.
void overlap(program::Program& program, const Share& machine);

/// Name of a function's parameter: number of kernels that run before the call.
inline constexpr const char* kernels_before = "kernels_before";

/// The store queue whose completed kernels the counter counts; empty for another kind of counter.
std::string kernels_counted_on(const program::Counter& counter);

/// Adds waits of a queue until kernels up to number `base` + `count` are complete, in a program after `overlap`. Adds
/// nothing if kernels have barriers.
void append_waits(program::Block& block, const program::Program& program, const std::string& queue, const Expr& base,
                  std::int64_t count);

}  // namespace tilesim::lower
