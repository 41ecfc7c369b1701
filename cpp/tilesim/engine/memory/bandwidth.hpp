// Bytes of several channels over time, in at most `steps` time steps; beyond that, pairs of steps are merged.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesim::engine {

class BandwidthSeries {
 public:
  BandwidthSeries(std::size_t channels, std::int64_t hertz) : hertz_(hertz), bytes_(channels) {}

  void add(std::size_t channel, std::int64_t cycle, std::int64_t bytes) {
    while (cycle >> shift_ >= steps) halve();
    const auto step = static_cast<std::size_t>(cycle >> shift_);
    std::vector<std::int64_t>& series = bytes_[channel];
    if (step >= series.size()) series.resize(step + 1, 0);
    series[step] += bytes;
  }

  std::int64_t hertz() const { return hertz_; }
  std::int64_t step_cycles() const { return std::int64_t{1} << shift_; }
  const std::vector<std::vector<std::int64_t>>& bytes() const { return bytes_; }  ///< per channel and time step

 private:
  static constexpr std::int64_t steps = 256;

  void halve() {
    ++shift_;
    for (std::vector<std::int64_t>& series : bytes_) {
      for (std::size_t i = 0; 2 * i < series.size(); ++i)
        series[i] = series[2 * i] + (2 * i + 1 < series.size() ? series[2 * i + 1] : 0);
      series.resize((series.size() + 1) / 2);
    }
  }

  std::int64_t hertz_ = 1;
  int shift_ = 4;
  std::vector<std::vector<std::int64_t>> bytes_;
};

}  // namespace tilesim::engine
