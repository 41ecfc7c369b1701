// Reference meaning of every graph kind, on Eigen. Kernels compute in f32, f64 or i64 and convert at the borders.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/base/cancel.hpp"
#include "tilesim/base/numerics.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim {

/// Results of one operation. `operands` follow op.operands (empty Array where absent). Products follow `numerics`;
/// float results are rounded once to the result dtype. Throws Unsupported naming kind and dtype where no meaning
/// exists.
std::vector<Array> evaluate_op(const Graph& graph, const GraphFunction& function, const Op& op,
                               const std::vector<Array>& operands, const Numerics& numerics = {});

struct EvaluateOptions {
  Numerics numerics;
  CancelToken* cancel = nullptr;
  /// Called after each operation of the entry function and of inlined calls with its results (for per-operation
  /// comparison).
  std::function<void(const GraphFunction&, const Op&, const std::vector<Array>&)> observe;
  /// Called after each loop, also in nested functions, with its number of trips.
  std::function<void(const GraphFunction&, const Op&, std::int64_t)> loops;
};

/// Runs the entry function. `inputs` follow its inputs (UserError on a wrong count, dtype or shape); values are freed
/// after their last use.
std::vector<Array> evaluate(const Graph& graph, const std::vector<Array>& inputs, const EvaluateOptions& options = {});

/// Whether a kernel exists for the kind (composites may be served by expansion).
bool has_kernel(Kind kind);

/// Deterministic inputs for a graph: floats uniform in [-1, 1], integer inputs small and legal as indices, bool random.
std::vector<Array> random_inputs(const Graph& graph, std::int64_t seed, CancelToken* cancel = nullptr);
/// The range [first, second) of integer inputs, input by input; other inputs have an entry without meaning.
std::vector<std::pair<std::int64_t, std::int64_t>> random_ranges(const Graph& graph);
/// One of these inputs: number `index`, without a graph.
Array random_input(const TensorType& type, std::size_t index, std::pair<std::int64_t, std::int64_t> range,
                   std::int64_t seed, CancelToken* cancel = nullptr);

}  // namespace tilesim
