// Units of cores that queues control, with time and work in each state.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/report/result.hpp"

namespace tilesim::engine {

enum class UnitKind : std::uint8_t { load, store, array, vector, cross_lane, send, other };
const char* name(UnitKind kind);

/// Busy time of kernels to which a unit adds.
enum class KernelTime : std::uint8_t { none, array, vector };

/// The unit of a queue, for all cores.
struct UnitSort {
  std::string queue, name;
  UnitKind kind = UnitKind::other;
  KernelTime counts_as = KernelTime::none;
  std::int64_t number = 0;  ///< index of load1, mma0, ..; -1: no number
  std::int32_t first = 0;   ///< first type with the same unit name: they share the units
};

struct Unit {
  std::int32_t sort = 0;
  UnitKind kind = UnitKind::other;
  KernelTime counts_as = KernelTime::none;
  std::int64_t core = 0;
  std::int64_t busy_until = 0;  ///< several queues (contexts) may share a unit
  std::array<std::int64_t, unit_state_count> cycles{};
  std::int64_t operations = 0, bytes = 0;
  double work = 0;
  double array_multiply_adds = 0;  ///< including idle rows and columns at array edges
};

/// All units that jobs have used. Names are looked up when a program is loaded, not during events.
class Units {
 public:
  std::int32_t sort(const std::string& queue);  ///< number of the queue's type, which is added if new
  const UnitSort& named(std::int32_t sort) const { return sorts_[static_cast<std::size_t>(sort)]; }
  std::int32_t find(std::int64_t core, std::int32_t sort);  ///< number of the unit, which is added if new
  std::string name(const Unit& unit) const;                 ///< "core0.array1"
  Unit& operator[](std::int32_t unit) { return units_[static_cast<std::size_t>(unit)]; }
  const Unit& operator[](std::int32_t unit) const { return units_[static_cast<std::size_t>(unit)]; }
  const std::vector<Unit>& all() const { return units_; }
  /// Records that a core's DMA engines move bytes between two times, in thousandths of a cycle; begin must not precede
  /// the previous one. Returns the added time, since a core's engines may run in parallel.
  std::int64_t pass(std::int64_t core, std::int64_t begin, std::int64_t end);
  std::int64_t longest_passing() const;  ///< busy time of the busiest core's DMA engines, thousandths of a cycle

 private:
  std::vector<UnitSort> sorts_;
  std::map<std::string, std::int32_t> sort_of_;      ///< by queue
  std::map<std::string, std::int32_t> first_of_;     ///< by name
  std::vector<std::vector<std::int32_t>> of_cores_;  ///< per core and type; -1: none yet
  std::vector<Unit> units_;
  struct Passing { std::int64_t until = 0, busy = 0; };
  std::vector<Passing> passing_;  ///< per core
};

}  // namespace tilesim::engine
