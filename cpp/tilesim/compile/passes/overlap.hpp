// Lets kernels overlap: counters replace barriers.
#pragma once

#include "tilesim/machine/share.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// For machines without a barrier between kernels (core.kernel_barrier): every kernel signals a semaphore of its core
/// on each store queue when its stores are complete. Loads of tensors that earlier kernels stored, and stores over
/// tensors that they read or stored, wait for the count; weights and inputs do not. A kernel whose loops or addresses
/// read a stored tensor keeps its barrier. A function receives the number of kernels before it as a parameter.
///
/// For programs of several cores: every core signals all cores when its part of a kernel (or of a step of a kernel) is
/// complete, with one counter per kernel, and each core waits for the signals of all cores. A barrier of the machine
/// between kernels spans the cores.
void overlap(program::Program& program, const Share& machine);

/// Parameter of functions: kernels that have run before a call.
inline constexpr const char* kernels_before = "kernels_before";

/// The store queue whose completed kernels the counter counts; empty for any other counter.
std::string kernels_counted_on(const program::Counter& counter);

/// Makes a queue wait until `count` kernels after `base` are complete, in a program after `overlap`; adds nothing if
/// kernels have barriers.
void append_waits(program::Block& block, const program::Program& program, const std::string& queue, const Expr& base,
                  std::int64_t count);

}  // namespace tilesim::lower
