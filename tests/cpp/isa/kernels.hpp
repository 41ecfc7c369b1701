// What tests of kernels share: a small machine, random shapes, computes for their latencies.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tilesim/isa/latency/latency.hpp"

namespace tilesim::isa {

inline Machine kernel_machine(std::int64_t lanes, std::int64_t sublanes) {
  Machine machine;
  machine.name = "test";
  machine.core.array.rows = machine.core.array.columns = 8;
  machine.core.array.rates = {{DType::f32, 1}};
  machine.core.vector.lanes = lanes, machine.core.vector.sublanes = sublanes;
  return machine;
}

/// A compute of random shape; its memories are those of its operands and of its results.
struct KernelTrial {
  explicit KernelTrial(std::uint32_t seed) : random(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); }
  template <class Choices>
  auto one_of(const Choices& all) {
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(std::size(all))))];
  }

  std::mt19937 random;
  std::vector<std::vector<std::byte>> memories;
};

/// Behind a descriptor.
struct KernelSource final : ComputeSource {
  explicit KernelSource(TileCompute of) : value(std::move(of)) {}
  TileCompute compute() const override { return value; }
  TileCompute value;
};

/// Equal numbers: a NaN is any other, 0 is −0. Of 64 bits integers are compared bit by bit.
inline bool same_values(const std::vector<std::byte>& a, const std::vector<std::byte>& b, DType dtype) {
  if (!is_float(dtype)) return a == b;
  const auto count = a.size() / static_cast<std::size_t>(host_bytes(dtype));
  std::vector<double> left(count), right(count);
  convert(a.data(), dtype, left.data(), DType::f64, static_cast<std::int64_t>(count));
  convert(b.data(), dtype, right.data(), DType::f64, static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i)
    if (!(left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i])))) return false;
  return true;
}

}  // namespace tilesim::isa
