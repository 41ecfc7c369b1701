// Closed-form cost of operations as one kernel; the table of fusion candidates reports it.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/plan/uses.hpp"

namespace tilesim::lower {

class GroupPrice {
 public:
  struct Price {
    double bytes = 0, cycles = 0;
    Price& operator+=(const Price& other) {
      bytes += other.bytes, cycles += other.cycles;
      return *this;
    }
    Price& operator-=(const Price& other) {
      bytes -= other.bytes, cycles -= other.cycles;
      return *this;
    }
  };

  GroupPrice(const Context& context, const Uses& uses);

  /// Estimate for the operations as one kernel: bytes loaded and stored, each tensor once; cycles of the longest of
  /// memory at peak bandwidth, arrays and vector units, plus a launch.
  Price price_of(const std::vector<int>& ops) const;
  struct Load {
    ValueId value;
    double bytes;
  };
  /// The tensors that the operations load as one kernel. A tensor counts once for all computes of a product's operand,
  /// and again if operations after the product read it: the tiles differ.
  std::vector<Load> loads_of(const std::set<int>& members) const;
  /// Bytes that the operations load as one kernel.
  double bytes_of(const std::set<int>& members) const;
  /// Estimate of separate kernels minus the estimate of one kernel.
  Price saved(const std::vector<int>& ops) const;
  /// Bytes of a tensor; of a view, the bytes of its source.
  double bytes(ValueId value) const;
  /// Cycles of arrays or vector units with all cores busy; weight tiles of products count as full.
  double computing(const std::vector<int>& ops) const;
  /// Flops of one operation on the vector unit.
  double flops(int op) const;
  double memory_cycles(double bytes) const { return bytes / bytes_per_cycle_; }
  /// The split over cores of a kernel that reduces whole rows; other kernels use all cores.
  struct Rows {
    double cores = 1;       ///< number of cores with rows
    double computing = 0;   ///< cycles of the vector units
    bool one_each = false;  ///< each core holds all its rows at once, so no transfer is hidden
  };
  Rows rows(const std::vector<int>& ops) const;
  /// Memory cycles if this many cores load: a core is limited by the rate of its port.
  double memory_cycles(double bytes, double cores) const {
    return bytes / std::min(bytes_per_cycle_, cores * port_bytes_per_cycle_);
  }

 private:
  const Op& op(int i) const { return context_.function.ops[static_cast<std::size_t>(i)]; }
  std::vector<std::set<int>> sides_of(const std::set<int>& members) const;
  double padded(const Shape& shape) const;
  double lane_padding(const Shape& space) const;
  double vector_cycles(int i) const;
  double functions_of(int i) const;
  Rows divided_rows(const std::vector<int>& ops) const;
  double row_functions(const std::vector<int>& ops, const Shape& space) const;
  const Shape& space_of(int i) const;
  double array_cycles(int i) const;
  double whole_tiles(int i) const;

  const Context& context_;
  const Uses& uses_;
  mutable std::vector<double> computing_;          ///< by operation, on one core; below 0: not computed yet
  mutable std::map<std::vector<int>, Rows> rows_;  ///< by the operations of kernels that reduce rows
  double bytes_per_cycle_ = 1;                     ///< rate of the memory for all cores
  double port_bytes_per_cycle_ = 1;                ///< rate of one core's port
};

}  // namespace tilesim::lower
