// Profile of a run: cycles and work by instruction address.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tilesim/isa/pipeline/recorder.hpp"
#include "tilesim/isa/state/marks.hpp"

namespace tilesim::isa {

/// Attributes to each instruction the cycles by which it extends the end of all issued instructions, as in an in-order
/// core that retires in program order. The rows add up to `Pipeline::drain()`; work hidden behind a longer instruction
/// costs nothing.
class Profile final : public Recorder, public CounterSource {
 public:
  struct Row {
    std::uint64_t address = 0, instructions = 0;
    std::int64_t cycles = 0;
  };
  /// Operations as in `InstructionPlan`, of vector and scalar float instructions, by log2 of the element bytes.
  struct Work {
    std::array<std::uint64_t, 4> operations{};
    std::uint64_t loaded = 0, stored = 0;  ///< bytes
  };

  void issued(const Issue& what) override;
  void trapped(const Op& op) override;

  std::vector<Row> rows() const;  ///< executed instructions by address
  const Work& work() const { return work_; }
  void count(Counters& to, bool last) const override;

 private:
  static constexpr unsigned page_bits = 12;
  struct Counter {
    std::uint64_t instructions = 0;
    std::int64_t cycles = 0;
  };
  using Page = std::array<Counter, (std::size_t{1} << page_bits) / 2>;

  Counter& counter(std::uint64_t address);

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::uint64_t number_ = ~std::uint64_t{0};  ///< number of the last used page
  Page* page_ = nullptr;
  Ticks over_ = 0, before_ = 0;  ///< end of all issued instructions, and without the last one
  Work work_;
};

/// Peak rates of a core's pipes: those of the instruction with the most work per time in each pipe.
struct Peaks {
  std::array<double, 4> operations{};  ///< per cycle, by log2 of the element bytes
  double bytes = 0;                    ///< read and written bytes per cycle
};

Peaks peaks(const InstructionSet& set, const CoreTiming& core);

}  // namespace tilesim::isa
