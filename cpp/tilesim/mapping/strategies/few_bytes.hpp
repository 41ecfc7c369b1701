// Chooses among nests with about equal time: fewer bytes, fewer transfers, or less contention between cores.
#pragma once

#include <vector>

#include "tilesim/mapping/space.hpp"

namespace tilesim::mapping {

/// Nests that take at most this multiple of the shortest time count as equally fast: the model's error is larger.
constexpr double as_fast = 1.01;

/// Cost of a memory cycle that compute hides, in cycles: other kernels may need the memory, and bytes cost energy.
constexpr double price_of_memory = 0.1;

/// Moves to the front a nest that is about as fast as the first of `best` and moves fewer bytes, because other kernels
/// could use the memory. Candidates are `best`, `others` (whose cycles may be unknown), and nests that keep a large
/// block of sums on chip.
void prefer_few_bytes(CostModel& model, const Space& space, std::vector<Ranked>& best, std::vector<Ranked> others,
                      CancelToken* cancel);

/// Among nests as fast as the fastest within the model's error, moves the one with the fewest bytes, then the fewest
/// transfers, to the front: bytes cost time if others use the memory, and the walk omits some costs of transfers.
void prefer_fewer_bytes(std::vector<Ranked>& fastest);

/// Among nests of about equal time on one core, moves to the front the one with which all cores together finish first.
void prefer_in_crowd(CostModel& model, std::vector<Ranked>& fastest, CancelToken* cancel);

}  // namespace tilesim::mapping
