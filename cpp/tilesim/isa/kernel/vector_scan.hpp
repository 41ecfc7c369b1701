// Running sums in registers.
#pragma once

#include <vector>

#include "tilesim/isa/kernel/vector_form.hpp"
#include "tilesim/isa/kernel/vector_writer.hpp"

namespace tilesim::isa {

class ScanWriter {
 public:
  /// A value and its running sum; `to`, `scratch` and `flags` (of logical sums) must differ from the others.
  struct Registers { unsigned to = 0, from = 0, scratch = 0, flags = 0; };

  ScanWriter(Code& code, NodeWriter& nodes, const RegisterForm& form, const VectorNode& node);

  /// Sets the initial value of sums, before the first step of a group.
  void begin(unsigned carry);
  bool logical() const { return logical_; }
  /// For parts of rows: adds their values to the total; `flags` as above.
  void total(unsigned total, unsigned from, unsigned scratch, unsigned flags);
  /// Replaces each part's total by the total of the preceding parts, in all of its lanes.
  void before(unsigned total, unsigned scratch, unsigned other);
  /// Whether the carry holds the sum, so that `to` is not written.
  bool in_carry() const { return form_.steps_scanned && form_.stepped() && !node_.exclusive; }
  /// Interleaves the instructions of all copies. Carries: one per group (lanes) or per copy (steps); none if a group
  /// has one step.
  void write(const std::vector<Registers>& copies, const std::vector<unsigned>& carries);

 private:
  void along_lanes(const std::vector<Registers>& copies, const std::vector<unsigned>& carries);
  void along_steps(const std::vector<Registers>& copies, const std::vector<unsigned>& carries);
  void bound(const std::vector<Registers>& copies);
  void set() { nodes_.set(bits_of(held_)); }
  void shift(unsigned to, unsigned from, std::int64_t by);
  void join(unsigned to, unsigned x, unsigned y, unsigned scratch) { nodes_.join(combiner_, held_, to, x, y, scratch); }

  Code& code_;
  NodeWriter& nodes_;
  const RegisterForm& form_;
  const VectorNode& node_;
  Combiner combiner_;
  Held held_;
  bool logical_ = false;
};

}  // namespace tilesim::isa
