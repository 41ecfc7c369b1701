// Simulates programs with very many tile operations: runs a few trips of steady loops and extrapolates the results.
#pragma once

#include <functional>
#include <optional>

#include "tilesim/engine/replay/steady.hpp"
#include "tilesim/report/result.hpp"

namespace tilesim::engine::replay {

/// With bank memory, a program whose tensors exceed this size is replayed whatever its number of operations.
inline constexpr std::int64_t most_bank_bytes = std::int64_t{1} << 30;

using Run = std::function<Result(const program::Program&)>;
using Expected = std::function<void(double operations)>;

/// Predicts the result of a long program from short runs.
///  If the program calls equal layers one after the other, and every kernel ends before the next one starts, the engine
/// simulates the program with one, two and four layers.
///  Otherwise the prediction assumes that every count is linear in the trips of each shortened loop and that kernels
/// are independent. A loop loses full periods of trips; after a period, positions within bursts, layout tiles and
/// channels repeat, so the omitted trips equal the others. Runs use three trip counts per loop, in all combinations of
/// two within a kernel. The difference of the two predictions gives the error bound; a large bound leads to runs with
/// more trips.
///  `limit`: number of tile operations per core up to which a program is simulated in full. `expected` receives the
/// tile operations of the runs before they start. The result lists the replay and its bound among its approximations.
/// Empty if no loop can be shortened, the runs would take longer than the program, or the bound exceeds 10 %.
std::optional<Result> replayed(const program::Program& program, std::int64_t limit, const Places& places,
                               const Run& run, const Expected& expected);

}  // namespace tilesim::engine::replay
