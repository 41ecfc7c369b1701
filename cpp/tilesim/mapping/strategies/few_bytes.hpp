// Chooses among nests of about equal time: fewer bytes, fewer transfers, or less contention between cores.
#pragma once

#include <vector>

#include "tilesim/mapping/space.hpp"

namespace tilesim::mapping {

/// Nests that take at most so much longer than the fastest count as fast as it: models err by more.
constexpr double as_fast = 1.01;

/// Part of a cycle of the memory that a kernel pays which need not wait for it: others may use it meanwhile, and bytes
/// take energy.
constexpr double price_of_memory = 0.1;

/// Puts one first that is about as fast as the first of `best` and moves fewer bytes: of `best`, of `others` (whose
/// cycles need not be known), or one that keeps a large block of sums on chip. Bytes have a price, where other kernels
/// would have the memory.
void prefer_few_bytes(CostModel& model, const Space& space, std::vector<Ranked>& best, std::vector<Ranked> others,
                      CancelToken* cancel);

/// Of nests that take as long as the fastest by more than the model tells apart, puts the one of fewest bytes, then of
/// fewest transfers, first: both have a price where others use the memory, and each transfer one that is not walked.
void prefer_fewer_bytes(std::vector<Ranked>& fastest);

/// Of nests that one core takes about as long for, puts the one first that all cores together are soonest with.
void prefer_in_crowd(CostModel& model, std::vector<Ranked>& fastest, CancelToken* cancel);

}  // namespace tilesim::mapping
