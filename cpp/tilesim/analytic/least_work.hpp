// Lower bounds on the work of an operation: multiply-adds of products and functions of the vector unit.
#pragma once

#include <array>
#include <optional>

#include "tilesim/graph/graph.hpp"

namespace tilesim::analytic {

/// `batch` products of [m, k] by [k, n]. A convolution has outputs as m, channels x taps as k, one product per group.
struct LeastProduct {
  DType dtype = DType::f32;
  double batch = 1, m = 0, n = 0, k = 0;
  bool packs = false;  ///< groups of a convolution may share an array
  double overlap = 1;  ///< number of windows that read an element: kernel area / stride area
  double visible = 1;  ///< share of multiply-adds that causality or windows do not mask
  double multiply_adds() const { return batch * m * n * k * visible; }
};

/// Numbers of functions of the vector unit: simple, multiply, divide, transcendental.
using LeastFunctions = std::array<double, 4>;

struct LeastWork {
  std::vector<LeastProduct> products;
  LeastFunctions functions{};
  DType dtype = DType::f32;  ///< type of the functions' operands
};

/// Least work of an operation that does not run functions of the graph. `known`: values that depend on constants only;
/// operations with only such operands may be precomputed and cost nothing.
LeastWork least_work(const Graph& graph, const GraphFunction& function, const Op& op, const std::vector<bool>& known);

}  // namespace tilesim::analytic
