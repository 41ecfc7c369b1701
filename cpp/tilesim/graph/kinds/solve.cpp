// linear_solve and fft.
#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

using Results = std::span<const TensorType>;

bool factors(const Op& op) { return op.attributes.text("mode") == "cholesky"; }

std::vector<TensorType> infer_linear_solve(const Op& op, Types operands, const Graph&) {
  const TensorType& a = *operands[0];
  want_float(a, "a");
  if (rank(a) < 2 || a.shape[at(rank(a) - 1)] != a.shape[at(rank(a) - 2)])
    refuse("a is not square", to_string(a), "[.., n, n]");
  if (factors(op) == present(operands, 1))
    refuse("linear_solve has the wrong operands", std::to_string(operands.size()),
           "a for mode cholesky, a and b for mode triangular");
  if (factors(op)) return {a};
  const TensorType& b = *operands[1];
  want_dtype(b, a.dtype, "b");
  const std::int64_t extent = a.shape.back();
  const bool left = op.attributes.flag("left_side", true);
  bool fits = rank(b) == rank(a) && std::equal(a.shape.begin(), a.shape.end() - 2, b.shape.begin());
  if (fits) fits = b.shape[at(rank(b) - (left ? 2 : 1))] == extent;
  if (!fits) refuse("b does not fit a", to_string(b), to_string(a));
  return {b};
}

/// Golub and Van Loan, Matrix Computations, 4th edition: n^3/3 for Cholesky (section 4.2.5), n^2 per column for a
/// triangular solve (section 3.1.2). A multiply-add counts 2.
Flops linear_solve_flops(const Op& op, Types operands, Results results) {
  Flops flops;
  const auto extent = static_cast<double>(operands[0]->shape.back());
  const double elements = static_cast<double>(count(results[0]));
  flops.matrix = factors(op) ? elements * extent / 3 : elements * extent;
  flops.divide = factors(op) ? elements / std::max(1.0, extent) : elements;
  return flops;
}

std::vector<TensorType> infer_fft(const Op& op, Types operands, const Graph&) {
  want_float(*operands[0], "re");
  axis(op, "dim", rank(*operands[0]));
  if (present(operands, 1)) {
    want_dtype(*operands[1], operands[0]->dtype, "im");
    want_shape(*operands[1], operands[0]->shape, "im");
  }
  return {*operands[0], *operands[0]};
}

/// Cooley and Tukey 1965: 5 n log2 n real operations, of which two fifths are multiplications.
Flops fft_flops(const Op& op, Types operands, Results) {
  Flops flops;
  const TensorType& x = *operands[0];
  const double steps =
      std::ceil(std::log2(static_cast<double>(std::max<std::int64_t>(1, x.shape[at(op.attributes.integer("dim"))]))));
  flops.multiply = 2 * static_cast<double>(count(x)) * steps;
  flops.simple = 3 * static_cast<double>(count(x)) * steps;
  return flops;
}

}  // namespace

void add_solvers(std::vector<KindInfo>& table) {
  using A = AttributeType;
  table.push_back({.kind = Kind::linear_solve,
                   .name = "linear_solve",
                   .min_operands = 1,
                   .max_operands = 2,
                   .min_results = 1,
                   .max_results = 1,
                   .operand_names = {"a", "b"},
                   .attributes = {required("mode", A::text, {"cholesky", "triangular"}), optional("lower", A::flag),
                                  optional("left_side", A::flag), optional("unit_diagonal", A::flag),
                                  optional("transpose_a", A::flag)},
                   .infer = infer_linear_solve,
                   .flops = linear_solve_flops,
                   .domain = opaque_domain});
  table.push_back({.kind = Kind::fft,
                   .name = "fft",
                   .min_operands = 1,
                   .max_operands = 2,
                   .min_results = 2,
                   .max_results = 2,
                   .operand_names = {"re", "im"},
                   .attributes = {required("dim", A::integer), optional("inverse", A::flag)},
                   .infer = infer_fft,
                   .flops = fft_flops,
                   .domain = opaque_domain});
}

}  // namespace tilesim::rules
