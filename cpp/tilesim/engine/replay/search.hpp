// Selects the loops of a program to shorten and the calls to omit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tilesim/engine/replay/steady.hpp"

namespace tilesim::engine::replay {

inline constexpr std::int64_t fewest_trips = 4;  ///< more than needed to fill a ring of two or three buffers
inline constexpr std::int64_t most_runs = 64;    ///< limit on simulations for one prediction

struct SteadyLoop {
  const program::For* loop = nullptr;
  Steady is;
};

/// A kernel's periodic loops, whose trips the engine may omit.
struct SteadyKernel {
  const program::Statement* kernel = nullptr;
  std::vector<SteadyLoop> loops;
};

/// Number of trips to simulate at `level` (of three), less than all trips by full periods. `grown`: factor on the
/// default number.
std::int64_t kept_trips(const Steady& loop, std::int64_t grown, int level);

/// Loops to shorten until a program has at most `limit` operations; fewer if that would need more than `most_runs`
/// runs.
std::vector<SteadyKernel> steady_loops(const program::Program& program, std::int64_t limit, const Places& places,
                                       std::int64_t grown = 1);

/// Number of simulations for these loops.
std::int64_t runs(const std::vector<SteadyKernel>& kernels);

/// The longest sequence [first, last) of calls of one function in the program's main body that differ in tensor names
/// only. Every kernel of the function must end before the next statement, and values that affect time must be equal in
/// all calls. Empty if there are too few calls.
std::pair<std::size_t, std::size_t> alike_calls(const program::Program& program);

}  // namespace tilesim::engine::replay
