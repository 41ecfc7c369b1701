// Writes the kernel of a running sum step by step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/kernel/vector_kernel.hpp"
#include "tilesim/isa/kernel/vector_scan.hpp"
#include "tilesim/isa/kernel/vector_writer.hpp"
#include "tilesim/isa/schedule/register_groups.hpp"

namespace tilesim::isa {

/// Writes `copies` steps of a group, or one step of `copies` groups. Throws OutOfRegisters if that needs too many.
class ScanKernelWriter {
 public:
  ScanKernelWriter(const InstructionSet& set, const VectorCompute& compute, const RegisterForm& form,
                   const VectorAddresses& at, int lmul, unsigned copies)
      : compute_(compute),
        form_(form),
        at_(at),
        code_(set),
        nodes_(code_, compute, form.elements(), lmul),
        copies_(copies),
        groups_(lmul),
        last_use_(compute.nodes.size(), 0),
        uses_(compute.nodes.size(), 0) {
    for (std::size_t i = 0; i < compute.nodes.size(); ++i)
      if (takes_arguments(compute.nodes[i]))
        for (const int argument : compute.nodes[i].arguments)
          if (argument >= 0) last_use_[static_cast<std::size_t>(argument)] = i;
    for (const VectorOutput& output : compute.outputs) {
      last_use_[static_cast<std::size_t>(output.node)] = SIZE_MAX;
      ++uses_[static_cast<std::size_t>(output.node)];
    }
  }

  using Reach = RegisterForm::Reach;

  Kernel write();
  const std::string& inexact() const { return nodes_.inexact(); }

 private:
  unsigned take() { return groups_.take(); }
  unsigned pointer(Address address) {
    if (pointers_ == pointer_registers.size())
      throw Unsupported({"no kernel has so many operands", {}, std::to_string(compute_.inputs.size()), "13", {}});
    const unsigned reg = pointer_registers[pointers_++];
    code_.load_constant(reg, static_cast<std::int64_t>(address));
    return reg;
  }
  Reach reach_of(const VectorNode& node) const {
    return node.op == VectorNode::Op::iota ? Reach::each : form_.reaches[static_cast<std::size_t>(node.index)];
  }
  bool is_hoisted(const VectorNode& node) const;
  bool is_loaded(const VectorNode& node) const {
    return node.op == VectorNode::Op::input || node.op == VectorNode::Op::iota;
  }
  static bool takes_arguments(const VectorNode& node) {
    return node.op == VectorNode::Op::function || node.op == VectorNode::Op::convert || node.op == VectorNode::Op::scan;
  }
  ScanWriter scan_of(std::size_t i) { return {code_, nodes_, form_, compute_.nodes[i]}; }
  bool in_carry(std::size_t i) { return compute_.nodes[i].op == VectorNode::Op::scan && scan_of(i).in_carry(); }
  bool combined(const VectorOutput& output) const { return !output.reduce.empty(); }
  DType dtype_of(const VectorNode& node) const {
    return node.op == VectorNode::Op::iota ? DType::i32 : compute_.inputs[static_cast<std::size_t>(node.index)].dtype;
  }
  std::int64_t bytes(DType dtype) const { return stored_elements_ * stored_bits(dtype) / 8; }

  void begin();
  void load(DType dtype, Held held, unsigned to, unsigned pointer, unsigned scratch);
  void load_group();
  void body(unsigned copies);
  void compute_node(std::size_t i, unsigned copies);
  void sums_before();
  void running_sum(std::size_t i, unsigned copies);
  void free_values(std::size_t i);
  void free_arguments(std::size_t i);
  void finish(const VectorOutput& output, std::size_t o, const std::vector<unsigned>& totals, unsigned copies);
  void leave_out(const VectorOutput& output, unsigned value, unsigned scratch);
  bool stays(std::size_t i) const;
  void one_group();

  const VectorCompute& compute_;
  const RegisterForm& form_;
  const VectorAddresses& at_;
  Code code_;
  NodeWriter nodes_;
  unsigned copies_;
  RegisterGroups groups_;
  std::vector<std::size_t> last_use_, uses_;  ///< per node: last node that uses it; number of uses
  std::vector<unsigned> input_pointers_, output_pointers_;
  std::size_t pointers_ = 0;
  std::vector<std::vector<unsigned>> values_;   ///< per node and copy
  std::vector<unsigned> totals_;                ///< per combined output
  std::vector<std::vector<unsigned>> carries_;  ///< per running sum, if groups have several steps
  std::vector<unsigned> scratch_;
  unsigned valid_ = 0;
  std::int64_t stored_elements_ = 0;
};

}  // namespace tilesim::isa
