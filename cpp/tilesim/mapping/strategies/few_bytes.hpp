// Chooses among nests of about equal time: fewer bytes, fewer transfers, or less contention between cores.
#pragma once

#include <vector>

#include "tilesim/mapping/space.hpp"

namespace tilesim::mapping {

/// Nests within this factor of the fastest count as equally fast: the model's error is larger.
constexpr double as_fast = 1.01;

/// Cost of a hidden memory cycle, as a fraction of a cycle: other kernels may need the memory, and bytes take energy.
constexpr double price_of_memory = 0.1;

/// Moves a nest to the front that is about as fast as the first of `best` and moves fewer bytes, which other kernels
/// could use: one of `best`, of `others` (whose cycles may be unknown), or one that keeps a large block of sums on
/// chip.
void prefer_few_bytes(CostModel& model, const Space& space, std::vector<Ranked>& best, std::vector<Ranked> others,
                      CancelToken* cancel);

/// Moves the nest with the fewest bytes, then the fewest transfers, to the front, among nests as fast as the fastest
/// within the model's error: both cost time if others use the memory, and transfers have costs that the walk omits.
void prefer_fewer_bytes(std::vector<Ranked>& fastest);

/// Among nests of about equal time on one core, moves the one to the front with which all cores together finish first.
void prefer_in_crowd(CostModel& model, std::vector<Ranked>& fastest, CancelToken* cancel);

}  // namespace tilesim::mapping
