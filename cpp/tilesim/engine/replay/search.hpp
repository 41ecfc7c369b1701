// Chooses which loops of a program to shorten and which calls to leave out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tilesim/engine/replay/steady.hpp"

namespace tilesim::engine::replay {

inline constexpr std::int64_t fewest_trips = 4;  ///< more than any ring of two or three buffers needs to fill
inline constexpr std::int64_t most_runs = 64;    ///< most simulations for one prediction

struct SteadyLoop {
  const program::For* loop = nullptr;
  Steady is;
};

/// The steady loops of one kernel.
struct SteadyKernel {
  const program::Statement* kernel = nullptr;
  std::vector<SteadyLoop> loops;
};

/// The number of trips to simulate at `level` (of three), which differs from all trips by whole periods. `grown`:
/// multiple of the default number.
std::int64_t kept_trips(const Steady& loop, std::int64_t grown, int level);

/// Loops to shorten until a program is within a number of operations; fewer if more than `most_runs` runs would be
/// needed.
std::vector<SteadyKernel> steady_loops(const program::Program& program, std::int64_t limit, const Places& places,
                                       std::int64_t grown = 1);

/// Simulations that these loops need.
std::int64_t runs(const std::vector<SteadyKernel>& kernels);

/// The longest sequence [first, last) of calls of one function in the program's own body that differ only in tensor
/// names. Every kernel of the function ends before the next statement, and values that timing reads are equal in all
/// calls. Too few calls: an empty range.
std::pair<std::size_t, std::size_t> alike_calls(const program::Program& program);

}  // namespace tilesim::engine::replay
