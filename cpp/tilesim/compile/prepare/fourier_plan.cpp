#include "tilesim/compile/prepare/fourier_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "tilesim/base/shape.hpp"

namespace tilesim::lower {

namespace {

constexpr std::int64_t largest_radix = 1024;  ///< limit on the matrix, which is a constant of the program

double number(std::int64_t i) { return static_cast<double>(i); }

/// Finds the cheapest sequence of radices of each extent, by cycles of units and memory per element.
class Radices {
 public:
  Radices(const Share& machine, double count) : machine_(machine), count_(count) {}

  const FourierPlan& best(std::int64_t extent) {
    if (const auto known = known_.find(extent); known != known_.end()) return known->second;
    FourierPlan plan;
    plan.cycles = extent == 1 ? 0 : std::numeric_limits<double>::infinity();
    for (std::int64_t radix = 2; radix <= std::min(extent, largest_radix); ++radix) {
      if (extent % radix != 0) continue;
      const FourierPlan& rest = best(extent / radix);
      const double cycles = stage(radix) + (radix == extent ? 0 : between()) + rest.cycles;
      if (!(cycles < plan.cycles)) continue;
      plan.cycles = cycles;
      plan.radices = {radix};
      plan.radices.insert(plan.radices.end(), rest.radices.begin(), rest.radices.end());
    }
    return known_[extent] = std::move(plan);
  }

  /// Cycles of a convolution: two transforms, three products by constants, and padding with zeros.
  double around(std::int64_t circle, std::int64_t extent) {
    return number(circle) / number(extent) * (2 * best(circle).cycles + 3 * between());
  }

 private:
  double lanes() const {
    const VectorSpec& vector = machine_.core.vector;
    return number(vector.lanes * vector.sublanes * vector.issue);
  }
  double bytes_per_cycle() const { return number(machine_.core.dma.bytes_per_cycle); }

  /// Cycles of a product with a real matrix of 2 x radix rows and columns.
  double stage(std::int64_t radix) const {
    const VectorSpec& vector = machine_.core.vector;
    const ArraySpec& array = machine_.core.array;
    const double products = 4 * number(radix);
    double rate = lanes() / (vector.multiply + vector.simple);
    const auto listed = array.rates.find(DType::f32);
    const bool exact = array.count > 0 && listed != array.rates.end() && listed->second > 0 &&
                       !rounds_operands(array.numerics, DType::f32) && !array.numerics.multiply_tf32;
    if (exact) {
      const double filled = number(2 * radix) / number(round_up(2 * radix, array.rows)) * number(2 * radix) /
                            number(round_up(2 * radix, array.columns));
      rate = std::max(rate, number(array.count * array.rows * array.columns) * listed->second * filled);
    }
    const double matrix = 16 * number(radix) * number(radix) / std::max(1.0, count_);
    return products / rate + (16 + matrix) / bytes_per_cycle();
  }

  /// Cycles of a complex product by a constant.
  double between() const { return 6 / lanes() + 16 / bytes_per_cycle(); }

  const Share& machine_;
  double count_;
  std::map<std::int64_t, FourierPlan> known_;
};

}  // namespace

FourierPlan plan_fourier(const Share& machine, std::int64_t extent, double count) {
  Radices radices(machine, count);
  FourierPlan plan = radices.best(extent);
  std::int64_t circle = 1;
  while (circle < 2 * extent - 1) circle *= 2;
  if (const double cycles = radices.around(circle, extent); cycles < plan.cycles) {
    plan = radices.best(circle);
    plan.circle = circle;
    plan.cycles = cycles;
  }
  return plan;
}

Turn turn(std::int64_t numerator, std::int64_t denominator, double sign) {
  numerator %= denominator;
  if (4 * numerator % denominator == 0) {  // a multiple of a quarter turn
    static constexpr Turn quarters[4] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    const Turn& exact = quarters[4 * numerator / denominator % 4];
    return {exact.cos, sign * exact.sin};
  }
  const double angle = 2 * std::numbers::pi * number(numerator) / number(denominator);
  return {std::cos(angle), sign * std::sin(angle)};
}

void transform_exactly(std::vector<double>& re, std::vector<double>& im) {
  const std::size_t n = re.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {  // bit-reversed order
    std::size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(re[i], re[j]), std::swap(im[i], im[j]);
  }
  for (std::size_t span = 2; span <= n; span *= 2)
    for (std::size_t start = 0; start < n; start += span)
      for (std::size_t k = 0; k < span / 2; ++k) {
        const Turn w = turn(static_cast<std::int64_t>(k), static_cast<std::int64_t>(span), -1);
        const std::size_t a = start + k, b = a + span / 2;
        const double x = re[b] * w.cos - im[b] * w.sin, y = re[b] * w.sin + im[b] * w.cos;
        re[b] = re[a] - x, im[b] = im[a] - y;
        re[a] += x, im[a] += y;
      }
}

}  // namespace tilesim::lower
