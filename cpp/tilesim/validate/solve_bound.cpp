// Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition: substitution solves (T + D) x = b exactly with
// |D| <= gamma(n) |T| (theorem 8.5); Cholesky's L has L L' = A + D with |D| <= gamma(n + 1) |L| |L'| (theorem 10.3).
#include "tilesim/validate/solve_bound.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/validate/rounding.hpp"

namespace tilesim::validate {

namespace {

/// Square or not, row-major.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> elements;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), elements(static_cast<std::size_t>(r * c)) {}
  double& operator()(std::int64_t i, std::int64_t j) { return elements[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const {
    return elements[static_cast<std::size_t>(i * columns + j)];
  }
};

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const double factor = a(i, k);
      if (factor == 0) continue;
      for (std::int64_t j = 0; j < b.columns; ++j) c(i, j) += factor * b(k, j);
    }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix c(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) c(j, i) = a(i, j);
  return c;
}

Matrix magnitude(Matrix a) {
  for (double& element : a.elements) element = std::fabs(element);
  return a;
}

/// |t^-1| of a lower triangular matrix.
Matrix inverse_magnitude(const Matrix& t) {
  Matrix x(t.rows, t.rows);
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t k = 0; k < i; ++k)
      for (std::int64_t j = 0; j <= k; ++j) x(i, j) -= t(i, k) * x(k, j);
    x(i, i) = 1;
    for (std::int64_t j = 0; j <= i; ++j) x(i, j) /= t(i, i);
  }
  return magnitude(std::move(x));
}

double largest_row(const Matrix& a) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < a.columns; ++j) sum += a(i, j);
    if (!(sum <= largest)) largest = sum;  // NaN too
  }
  return largest;
}

double unit_of(const Array& result) { return unit_roundoff(result.dtype() == DType::f64 ? DType::f64 : DType::f32); }

/// One matrix of a batch in f64, transposed if `turned`.
Matrix matrix_of(const Array& array, std::int64_t number, bool turned) {
  const std::int64_t rows = array.shape()[array.shape().size() - 2], columns = array.shape().back();
  Matrix found(rows, columns);
  const double* from = array.as<double>() + number * rows * columns;
  std::copy(from, from + rows * columns, found.elements.begin());
  return turned ? transposed(found) : found;
}

void put(const Matrix& bound, Array& to, std::int64_t number, bool turned) {
  const Matrix own = turned ? transposed(bound) : bound;
  std::ranges::copy(own.elements, to.as<double>() + number * own.rows * own.columns);
}

/// The rows (and columns) in reverse order: an upper triangle becomes a lower one.
Matrix reversed(const Matrix& a, bool columns_too) {
  Matrix c(a.rows, a.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) c(i, j) = a(a.rows - 1 - i, columns_too ? a.columns - 1 - j : j);
  return c;
}

Matrix triangle(Matrix a, bool unit) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = i + 1; j < a.columns; ++j) a(i, j) = 0;
    if (unit) a(i, i) = 1;
  }
  return a;
}

/// e = |T^-1| ((gamma |T| + |dT|) (|x| + e) + |db|), with a bound on the terms in e on the right.
Matrix substitution_bound(const Matrix& t, const Matrix& dt, const Matrix& x, const Matrix& db, double g) {
  const Matrix inverse = inverse_magnitude(t), size = magnitude(x);
  Matrix relative = magnitude(t);
  for (std::size_t i = 0; i < relative.elements.size(); ++i)
    relative.elements[i] = g * relative.elements[i] + dt.elements[i];
  Matrix right = product(relative, size);
  for (std::size_t i = 0; i < right.elements.size(); ++i) right.elements[i] += db.elements[i];
  Matrix bound = product(inverse, right);
  const Matrix again = product(inverse, relative);
  const double rate = largest_row(again);
  for (std::int64_t j = 0; j < bound.columns; ++j) {
    double largest = 0;
    for (std::int64_t i = 0; i < bound.rows; ++i) largest = std::max(largest, bound(i, j));
    const double further = rate < 1 ? largest * rate / (1 - rate) : infinite;
    for (std::int64_t i = 0; i < bound.rows; ++i) {
      bound(i, j) += further;
      if (std::isnan(bound(i, j))) bound(i, j) = infinite;
    }
  }
  return bound;
}

/// The lower triangle with half the diagonal.
Matrix lower_half(Matrix a) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    a(i, i) /= 2;
    for (std::int64_t j = i + 1; j < a.columns; ++j) a(i, j) = 0;
  }
  return a;
}

/// L + dL = L (I + G): G + G' = E - G G' with |E| <= |L^-1| |dA| |L^-T|, solved from below.
Matrix factor_bound(const Matrix& l, const Matrix& da, double g) {
  const Matrix inverse = inverse_magnitude(l), size = magnitude(l);
  const Matrix square = product(size, transposed(size));
  Matrix found(l.rows, l.rows);
  double rate = 0;
  for (int turn = 0; turn < 8; ++turn) {
    Matrix change = square;
    for (std::size_t i = 0; i < change.elements.size(); ++i)
      change.elements[i] = g * (1 + rate) * (1 + rate) * change.elements[i] + da.elements[i];
    Matrix e = product(product(inverse, change), transposed(inverse));
    const Matrix own = product(found, transposed(found));
    for (std::size_t i = 0; i < e.elements.size(); ++i) e.elements[i] += own.elements[i];
    found = lower_half(std::move(e));
    const double next = largest_row(found);
    if (!(next < 0.5)) {
      std::ranges::fill(found.elements, infinite);
      return found;
    }
    if (next <= rate * 1.001) break;
    rate = next;
  }
  Matrix bound = product(size, found);
  for (double& element : bound.elements) element *= 1.01;  // margin for further iterations
  return bound;
}

Matrix leading(const Matrix& a, std::int64_t n) {
  Matrix c(n, n);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) c(i, j) = a(i, j);
  return c;
}

/// Bound of a factor whose pivot number `bad` is NaN; the part before it has the usual bound. If the pivot's error
/// cannot lift it to zero, the pivot is negative, and the rest is NaN; otherwise the rest is unbounded.
Matrix broken_bound(const Matrix& a, const Matrix& l, const Matrix& da, std::int64_t bad, double g) {
  Matrix bound(l.rows, l.rows);
  std::ranges::fill(bound.elements, infinite);
  const Matrix first = factor_bound(leading(l, bad), leading(da, bad), g);
  for (std::int64_t i = 0; i < bad; ++i)
    for (std::int64_t j = 0; j < bad; ++j) bound(i, j) = first(i, j);
  double pivot = a(bad, bad), size = std::fabs(pivot) * g + da(bad, bad), sum = 0;
  const Matrix inverse = inverse_magnitude(leading(l, bad));
  for (std::int64_t k = 0; k < bad; ++k) {
    pivot -= l(bad, k) * l(bad, k);
    // The row is a solution of the factor before it: its error is at most that of the substitution.
    double error = 0;
    for (std::int64_t j = 0; j <= k; ++j)
      for (std::int64_t i = 0; i <= j; ++i)
        error += inverse(k, j) * (first(j, i) + g * std::fabs(l(j, i))) * std::fabs(l(bad, i));
    sum += 2 * std::fabs(l(bad, k)) * error + g * l(bad, k) * l(bad, k);
  }
  size += 2 * sum;
  if (!(pivot < -size)) return bound;
  for (std::int64_t i = 0; i < l.rows; ++i)
    for (std::int64_t j = bad; j < l.rows; ++j) bound(i, j) = 0;  // NaN, or the zero of the other triangle
  return bound;
}

Matrix cholesky_bound(const Matrix& a, const Matrix& l, const Matrix& da, double g) {
  for (std::int64_t i = 0; i < l.rows; ++i)
    if (!(l(i, i) > 0)) return broken_bound(a, l, da, i, g);
  return factor_bound(l, da, g);
}

Array deviations(const Bounded& operand) {
  return operand.error.empty() ? Array(DType::f64, operand.value.shape()) : operand.error;
}

}  // namespace

std::vector<Array> solve_bounds(const Op& op, const std::vector<Bounded>& operands, const Array& result) {
  const Attributes& attributes = op.attributes;
  const bool lower = attributes.flag("lower", true), factors = attributes.text("mode") == "cholesky";
  const std::int64_t n = operands[0].value.shape().back();
  const double g = gamma(n + 1, unit_of(result));
  const Array a = operands[0].value.to(DType::f64), da = deviations(operands[0]), y = result.to(DType::f64);
  Array bound(DType::f64, result.shape());
  const std::int64_t count = n == 0 ? 0 : a.size() / (n * n);
  const Array db = factors ? Array() : deviations(operands[1]);
  for (std::int64_t i = 0; i < count; ++i) {
    if (factors) {
      put(cholesky_bound(matrix_of(a, i, !lower), matrix_of(y, i, !lower), matrix_of(da, i, !lower), g), bound, i,
          !lower);
      continue;
    }
    const bool left = attributes.flag("left_side", true), unit = attributes.flag("unit_diagonal");
    const bool turned = left == attributes.flag("transpose_a"), backward = lower == turned;
    Matrix t = matrix_of(a, i, turned), dt = matrix_of(da, i, turned), x = matrix_of(y, i, !left),
           dx = matrix_of(db, i, !left);
    if (backward) {
      t = reversed(t, true), dt = reversed(dt, true);
      x = reversed(x, false), dx = reversed(dx, false);
    }
    t = triangle(std::move(t), unit), dt = triangle(std::move(dt), false);
    if (unit)
      for (std::int64_t k = 0; k < n; ++k) dt(k, k) = 0;
    const Matrix e = substitution_bound(t, dt, x, dx, g);
    put(backward ? reversed(e, false) : e, bound, i, !left);
  }
  return {std::move(bound)};
}

}  // namespace tilesim::validate
