// Random numbers that are the same on all platforms.
#pragma once

#include <bit>
#include <cstdint>

namespace tilesim::engine::noc {

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014). Each `stream` of a
/// seed is an independent sequence.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : state_(mix(mix(seed) + stream * golden)) {}

  std::uint64_t next() { return mix(state_ += golden); }
  /// Uniform integer below `count` > 0; probabilities have a relative error of at most count / 2^32.
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>((next() >> 32) * count >> 32); }
  /// Uniform multiple of 2^-53 in (0, 1].
  double unit() { return static_cast<double>((next() >> 11) + 1) * 0x1p-53; }
  bool coin() { return next() >> 63 != 0; }

 private:
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

/// Natural logarithm of a positive normal number. It uses correctly rounded operations only, so every platform returns
/// the same bits. Relative error below 1e-13. x = 2^e * m, log m = series of 2 atanh((m-1)/(m+1)).
inline double portable_log(double x) {
  // Finds m in [sqrt(1/2), sqrt(2)) without a branch.
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto exponent = static_cast<std::int64_t>(bits - std::bit_cast<std::uint64_t>(0.7071067811865476)) >> 52;
  const auto m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 1.0 / 19;
  for (int k = 17; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
  return static_cast<double>(exponent) * 0.6931471805599453 + 2 * s * sum;
}

/// Independent trials with success probability p, represented by the number of failures before each success.
class Bernoulli {
 public:
  /// 0 <= p <= 1
  explicit Bernoulli(double p) : never_(p <= 0), scale_(p >= 1 || p <= 0 ? 0 : 1 / log_of_failure(p)) {}
  /// Number of failures before the next success; at least 4e18 if p is 0.
  std::int64_t failures(Random& random) const {
    if (never_) return std::int64_t{1} << 62;
    const double count = portable_log(random.unit()) * scale_;
    return count < 4e18 ? static_cast<std::int64_t>(count) : std::int64_t{1} << 62;
  }

 private:
  /// log(1 - p); small p use a series, because 1 - p would lose digits.
  static double log_of_failure(double p) {
    if (p > 1e-3) return portable_log(1 - p);
    double sum = 0;
    for (int k = 8; k >= 1; --k) sum = sum * p + 1.0 / k;
    return -sum * p;
  }
  bool never_;
  double scale_;
};

}  // namespace tilesim::engine::noc
