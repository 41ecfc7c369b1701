// Simulates programs of very many tile operations: steady loops run for a few trips, and the result is extrapolated.
#pragma once

#include <functional>
#include <optional>

#include "tilesim/engine/replay/steady.hpp"
#include "tilesim/report/result.hpp"

namespace tilesim::engine::replay {

/// Bytes of tensors beyond which calls that are alike are replayed where memory has banks.
inline constexpr std::int64_t most_bank_bytes = std::int64_t{1} << 30;

using Run = std::function<Result(const program::Program&)>;
using Expected = std::function<void(double operations)>;

/// The result of a long program from short runs of it.
///
/// Layers that are called one after the other are alike where every kernel ends before the next one starts: the program
/// is simulated with one, two and four of them.
///
/// Otherwise every count is taken as linear in the trips of each shortened loop, and kernels as independent. Loops lose
/// whole periods of trips, after which places within bursts, layout tiles and channels repeat, so that what is left out
/// is like what is left. They are simulated for three numbers of trips, in all combinations of two within a kernel; the
/// two predictions of the whole that this gives say how far off it may be, and more trips are simulated where that is
/// much.
///
/// `limit`: tile operations of a program, on one of its cores, that is simulated whole. `expected` is told the tile
/// operations of the runs before they start. The result has the replay and its bound among its
/// approximations; none where no loop can be shortened, the runs would take longer than the program, or the bound is
/// above 10 %.
std::optional<Result> replayed(const program::Program& program, std::int64_t limit, const Places& places,
                               const Run& run, const Expected& expected);

}  // namespace tilesim::engine::replay
