// Writes the kernel of a vector compute with a given register layout.
#pragma once

#include <string>
#include <vector>

#include "tilesim/isa/kernel/vector_kernel.hpp"
#include "tilesim/isa/kernel/vector_writer.hpp"
#include "tilesim/isa/schedule/software_pipeline.hpp"

namespace tilesim::isa {

inline bool is_logical(Combiner combiner) {
  return combiner == Combiner::logical_and || combiner == Combiner::logical_or;
}

class VectorKernelWriter {
 public:
  /// `together`: steps of a group per iteration, a divisor of the number of steps; their values are reduced to one, and
  /// above 1 blocks have one group. `part`: the fraction of the totals that hide the latency of a sum.
  VectorKernelWriter(const InstructionSet& set, const CoreTiming& core, const std::vector<StaticTiming>& timings,
                     const TypedCompute& typed, const RegisterForm& form, const VectorAddresses& at, int lmul,
                     std::int64_t together = 1, std::int64_t part = 1)
      : typed_(typed),
        compute_(typed.compute()),
        form_(form),
        at_(at),
        lmul_(lmul),
        together_(together),
        part_(part),
        steps_(form.steps / together),
        code_(set),
        nodes_(code_, typed, form.elements(), lmul),
        pipeline_(code_, set, core, timings, space(core), lmul) {}

  Kernel write();
  /// Whether this many steps can form one iteration.
  static bool may_join(const TypedCompute& typed, const RegisterForm& form, std::int64_t together);
  const std::string& inexact() const { return nodes_.inexact(); }

 private:
  using Reach = RegisterForm::Reach;
  using Scope = SoftwarePipeline::Scope;

  IterationSpace space(const CoreTiming& core) const;
  unsigned register_group() {
    const unsigned reg = next_register_;
    if (reg + (1U << lmul_) > 32) throw SoftwarePipeline::OutOfRegisters{};
    next_register_ += 1U << lmul_;
    return reg;
  }
  unsigned aside();
  unsigned pointer(Address address);
  Reach reach_of(const VectorNode& node) const {
    return node.op == VectorNode::Op::iota ? Reach::each : form_.reaches[static_cast<std::size_t>(node.index)];
  }
  bool is_hoisted(const VectorNode& node) const;
  /// Whether a loaded operand differs by step.
  bool differs_by_step(const VectorNode& node) const;
  void find_differing();
  unsigned& value_of(std::size_t i) { return values_[differs_[i] ? static_cast<std::size_t>(step_) : 0][i]; }
  unsigned all_steps(std::size_t o);
  bool is_loaded(const VectorNode& node) const {
    return node.op == VectorNode::Op::input || node.op == VectorNode::Op::iota;
  }
  bool is_combined(const VectorOutput& output) const { return !output.reduce.empty(); }
  DType dtype_of(const VectorNode& node) const {
    return node.op == VectorNode::Op::iota ? DType::i32 : compute_.inputs[static_cast<std::size_t>(node.index)].dtype;
  }
  std::int64_t bytes(DType dtype) const { return form_.elements() * stored_bits(dtype) / 8; }

  void take_pointers();
  void hoist();
  void load(std::size_t i);
  void compute(std::size_t i);
  const VectorNode* compared_by(const VectorNode& node);
  void result(std::size_t o);
  template <class WithMask>
  unsigned masked(Section section, std::size_t o, unsigned value, unsigned whole, WithMask with_mask);
  unsigned with_neutral(std::size_t o, unsigned value);
  bool takes_masks() const;
  /// Whether a total is a float sum that must start at 0, because no cross-lane reduction does that.
  bool begins_at_zero(std::size_t o) const;
  void finish(const VectorOutput& output, std::size_t o, std::vector<unsigned> totals);
  unsigned across(const VectorOutput& output, std::size_t o, unsigned value);
  /// Combines with the existing result; `held` becomes the result's representation if that is wider.
  unsigned with_before(const VectorOutput& output, std::size_t o, unsigned value, Held& held);
  unsigned as_combined(const VectorOutput& output, Held held, unsigned value, Section section);
  template <class Write>
  unsigned written(Section section, Write write) {
    const unsigned value = pipeline_.value();
    pipeline_.begin(section);
    write(value);
    pipeline_.end();
    return value;
  }
  static Section last_of(const VectorOutput& output) {
    return {output.reduce.empty() ? std::uint8_t{0} : std::uint8_t{Section::last_step}, 0, -1};
  }

  const TypedCompute& typed_;
  const VectorCompute& compute_;
  const RegisterForm& form_;
  const VectorAddresses& at_;
  int lmul_;
  std::int64_t together_, part_, steps_;
  Code code_;
  NodeWriter nodes_;
  SoftwarePipeline pipeline_;
  unsigned next_register_ = 0, aside_ = 0;
  std::size_t pointers_ = 0;
  std::int64_t step_ = 0;      ///< step within the iteration
  std::vector<bool> differs_;  ///< per node: whether it differs between these steps
  /// Per step of an iteration and node: a register if hoisted, else a value; 0: not computed yet.
  std::vector<std::vector<unsigned>> values_, input_pointers_, output_pointers_;
  std::vector<unsigned> before_pointers_, valid_pointers_;
  std::vector<unsigned> neutrals_;  ///< per output with positions without elements
  unsigned lanes_pointer_ = 0;
  bool mask_stays_ = false;  ///< v0 holds the only mask all the time
  int checked_ = 0;          ///< bits of the widths of divisors that may be 0
};

}  // namespace tilesim::isa
