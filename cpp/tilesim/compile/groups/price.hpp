// Closed-form cost of operations as one kernel, for the table of fusion candidates.
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

  /// Estimate for the operations as one kernel. bytes: each tensor loaded or stored once; cycles: the longest of memory
  /// at peak bandwidth, arrays and vector units, plus a launch.
  Price price_of(const std::vector<int>& ops) const;
  struct Load {
    ValueId value;
    double bytes;
  };
  /// The tensors that the operations load as one kernel. A tensor counts once for all computes of a product's operand,
  /// and once more if operations after the product read it, because they use other tiles.
  std::vector<Load> loads_of(const std::set<int>& members) const;
  /// Bytes that the operations load as one kernel.
  double bytes_of(const std::set<int>& members) const;
  /// Estimate of separate kernels minus estimate of one kernel.
  Price saved(const std::vector<int>& ops) const;
  /// Bytes of a tensor; for a view, of its source.
  double bytes(ValueId value) const;
  /// Cycles of arrays or vector units if all cores work; partial weight tiles of products count as full.
  double computing(const std::vector<int>& ops) const;
  /// Flops of one operation on the vector unit.
  double flops(int op) const;
  double memory_cycles(double bytes) const { return bytes / bytes_per_cycle_; }
  /// How a kernel that reduces full rows is split over cores; other kernels use all cores.
  struct Rows {
    double cores = 1;       ///< number of cores with rows
    double computing = 0;   ///< cycles of the vector units
    bool one_each = false;  ///< a core has all its rows on chip at once, so that compute hides no transfer
  };
  Rows rows(const std::vector<int>& ops) const;
  /// Memory cycles if `cores` cores load, each at most at the rate of its port.
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
  mutable std::vector<double> computing_;          ///< per operation on one core; negative: not computed yet
  mutable std::map<std::vector<int>, Rows> rows_;  ///< per kernel that reduces rows, by its operations
  double bytes_per_cycle_ = 1;                     ///< memory bandwidth for all cores
  double port_bytes_per_cycle_ = 1;                ///< bandwidth of one core's port
};

}  // namespace tilesim::lower
