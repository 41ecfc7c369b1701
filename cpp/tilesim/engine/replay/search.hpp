// Selects the loops to shorten and the calls to omit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tilesim/engine/replay/steady.hpp"

namespace tilesim::engine::replay {

inline constexpr std::int64_t fewest_trips = 4;  ///< more than rings of two or three buffers need to fill
inline constexpr std::int64_t most_runs = 64;    ///< limit on the number of simulations for one prediction

struct SteadyLoop {
  const program::For* loop = nullptr;
  Steady is;
};

/// A kernel and its periodic loops; a run may omit trips of these loops.
struct SteadyKernel {
  const program::Statement* kernel = nullptr;
  std::vector<SteadyLoop> loops;
};

/// Number of trips to simulate at `level` 0, 1 or 2; the loop loses full periods only. `grown`: multiple of the default
/// number.
std::int64_t kept_trips(const Steady& loop, std::int64_t grown, int level);

/// Selects loops to shorten until at most `limit` operations remain, or until prediction would take more than
/// `most_runs` runs.
std::vector<SteadyKernel> steady_loops(const program::Program& program, std::int64_t limit, const Places& places,
                                       std::int64_t grown = 1);

/// Number of simulations for these loops.
std::int64_t runs(const std::vector<SteadyKernel>& kernels);

/// The longest sequence [first, last) of calls in the main body that call one function and differ only in tensor names.
/// Every kernel of the function must end before the next statement starts, and values that affect time must be equal in
/// all calls. Empty if there are too few such calls.
std::pair<std::size_t, std::size_t> alike_calls(const program::Program& program);

}  // namespace tilesim::engine::replay
