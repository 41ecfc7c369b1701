#include "tilesim/isa/kernel/vector_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/kernel/scan_kernel.hpp"
#include "tilesim/isa/kernel/software_pipeline.hpp"
#include "tilesim/isa/kernel/vector_writer.hpp"

namespace tilesim::isa {

namespace {

using Reach = RegisterForm::Reach;
using Scope = SoftwarePipeline::Scope;

constexpr std::array<unsigned, 13> pointer_registers{10, 11, 12, 13, 16, 17, 28, 29, 30, 31, 8, 9, 5};

class VectorKernelWriter {
 public:
  VectorKernelWriter(const InstructionSet& set, const CoreTiming& core, const std::vector<StaticTiming>& timings,
                     const VectorCompute& compute, const RegisterForm& form, const VectorAddresses& at, int lmul)
      : compute_(compute),
        form_(form),
        at_(at),
        lmul_(lmul),
        code_(set),
        nodes_(code_, compute, form.elements(), lmul),
        pipeline_(code_, set, core, timings, space(core), lmul) {}

  Kernel write();
  const std::string& inexact() const { return nodes_.inexact(); }

 private:
  IterationSpace space(const CoreTiming& core) const;
  unsigned register_group() {
    const unsigned reg = next_register_;
    if (reg + (1U << lmul_) > 32) throw SoftwarePipeline::OutOfRegisters{};
    next_register_ += 1U << lmul_;
    return reg;
  }
  /// For a value on its way to a register that stays: one of those of iterations, which come later.
  unsigned aside() {
    aside_ = aside_ == 0 ? 32 - (1U << lmul_) : aside_ - (1U << lmul_);
    return aside_ >= next_register_ + (2U << lmul_) ? aside_ : 0;
  }
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
  bool is_combined(const VectorOutput& output) const { return !output.reduce.empty(); }
  DType dtype_of(const VectorNode& node) const {
    return node.op == VectorNode::Op::iota ? DType::i32 : compute_.inputs[static_cast<std::size_t>(node.index)].dtype;
  }
  std::int64_t bytes(DType dtype) const { return form_.elements() * stored_bits(dtype) / 8; }

  void hoist();
  void load(std::size_t i);
  void compute(std::size_t i);
  void result(std::size_t o);
  template <class WithMask>
  unsigned masked(Section section, std::size_t o, unsigned value, unsigned whole, WithMask with_mask);
  unsigned with_neutral(std::size_t o, unsigned value);
  bool takes_masks() const;
  void finish(const VectorOutput& output, std::size_t o, std::vector<unsigned> totals);

  const VectorCompute& compute_;
  const RegisterForm& form_;
  const VectorAddresses& at_;
  int lmul_;
  Code code_;
  NodeWriter nodes_;
  SoftwarePipeline pipeline_;
  unsigned next_register_ = 0, aside_ = 0;
  std::size_t pointers_ = 0;
  std::vector<unsigned> values_;  ///< of each node: a register where it is hoisted, else a value; 0: not yet
  std::vector<unsigned> input_pointers_, output_pointers_, before_pointers_, valid_pointers_;
  std::vector<unsigned> neutrals_;  ///< of the outputs, where places are left out
  unsigned lanes_pointer_ = 0;
  bool mask_stays_ = false;  ///< in v0: it is the only one
};

IterationSpace VectorKernelWriter::space(const CoreTiming& core) const {
  IterationSpace space;
  space.groups = form_.groups, space.steps = form_.steps, space.block = form_.block;
  space.elements = form_.elements(), space.last_elements = form_.last_rows * form_.lanes;
  if (form_.ragged) space.ragged_from = form_.ragged_from;
  space.totals = form_.totals_for(core.of(TimingClass::floating).latency / cycle, lmul_);
  return space;
}

/// What is the same in all steps of all groups.
bool VectorKernelWriter::is_hoisted(const VectorNode& node) const {
  if (node.op == VectorNode::Op::constant || node.op == VectorNode::Op::scalar) return true;
  if (!is_loaded(node)) return false;
  const Reach reach = reach_of(node);
  return reach == Reach::one || (reach == Reach::by_step && form_.steps == 1);
}

/// Pointers, and what stays in registers.
void VectorKernelWriter::hoist() {
  next_register_ = 1U << lmul_;  // masks stand in v0
  std::size_t counts = 0;
  for (const VectorNode& node : compute_.nodes) {
    unsigned reg = 0;
    if (node.op == VectorNode::Op::iota) reg = pointer(at_.counts.at(counts++));
    if (node.op == VectorNode::Op::input) reg = pointer(at_.inputs[static_cast<std::size_t>(node.index)]);
    input_pointers_.push_back(reg);
  }
  for (std::size_t o = 0; o < compute_.outputs.size(); ++o) {
    output_pointers_.push_back(pointer(at_.outputs[o]));
    before_pointers_.push_back(compute_.outputs[o].accumulate ? pointer(at_.outputs[o]) : 0);
    valid_pointers_.push_back(form_.ragged && is_combined(compute_.outputs[o]) ? pointer(at_.valid) : 0);
  }
  values_.assign(compute_.nodes.size(), 0);
  bool relu = false;
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i) {
    const VectorNode& node = compute_.nodes[i];
    relu |= node.op == VectorNode::Op::function && node.function == Function::relu;
    if (!is_hoisted(node)) continue;
    values_[i] = register_group();
    if (is_loaded(node))
      nodes_.load(dtype_of(node), values_[i], input_pointers_[i], aside());
    else
      nodes_.constant(node, values_[i]);
  }
  if (relu) nodes_.keep_zero(register_group());
  for (const VectorOutput& output : compute_.outputs) {
    neutrals_.push_back((form_.ragged || form_.lanes_at_end) && is_combined(output) ? register_group() : 0);
    if (neutrals_.back() != 0)
      nodes_.neutral(output.combiner, output.view.dtype, nodes_.held(output.node), neutrals_.back());
  }
  if (form_.lanes_at_end) lanes_pointer_ = pointer(at_.lanes_there);
  const bool one_step = form_.ragged && form_.ragged_from == form_.steps - 1;
  mask_stays_ = (form_.lanes_at_end ? !form_.ragged : one_step) && !takes_masks();
  if (!mask_stays_) return;
  for (const unsigned at : valid_pointers_)
    if (at != 0 || form_.lanes_at_end) {
      nodes_.set(8);
      code_.op("vlm.v", {0, form_.lanes_at_end ? lanes_pointer_ : at});
      break;
    }
}

/// Whether a node, or what stores a result, makes masks of its own.
bool VectorKernelWriter::takes_masks() const {
  const auto of_node = [&](const VectorNode& node) {
    if (node.op == VectorNode::Op::convert) return !is_float(node.dtype);
    if (node.op != VectorNode::Op::function) return false;
    return info(node.function).returns_boolean || node.function == Function::select ||
           node.function == Function::round_even || node.function == Function::trunc;
  };
  const auto of_result = [](const VectorOutput& output) { return !is_float(output.view.dtype); };
  return std::any_of(compute_.nodes.begin(), compute_.nodes.end(), of_node) ||
         std::any_of(compute_.outputs.begin(), compute_.outputs.end(), of_result);
}

/// An operand at its first use.
void VectorKernelWriter::load(std::size_t i) {
  const VectorNode& node = compute_.nodes[i];
  const Reach reach = reach_of(node);
  const DType dtype = dtype_of(node);
  const auto place = [&](Section section, std::int64_t step) {
    pipeline_.begin(section);
    const unsigned narrow = stored_bits(dtype) < 32 ? pipeline_.value() : 0;
    const unsigned loaded = reach == Reach::by_row ? pipeline_.value() : values_[i];
    nodes_.load(dtype, loaded, input_pointers_[i], narrow, step);
    if (reach == Reach::by_row) nodes_.set(), nodes_.spread(values_[i], loaded);
    pipeline_.end();
  };
  if (reach == Reach::by_step) {
    values_[i] = pipeline_.value(Scope::step);
    place({Section::first_group, Section::last_step, -1}, bytes(dtype));
    return place({Section::first_group | Section::last_step, 0, -1}, (1 - form_.steps) * bytes(dtype));
  }
  const bool of_group = reach != Reach::each && form_.steps > 1;
  values_[i] = pipeline_.value(of_group ? Scope::group : Scope::iteration);
  place({of_group ? std::uint8_t{Section::first_step} : std::uint8_t{0}, 0, -1}, bytes(dtype));
}

void VectorKernelWriter::compute(std::size_t i) {
  const VectorNode& node = compute_.nodes[i];
  if (values_[i] != 0) return;
  if (is_loaded(node)) return load(i);
  unsigned arguments[3] = {};
  for (std::size_t a = 0; a < 3; ++a) {
    if (node.arguments[a] < 0) continue;
    const auto argument = static_cast<std::size_t>(node.arguments[a]);
    compute(argument);
    arguments[a] = values_[argument];
  }
  values_[i] = pipeline_.value();
  const unsigned scratch = pipeline_.value();
  pipeline_.begin({});
  if (node.op == VectorNode::Op::convert)
    nodes_.convert(node.dtype, nodes_.held(node.arguments[0]), values_[i], arguments[0], scratch);
  else
    nodes_.function(node, values_[i], arguments, scratch);
  pipeline_.end();
}

/// A value of `section` with what changes no total where there is nothing; `with_mask` puts the mask into v0.
template <class WithMask>
unsigned VectorKernelWriter::masked(Section section, std::size_t o, unsigned value, unsigned whole,
                                    WithMask with_mask) {
  pipeline_.begin(section);
  if (!mask_stays_) nodes_.set(8), with_mask();
  nodes_.set();
  code_.op("vmerge.vvm", {whole, neutrals_[o], value});
  pipeline_.end();
  return whole;
}

/// Of the steps in which places have no element.
unsigned VectorKernelWriter::with_neutral(std::size_t o, unsigned value) {
  const unsigned whole = pipeline_.value();
  const std::int64_t mask = form_.elements() / 8;
  const auto then = [&](std::int64_t step) {
    return [this, o, step] { code_.op("vlm.v", {0, valid_pointers_[o]}), code_.advance(valid_pointers_[o], step); };
  };
  if (mask_stays_) return masked({Section::ragged, 0, -1}, o, value, whole, then(0));
  masked({Section::ragged, Section::last_group, -1}, o, value, whole, then(0));
  masked({Section::ragged | Section::last_group, Section::last_step, -1}, o, value, whole, then(mask));
  return masked({Section::ragged | Section::last_group | Section::last_step, 0, -1}, o, value, whole,
                then((form_.ragged_from + 1 - form_.steps) * mask));
}

void VectorKernelWriter::result(std::size_t o) {
  const VectorOutput& output = compute_.outputs[o];
  const auto node = static_cast<std::size_t>(output.node);
  const Held held = nodes_.held(output.node);
  compute(node);
  const unsigned value = values_[node], whole = form_.ragged && is_combined(output) ? with_neutral(o, value) : value;
  if (!is_combined(output) || form_.steps == 1) return finish(output, o, {whole});
  std::vector<unsigned> totals;
  const std::int64_t count = pipeline_.totals();
  for (std::int64_t t = 0; t < count; ++t) {
    totals.push_back(pipeline_.value(Scope::group));
    for (const bool is_ragged : {false, true}) {
      if (is_ragged ? !form_.ragged : form_.ragged && form_.ragged_from == 0) continue;
      const auto with = is_ragged ? std::uint8_t{Section::ragged} : std::uint8_t{0};
      const auto without = form_.ragged && !is_ragged ? std::uint8_t{Section::ragged} : std::uint8_t{0};
      const unsigned more = is_ragged ? whole : value;
      pipeline_.begin({static_cast<std::uint8_t>(with | Section::fresh), without, t});
      nodes_.set();
      code_.op("vmv.v.v", {totals.back(), more});
      pipeline_.end();
      pipeline_.begin({with, static_cast<std::uint8_t>(without | Section::fresh), t});
      nodes_.combine(output.combiner, held, totals.back(), more, more);
      pipeline_.end();
    }
  }
  finish(output, o, totals);
}

/// Totals across lanes and rows, with what was there before, to their places.
void VectorKernelWriter::finish(const VectorOutput& output, std::size_t o, std::vector<unsigned> totals) {
  const Held held = nodes_.held(output.node);
  const Section section{is_combined(output) ? std::uint8_t{Section::last_step} : std::uint8_t{0}, 0, -1};
  const auto next = [&](auto write) {
    pipeline_.begin(section);
    write();
    pipeline_.end();
  };
  while (totals.size() > 1) {
    next([&] { nodes_.combine(output.combiner, held, totals[totals.size() - 2], totals.back(), 0); });
    totals.pop_back();
  }
  unsigned value = totals[0];
  if (is_combined(output) && form_.lanes_at_end)
    value = masked(section, o, value, pipeline_.value(), [&] { code_.op("vlm.v", {0, lanes_pointer_}); });
  if (is_combined(output)) {
    if (held != held_as(output.view.dtype))
      throw Unsupported({"no kernel combines integers as floats", {}, {}, {}, {}});
    const int id = static_cast<int>(output.combiner) + (held == Held::integer ? 4 : 0);
    if (static_cast<int>(output.combiner) > 3)
      throw Unsupported({"no kernel combines so", {}, std::string(name(output.combiner)), {}, {}});
    for (const bool rows : {false, true}) {
      if (!(rows ? form_.rows_reduced : form_.lane_reduced)) continue;
      const unsigned whole = pipeline_.value();
      next([&] { nodes_.set(), code_.op("xl.reduce", {whole, value, id + (rows ? 8 : 0)}); });
      value = whole;
    }
  }
  if (output.accumulate) {
    const unsigned before = pipeline_.value(), narrow = pipeline_.value(), sum = pipeline_.value();
    if (held != held_as(output.view.dtype)) throw Unsupported({"no kernel adds integers to floats", {}, {}, {}, {}});
    next([&] { nodes_.load(output.view.dtype, before, before_pointers_[o], narrow, bytes(output.view.dtype)); });
    next([&] { nodes_.set(), code_.op("vmv.v.v", {sum, value}); });
    next([&] { nodes_.combine(output.combiner, held, sum, before, narrow); });
    value = sum;
  }
  const unsigned scratch = pipeline_.value();
  next([&] {
    nodes_.store(output.view.dtype, held, value, output_pointers_[o], scratch);
    code_.advance(output_pointers_[o], bytes(output.view.dtype));
  });
}

Kernel VectorKernelWriter::write() {
  hoist();
  for (std::size_t o = 0; o < compute_.outputs.size(); ++o) result(o);
  pipeline_.write(next_register_);
  return code_.finish();
}

/// Values that stay for the steps of a group.
std::int64_t held_by_group(const VectorCompute& compute, const RegisterForm& form) {
  std::int64_t held = 0;
  for (const Reach reach : form.reaches) held += reach == Reach::by_group || reach == Reach::by_row ? 1 : 0;
  for (const VectorOutput& output : compute.outputs) held += output.reduce.empty() ? 0 : 1;
  return held;
}

}  // namespace

std::vector<VectorKernel> vector_kernels(const InstructionSet& set, const CoreTiming& core,
                                         const VectorCompute& compute, std::int64_t lanes, const VectorAddresses& at) {
  if (core.vlen < 32 * lanes)
    throw Unsupported({"a vector register is shorter than a row of lanes",
                       {},
                       std::to_string(core.vlen) + " bits",
                       "at least " + std::to_string(32 * lanes),
                       "set core.isa.vlen"});
  if (std::any_of(compute.nodes.begin(), compute.nodes.end(),
                  [](const VectorNode& node) { return node.op == VectorNode::Op::scan; }))
    return scan_kernels(set, core, compute, lanes, at);
  const std::int64_t sublanes = std::max<std::int64_t>(1, core.vlen / 32 / lanes);
  const std::vector<StaticTiming> timings = static_timings(set, core);
  std::vector<VectorKernel> found;
  const auto write = [&](RegisterForm& form, int lmul, std::int64_t most_side_by_side) {
    form.block = std::min(most_side_by_side, form.block_for(held_by_group(compute, form), lmul));
    for (; form.block > 0; form.block /= 2) {
      try {
        VectorKernelWriter writer(set, core, timings, compute, form, at, lmul);
        Kernel kernel = writer.write();
        found.push_back({std::move(kernel), form, writer.inexact()});
        return;
      } catch (const SoftwarePipeline::OutOfRegisters&) {
        continue;
      }
    }
  };
  for (const int lmul : {2, 1, 0}) {
    const std::int64_t rows = sublanes << lmul;
    // longer registers than rows
    const auto too_long = [&](const RegisterForm& form) {
      return lmul > 0 && form.groups == 1 && form.last_rows <= sublanes << (lmul - 1);
    };
    RegisterForm form(compute, lanes, rows), shared(compute, lanes, rows, 1, true, true);
    if (!too_long(form)) write(form, lmul, form.groups);
    // one group after another: registers go to what is spread for the next
    if (shared.steps > form.steps && !too_long(shared)) write(shared, lmul, 1);
  }
  if (found.empty())
    throw Unsupported({"the kernel needs more vector registers than there are",
                       {},
                       std::to_string(compute.nodes.size()) + " nodes",
                       {},
                       {}});
  return found;
}

}  // namespace tilesim::isa
