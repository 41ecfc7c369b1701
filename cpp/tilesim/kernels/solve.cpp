// linear_solve and fft. Factors, solutions and transforms are computed in f64 and rounded once.
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

/// Golub and Van Loan, Matrix Computations, 4th edition, algorithm 4.2.1, row by row; NaN where a is not positive
/// definite. Reads one triangle of a, writes the lower factor.
void factor(const double* a, double* l, std::int64_t n, bool lower) {
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t column = 0; column <= row; ++column) {
      double sum = lower ? a[row * n + column] : a[column * n + row];
      for (std::int64_t k = 0; k < column; ++k) sum -= l[row * n + k] * l[column * n + k];
      l[row * n + column] = row == column ? std::sqrt(sum) : sum / l[column * n + column];
    }
  }
}

/// x of t x = b in place, t(i, j) given by `element`, forward (lower) or backward substitution.
template <class Element>
void substitute(std::int64_t n, std::int64_t columns, bool lower, bool unit, Element element, double* x) {
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t row = lower ? step : n - 1 - step;
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = x[row * columns + column];
      for (std::int64_t other = 0; other < step; ++other) {
        const std::int64_t k = lower ? other : n - 1 - other;
        sum -= element(row, k) * x[k * columns + column];
      }
      x[row * columns + column] = unit ? sum : sum / element(row, row);
    }
  }
}

Results cholesky(const Call& call) {
  const Array a = call.operand(0).to(DType::f64);
  const std::int64_t n = a.shape().back(), size = n * n;
  const bool lower = call.attributes().flag("lower", true);
  Array result(DType::f64, a.shape());
  for (std::int64_t i = 0; size > 0 && i < a.size() / size; ++i) {
    call.poll();
    double* l = result.as<double>() + i * size;
    factor(a.as<double>() + i * size, l, n, lower);
    if (lower) continue;
    for (std::int64_t row = 0; row < n; ++row)
      for (std::int64_t column = 0; column < row; ++column) std::swap(l[row * n + column], l[column * n + row]);
  }
  return {result.to(call.result().dtype)};
}

Results triangular(const Call& call) {
  const Attributes& attributes = call.attributes();
  const bool left = attributes.flag("left_side", true), transpose = attributes.flag("transpose_a"),
             unit = attributes.flag("unit_diagonal"), lower = attributes.flag("lower", true);
  const Array a = call.operand(0).to(DType::f64);
  const auto rank = static_cast<std::int64_t>(a.shape().size());
  std::vector<std::int64_t> swapped(a.shape().size());
  for (std::int64_t i = 0; i < rank; ++i) swapped[static_cast<std::size_t>(i)] = i;
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  // x op(a) = b is op(a)' x' = b'
  const Array b = call.operand(1).to(DType::f64);
  Array x = (left ? b : permuted(b, swapped)).clone();
  const bool turned = left == transpose;
  const std::int64_t n = a.shape().back(), columns = x.shape().back(), size = n * n;
  for (std::int64_t i = 0; size > 0 && i < a.size() / size; ++i) {
    call.poll();
    const double* t = a.as<double>() + i * size;
    substitute(
        n, columns, lower != turned, unit,
        [&](std::int64_t row, std::int64_t column) { return turned ? t[column * n + row] : t[row * n + column]; },
        x.as<double>() + i * n * columns);
  }
  return {(left ? x : permuted(x, swapped)).to(call.result().dtype)};
}

using Complex = std::complex<double>;

/// Cooley and Tukey 1965 by the smallest prime factor of the extent.
std::vector<Complex> transform(const std::vector<Complex>& x, double sign) {
  const std::size_t n = x.size();
  if (n <= 1) return x;
  std::size_t p = 2;
  while (p * p <= n && n % p != 0) ++p;
  if (n % p != 0) p = n;
  const std::size_t m = n / p;
  std::vector<std::vector<Complex>> parts;
  for (std::size_t r = 0; r < p; ++r) {
    std::vector<Complex> part(m);
    for (std::size_t i = 0; i < m; ++i) part[i] = x[i * p + r];
    parts.push_back(transform(part, sign));
  }
  std::vector<Complex> result(n);
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t r = 0; r < p; ++r)
      result[k] += parts[r][k % m] * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(r * k % n) /
                                                         static_cast<double>(n));
  return result;
}

}  // namespace

Results linear_solve(const Call& call) {
  return call.attributes().text("mode") == "cholesky" ? cholesky(call) : triangular(call);
}

Results fft(const Call& call) {
  const Array re = call.operand(0).to(DType::f64);
  const Array im = call.has(1) ? call.operand(1).to(DType::f64) : Array(DType::f64, re.shape());
  const AxisView view = axis_view(re.shape(), call.attributes().integer("dim"));
  const bool inverse = call.attributes().flag("inverse");
  Array out_re(DType::f64, re.shape()), out_im(DType::f64, re.shape());
  std::vector<Complex> row(static_cast<std::size_t>(view.extent));
  for (std::int64_t i = 0; i < view.outer * view.inner; ++i) {
    call.poll();
    const std::int64_t base = i / view.inner * view.extent * view.inner + i % view.inner;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::int64_t position = base + static_cast<std::int64_t>(k) * view.inner;
      row[k] = {re.as<double>()[position], im.as<double>()[position]};
    }
    const std::vector<Complex> found = transform(row, inverse ? 1 : -1);
    const double scale = inverse ? 1.0 / static_cast<double>(view.extent) : 1;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::int64_t position = base + static_cast<std::int64_t>(k) * view.inner;
      out_re.as<double>()[position] = found[k].real() * scale;
      out_im.as<double>()[position] = found[k].imag() * scale;
    }
  }
  return {out_re.to(call.result(0).dtype), out_im.to(call.result(1).dtype)};
}

}  // namespace tilesim::kernels
