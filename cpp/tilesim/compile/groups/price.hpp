// What operations cost as one kernel, in closed form: what stands in the table of groups.
#pragma once

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

  /// Of operations as one kernel: what is read and stored, each once and without padding; cycles of the longest of
  /// memory at its peak, arrays and vector units, and those of a launch.
  Price of(const std::vector<int>& ops) const;
  /// The bytes of `of`.
  double bytes_of(const std::set<int>& members) const;
  /// Of each as a kernel of its own, less that of all together.
  Price saved(const std::vector<int>& ops) const;
  /// Of one operation on the vector unit.
  double flops(int op) const;
  double memory_cycles(double bytes) const { return bytes / bytes_per_cycle_; }

 private:
  const Op& op(int i) const { return context_.function.ops[static_cast<std::size_t>(i)]; }
  double bytes(ValueId value) const;
  double vector_cycles(int i) const;
  double array_cycles(int i) const;

  const Context& context_;
  const Uses& uses_;
  double bytes_per_cycle_ = 1;  ///< of the memory, in cycles of a core
};

}  // namespace tilesim::lower
