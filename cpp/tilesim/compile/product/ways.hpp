// Lists the ways to split a product over the cores.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/nest.hpp"

namespace tilesim::lower {

/// A dim that may be split. Parts shorter than `granule` leave lanes or rows of the hardware idle.
struct CutChoice {
  int dim;
  std::int64_t extent, granule;
};

/// Dims that may be split, except `kept`. A dim may occur a second time, with parts shorter than the array.
std::vector<CutChoice> cut_choices(const Context& context, const mapping::Problem& problem,
                                   const std::vector<int>& kept);

/// Splits the dim into about `wanted` equal parts; parts longer than a granule are multiples of it.
CoreSplit::DimSplit part_of(const CutChoice& choice, std::int64_t wanted);

/// Number of elements of a dim that memory moves together. Parts that begin inside a layout tile move this tile twice.
std::int64_t moved_together(const mapping::Problem& problem, const Shape& tile, int dim);

/// All splits of at most two dims, beginning with no split; with several core types, also splits in proportion to their
/// speeds.
std::vector<CoreSplit> ways_to_cut(const Context& context, const mapping::Problem& problem,
                                   const std::vector<int>& kept);

/// Whether two splits have the same dims and parts.
bool same_parts(const CoreSplit& a, const CoreSplit& b);

}  // namespace tilesim::lower
