// Regions that a program marks, and the counters of each.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesim::isa {

struct Hart;
struct Op;

struct Counters {
  std::uint64_t instructions = 0, vector_instructions = 0, element_operations = 0;
  std::uint64_t bytes_moved = 0;  ///< by DMA, of the tensor's elements
  // of timed runs
  std::int64_t cycles = 0;
  std::uint64_t operations = 0, bytes_loaded = 0, bytes_stored = 0;

  Counters& operator+=(const Counters& more);
  Counters operator-(const Counters& less) const;
};

/// Who times a run counts more.
class CounterSource {
 public:
  virtual ~CounterSource() = default;
  /// `last`: with the instruction that issued last.
  virtual void count(Counters& to, bool last) const = 0;
};

/// Regions lie within each other: a region that ends is the one that began last.
class Marks {
 public:
  struct Region {
    std::uint16_t number = 0;
    std::int32_t within = -1;  ///< place of the region around it; −1: none
    std::uint64_t times = 0;   ///< it began
    bool open = false;         ///< it had not ended when the run did
    Counters in;
  };

  const CounterSource* source = nullptr;  ///< of a timed run

  /// Throw Trap, illegal: too many within each other; an end of a region that is not the last that began.
  void begin(Hart& hart, const Op& op, std::uint16_t number);
  void end(Hart& hart, const Op& op, std::uint16_t number);
  /// One for each region and the regions around it, in the order of their beginnings; what has not ended counts to
  /// here.
  std::vector<Region> regions(const Hart& hart) const;

 private:
  struct Open {
    std::int32_t region = 0;
    Counters since;
  };
  Counters now(const Hart& hart, bool last) const;

  std::vector<Region> regions_;
  std::vector<Open> open_;
};

}  // namespace tilesim::isa
