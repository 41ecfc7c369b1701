// Chooses which loops of a program to shorten and which calls to leave out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tilesim/engine/replay/steady.hpp"

namespace tilesim::engine::replay {

inline constexpr std::int64_t fewest_trips = 4;  ///< past the filling of any ring of two or three buffers
inline constexpr std::int64_t most_runs = 64;    ///< simulations for one prediction

struct SteadyLoop {
  const program::For* loop = nullptr;
  Steady is;
};

/// The steady loops of one kernel.
struct SteadyKernel {
  const program::Statement* kernel = nullptr;
  std::vector<SteadyLoop> loops;
};

/// The `level`th (of three) number of trips to simulate, a whole number of periods short of all: what is left out is
/// not missed. `grown`: how many times as many as usual.
std::int64_t kept_trips(const Steady& loop, std::int64_t grown, int level);

/// Loops to shorten until a program is within a number of operations; not all that are needed where that takes more
/// than `most_runs` runs.
std::vector<SteadyKernel> steady_loops(const program::Program& program, std::int64_t limit, const Places& places,
                                       std::int64_t grown = 1);

/// Simulations that these loops need.
std::int64_t runs(const std::vector<SteadyKernel>& kernels);

/// The longest run of calls of one function in the program's own body that differ in the names of their tensors alone:
/// [first, last). Every kernel of the function ends before what follows, and values that timing reads are the same in
/// all calls. Too few: an empty range.
std::pair<std::size_t, std::size_t> alike_calls(const program::Program& program);

}  // namespace tilesim::engine::replay
