// Enumerates the ways to split a product over the cores.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/nest.hpp"

namespace tilesim::lower {

/// A dim that may be cut, and the extent below which a part leaves lanes or rows of the hardware empty.
struct CutChoice {
  int dim;
  std::int64_t extent, granule;
};

/// Dims that may be cut, `kept` left out; one may be there twice, with parts that are ragged in the array.
std::vector<CutChoice> cut_choices(const Context& context, const mapping::Problem& problem,
                                   const std::vector<int>& kept);

/// The dim in about so many equal parts, of whole granules where they are longer than one.
CoreSplit::DimSplit part_of(const CutChoice& choice, std::int64_t wanted);

/// Elements of a dim that memory moves together: where the dim lies over the lanes or rows of layout tiles, parts that
/// begin within one move it twice.
std::int64_t moved_together(const mapping::Problem& problem, const Shape& tile, int dim);

/// All ways to cut at most two dims; over several sorts of cores those of the first alone, and all in proportion to
/// their speeds. The first: not at all.
std::vector<CoreSplit> ways_to_cut(const Context& context, const mapping::Problem& problem,
                                   const std::vector<int>& kept);

/// Whether two ways cut the same dims into the same parts.
bool same_parts(const CoreSplit& a, const CoreSplit& b);

}  // namespace tilesim::lower
