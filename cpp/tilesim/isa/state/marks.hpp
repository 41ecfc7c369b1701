// Regions that a program marks, with the counters of each region.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesim::isa {

struct Hart;
struct Op;

struct Counters {
  std::uint64_t instructions = 0, vector_instructions = 0, element_operations = 0;
  std::uint64_t bytes_moved = 0;  ///< by DMA: bytes of tensor elements
  // only in timed runs
  std::int64_t cycles = 0;
  std::uint64_t operations = 0, bytes_loaded = 0, bytes_stored = 0;

  Counters& operator+=(const Counters& more);
  Counters operator-(const Counters& less) const;
};

/// Additional counters of a timed run.
class CounterSource {
 public:
  virtual ~CounterSource() = default;
  /// `last`: includes the last issued instruction.
  virtual void count(Counters& to, bool last) const = 0;
};

/// Regions are nested: the region that ends is the last one that began.
class Marks {
 public:
  struct Region {
    std::uint16_t number = 0;
    std::int32_t within = -1;  ///< index of the enclosing region; −1: none
    std::uint64_t times = 0;   ///< number of entries
    bool open = false;         ///< the region had not ended at the end of the run
    Counters in;
  };

  const CounterSource* source = nullptr;  ///< set in a timed run

  /// Throws Trap (illegal) for too many nested regions, or for the end of a region that is not the innermost one.
  void begin(Hart& hart, const Op& op, std::uint16_t number);
  void end(Hart& hart, const Op& op, std::uint16_t number);
  /// One entry per region and enclosing regions, in order of their first entry; open regions count up to now.
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
