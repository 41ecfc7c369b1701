// The tiled program against the reference, kernel by kernel, each on the reference's operands.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/base/cancel.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::validate {

/// One tensor that a kernel stored.
struct Comparison {
  std::string operation, tensor;
  std::int64_t elements = 0;
  double largest = 0;        ///< largest |tiled - reference|
  double error = 0;          ///< |tiled - reference| at the element where error / bound is largest
  double bound = 0;          ///< at that element
  double ratio = 0;          ///< largest error / bound; infinite if a bound is 0 and bits differ, or if sizes differ
  double scale = 0;          ///< largest magnitude of the reference
  std::int64_t worst = 0;    ///< row-major position of the largest ratio
  bool ok = true;            ///< whether every element is within its bound, in both runs
  bool exact = false;        ///< the second run required equal bits
  double integer_error = 0;  ///< second run: |tiled - reference| where error / bound is largest
  double integer_ratio = 0;  ///< second run: largest error / bound
  std::string rounds;        ///< why the second run does not require equal bits; empty: it does
};

/// Compares the tensors that each kernel stores with the reference, and sets them to the reference's values, so that an
/// error shows at the operation that causes it. Tensors local to called functions are compared through the call's
/// results. Throws UserError as `execute` does.
///
/// `prepared`: the lowered graph. `inputs`: arrays by tensor name for roles input, weight, state. `executor`: executes
/// tile computes; null: by their definition. `exact`: also runs on values of exact_values.hpp, drawn anew for every
/// stored tensor. If no operation of a kernel rounds them, the bits must be equal; sums are so short that a lost part
/// exceeds the bound.
std::vector<Comparison> verify(const Graph& prepared, const program::Program& program, const Machine& machine,
                               const std::map<std::string, Array>& inputs, bool exact = true,
                               CancelToken* cancel = nullptr, TileExecutor* executor = nullptr);

}  // namespace tilesim::validate
