// Lower bounds on the work of an operation: multiply-adds of products and functions of the vector unit.
#pragma once

#include <array>
#include <optional>

#include "tilesim/graph/graph.hpp"

namespace tilesim::analytic {

/// `batch` products of [m, k] by [k, n]. Convolutions: outputs by channels x taps, one product per group.
struct LeastProduct {
  DType dtype = DType::f32;
  double batch = 1, m = 0, n = 0, k = 0;
  bool packs = false;  ///< products of a batch may share an array: groups of a convolution
  double overlap = 1;  ///< number of adjacent windows that read an element: kernel area over stride area
  double visible = 1;  ///< share of unmasked multiply-adds (causality, windows of attention)
  double multiply_adds() const { return batch * m * n * k * visible; }
};

/// Functions of the vector unit by class: simple, multiply, divide, transcendental.
using LeastFunctions = std::array<double, 4>;

struct LeastWork {
  std::vector<LeastProduct> products;
  LeastFunctions functions{};
  DType dtype = DType::f32;  ///< type on which the functions work
};

/// Least work of one operation that does not run functions of the graph. `known`: values that follow from constants
/// only; results computed from them may be precomputed.
LeastWork least_work(const Graph& graph, const GraphFunction& function, const Op& op, const std::vector<bool>& known);

}  // namespace tilesim::analytic
