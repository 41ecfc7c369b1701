// Closed-form cost of operations as one kernel, as the table of fusion candidates reports it.
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

  /// Of operations as one kernel: what is read and stored, each once; cycles of the longest of
  /// memory at its peak, arrays and vector units, and those of a launch.
  Price price_of(const std::vector<int>& ops) const;
  struct Load {
    ValueId value;
    double bytes;
  };
  /// What operations read as one kernel. A tensor is read for what a product computes of either operand, and once more
  /// for what stands at its end: tiles differ.
  std::vector<Load> loads_of(const std::set<int>& members) const;
  /// The bytes of `of`.
  double bytes_of(const std::set<int>& members) const;
  /// Of each as a separate kernel, less that of all together.
  Price saved(const std::vector<int>& ops) const;
  /// Of a tensor, or of what it repeats where it is a view.
  double bytes(ValueId value) const;
  /// Cycles that arrays or vector units take for the operations, all cores at work; products in whole tiles of weights.
  double computing(const std::vector<int>& ops) const;
  /// Of one operation on the vector unit.
  double flops(int op) const;
  double memory_cycles(double bytes) const { return bytes / bytes_per_cycle_; }
  /// How a kernel that reduces rows, which come whole, is divided; others: over all cores.
  struct Rows {
    double cores = 1;       ///< that have rows
    double computing = 0;   ///< cycles of the vector units
    bool one_each = false;  ///< rows of a core come at once: nothing hides behind anything
  };
  Rows rows(const std::vector<int>& ops) const;
  /// Where so many cores move them: none gets more than its port passes.
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
  mutable std::vector<double> computing_;          ///< by operation, of one core; below 0: not known yet
  mutable std::map<std::vector<int>, Rows> rows_;  ///< by operations: of a kernel that reduces rows
  double bytes_per_cycle_ = 1;                     ///< of the memory, for all cores, in cycles of one
  double port_bytes_per_cycle_ = 1;                ///< of one core
};

}  // namespace tilesim::lower
