// Chooses among nests of about equal time: fewer bytes, fewer transfers, or less contention between cores.
#pragma once

#include <vector>

#include "tilesim/mapping/space.hpp"

namespace tilesim::mapping {

/// Nests within this factor of the fastest count as equally fast: the model's error is larger.
constexpr double as_fast = 1.01;

/// Cost of a memory cycle for which the kernel does not wait, as a part of a cycle: other kernels may use it, and bytes
/// take energy.
constexpr double price_of_memory = 0.1;

/// Puts a nest first that is about as fast as the first of `best` and moves fewer bytes: one of `best`, of `others`
/// (whose cycles may be unknown), or one that keeps a large block of sums on chip. Bytes count, because other kernels
/// could use the memory.
void prefer_few_bytes(CostModel& model, const Space& space, std::vector<Ranked>& best, std::vector<Ranked> others,
                      CancelToken* cancel);

/// Among nests as fast as the fastest within the model's error, puts that with the fewest bytes, then the fewest
/// transfers, first: both cost time if others use the memory, and transfers have a cost that is not walked.
void prefer_fewer_bytes(std::vector<Ranked>& fastest);

/// Among nests that take one core about equal time, puts the one first with which all cores together finish soonest.
void prefer_in_crowd(CostModel& model, std::vector<Ranked>& fastest, CancelToken* cancel);

}  // namespace tilesim::mapping
