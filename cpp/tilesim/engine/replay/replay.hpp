// Simulates programs with very many tile operations: steady loops run for a few trips, and results are extrapolated.
#pragma once

#include <functional>
#include <optional>

#include "tilesim/engine/replay/steady.hpp"
#include "tilesim/report/result.hpp"

namespace tilesim::engine::replay {

/// Tensor bytes above which equal calls are replayed if memory has banks.
inline constexpr std::int64_t most_bank_bytes = std::int64_t{1} << 30;

using Run = std::function<Result(const program::Program&)>;
using Expected = std::function<void(double operations)>;

/// The result of a long program, predicted from short runs.
///
/// If equal layers are called one after the other, and every kernel ends before the next one starts, the program is
/// simulated with one, two and four of them.
///
/// Otherwise every count is taken as linear in the trips of each shortened loop, and kernels as independent. Loops lose
/// full periods of trips, after which positions within bursts, layout tiles and channels repeat, so that omitted trips
/// equal the others. The simulations use three trip counts per loop, in all combinations of two within a kernel; the
/// difference of the two predictions determines the error bound. If that is large, more trips are simulated.
///
/// `limit`: tile operations per core up to which a program is simulated in full. `expected` receives the tile
/// operations of the runs before they start. The result lists the replay and its bound among its approximations. It is
/// empty if no loop can be shortened, if the runs would take longer than the program, or if the bound exceeds 10 %.
std::optional<Result> replayed(const program::Program& program, std::int64_t limit, const Places& places,
                               const Run& run, const Expected& expected);

}  // namespace tilesim::engine::replay
