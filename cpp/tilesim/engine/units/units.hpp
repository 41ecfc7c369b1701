// Units of cores, such as arrays and DMA queues, with cycles and work per state.
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

/// The kernel counter of busy time that a unit adds to.
enum class KernelTime : std::uint8_t { none, array, vector };

/// The unit that executes a queue's statements, on any core.
struct UnitSort {
  std::string queue, name;
  UnitKind kind = UnitKind::other;
  KernelTime counts_as = KernelTime::none;
  std::int64_t number = 0;  ///< 1 for load1 or mma1, ...; -1: the name has no number
  std::int32_t first = 0;   ///< index of the first entry with the same unit name; all such queues share the unit
};

struct Unit {
  std::int32_t sort = 0;
  UnitKind kind = UnitKind::other;
  KernelTime counts_as = KernelTime::none;
  std::int64_t core = 0;
  std::int64_t busy_until = 0;  ///< several queues (contexts) may share the unit
  std::array<std::int64_t, unit_state_count> cycles{};
  std::int64_t operations = 0, bytes = 0;
  double work = 0;
  double array_multiply_adds = 0;  ///< multiply-adds including idle rows and columns at edges
};

/// All units that jobs have used. Names are resolved when a program is loaded, not during events.
class Units {
 public:
  std::int32_t sort(const std::string& queue);  ///< index of the queue's entry, which the call adds if it is new
  const UnitSort& named(std::int32_t sort) const { return sorts_[static_cast<std::size_t>(sort)]; }
  std::int32_t find(std::int64_t core, std::int32_t sort);  ///< index of the unit, which the call adds if it is new
  std::string name(const Unit& unit) const;                 ///< "core0.array1"
  Unit& operator[](std::int32_t unit) { return units_[static_cast<std::size_t>(unit)]; }
  const Unit& operator[](std::int32_t unit) const { return units_[static_cast<std::size_t>(unit)]; }
  const std::vector<Unit>& all() const { return units_; }
  /// Records that a core's DMA engines moved bytes from `begin` to `end` (thousandths of a cycle; `begin` must not
  /// fall). Returns the busy time added, which excludes time already recorded for a parallel engine of the core.
  std::int64_t pass(std::int64_t core, std::int64_t begin, std::int64_t end);
  std::int64_t longest_passing() const;  ///< of the core with the busiest DMA engines, in thousandths of a cycle

 private:
  std::vector<UnitSort> sorts_;
  std::map<std::string, std::int32_t> sort_of_;      ///< by queue name
  std::map<std::string, std::int32_t> first_of_;     ///< by unit name
  std::vector<std::vector<std::int32_t>> of_cores_;  ///< per core and entry; -1: not yet used
  std::vector<Unit> units_;
  struct Passing { std::int64_t until = 0, busy = 0; };
  std::vector<Passing> passing_;  ///< per core
};

}  // namespace tilesim::engine
