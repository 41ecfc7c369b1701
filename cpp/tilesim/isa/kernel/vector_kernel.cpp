#include "tilesim/isa/kernel/vector_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/kernel/scan_kernel.hpp"
#include "tilesim/isa/kernel/vector_kernel_writer.hpp"
#include "tilesim/isa/schedule/register_groups.hpp"

namespace tilesim::isa {

namespace {

using Reach = RegisterForm::Reach;
using Scope = SoftwarePipeline::Scope;

}  // namespace

unsigned VectorKernelWriter::pointer(Address address) {
  if (pointers_ == pointer_registers.size())
    throw Unsupported({"no kernel has so many operands", {}, std::to_string(compute_.inputs.size()), "13", {}});
  const unsigned reg = pointer_registers[pointers_++];
  code_.load_constant(reg, static_cast<std::int64_t>(address));
  return reg;
}

/// A temporary register for loading a hoisted value: one of the registers that iterations use later.
unsigned VectorKernelWriter::aside() {
  aside_ = aside_ == 0 ? 32 - (1U << lmul_) : aside_ - (1U << lmul_);
  return aside_ >= next_register_ + (2U << lmul_) ? aside_ : 0;
}

IterationSpace VectorKernelWriter::space(const CoreTiming& core) const {
  IterationSpace space;
  space.groups = form_.groups, space.steps = steps_, space.block = form_.block;
  space.elements = form_.elements(), space.last_elements = form_.last_rows * form_.lanes;
  const std::int64_t latency = core.timing_of(TimingClass::floating).latency / cycle;
  if (form_.ragged && together_ == 1) space.ragged_from = form_.ragged_from;
  auto functions = std::ranges::count(compute_.nodes, VectorNode::Op::function, &VectorNode::op);
  functions += std::ranges::count_if(compute_.outputs, [&](const VectorOutput& one) { return is_combined(one); });
  const std::int64_t least =
      std::max<std::int64_t>(1, functions * together_ / std::max<std::int64_t>(1, core.pipes[0]));
  space.totals =
      ceil_div(std::min(steps_, form_.totals_for(ceil_div(latency, std::max(together_, least)), lmul_)), part_);
  return space;
}

/// Whether a value is constant over all steps and groups.
bool VectorKernelWriter::is_hoisted(const VectorNode& node) const {
  if (node.op == VectorNode::Op::constant || node.op == VectorNode::Op::scalar) return true;
  if (!is_loaded(node)) return false;
  const Reach reach = reach_of(node);
  return reach == Reach::one || (reach == Reach::by_step && form_.steps == 1);
}

bool VectorKernelWriter::differs_by_step(const VectorNode& node) const {
  return is_loaded(node) && form_.steps > 1 && (reach_of(node) == Reach::each || reach_of(node) == Reach::by_step);
}

void VectorKernelWriter::find_differing() {
  for (const VectorNode& node : compute_.nodes) {
    bool differs = differs_by_step(node);
    for (const int argument : node.arguments) differs |= argument >= 0 && differs_[static_cast<std::size_t>(argument)];
    differs_.push_back(differs);
  }
}

bool VectorKernelWriter::may_join(const TypedCompute& typed, const RegisterForm& form, std::int64_t together) {
  if (form.steps % together != 0 || form.steps < together) return false;
  // a single mask, of the last step, may stay in v0
  if (form.ragged && (form.steps != together || form.ragged_from != form.steps - 1)) return false;
  std::int64_t pointers = form.lanes_at_end ? 1 : 0;
  for (const VectorNode& node : typed.compute().nodes) {
    const bool counts = node.op == VectorNode::Op::iota;
    if (!counts && node.op != VectorNode::Op::input) continue;
    const Reach reach = counts ? Reach::each : form.reaches[static_cast<std::size_t>(node.index)];
    pointers += reach == Reach::each || reach == Reach::by_step ? together : 1;
  }
  for (const VectorOutput& output : typed.compute().outputs) {
    if (output.reduce.empty() && output.accumulate) return false;
    pointers += output.reduce.empty() ? together : 1;
    pointers += (output.accumulate ? 1 : 0) + (form.ragged && !output.reduce.empty() ? 1 : 0);
  }
  return pointers <= std::ssize(pointer_registers);
}

void VectorKernelWriter::take_pointers() {
  const auto several = static_cast<std::size_t>(together_);
  input_pointers_.resize(several), output_pointers_.resize(several), values_.resize(several);
  const auto point = [&](std::vector<std::vector<unsigned>>& to, Address address, bool apart, DType dtype) {
    for (std::size_t step = 0; step < several; ++step)
      to[step].push_back(step == 0 || apart ? pointer(address + step * static_cast<Address>(bytes(dtype)))
                                            : to[0].back());
  };
  std::size_t counts = 0;
  for (const VectorNode& node : compute_.nodes) {
    if (is_loaded(node))
      point(
          input_pointers_,
          node.op == VectorNode::Op::iota ? at_.counts.at(counts++) : at_.inputs[static_cast<std::size_t>(node.index)],
          differs_by_step(node), dtype_of(node));
    else
      for (std::vector<unsigned>& of_step : input_pointers_) of_step.push_back(0);
  }
  for (std::size_t o = 0; o < compute_.outputs.size(); ++o) {
    point(output_pointers_, at_.outputs[o], !is_combined(compute_.outputs[o]), compute_.outputs[o].view.dtype);
    before_pointers_.push_back(compute_.outputs[o].accumulate ? pointer(at_.outputs[o]) : 0);
    valid_pointers_.push_back(form_.ragged && is_combined(compute_.outputs[o]) ? pointer(at_.valid) : 0);
  }
}

/// Sets pointers, and loads hoisted values.
void VectorKernelWriter::hoist() {
  find_differing();
  take_pointers();
  next_register_ = 1U << lmul_;  // v0 holds masks
  for (std::vector<unsigned>& of_step : values_) of_step.assign(compute_.nodes.size(), 0);
  bool relu = false;
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i) {
    const VectorNode& node = compute_.nodes[i];
    relu |= node.op == VectorNode::Op::function && node.function == Function::relu;
    if (!is_hoisted(node)) continue;
    const unsigned reg = value_of(i) = register_group();
    if (is_loaded(node))
      nodes_.load(dtype_of(node), reg, input_pointers_[0][i], aside());
    else
      nodes_.constant(node, reg);
  }
  if (relu) nodes_.keep_zero(register_group());
  for (std::size_t o = 0, kept = 0; o < compute_.outputs.size(); ++o)
    if (begins_at_zero(o) && kept++ == 0) nodes_.keep_float_zero();
  for (const VectorOutput& output : compute_.outputs) {
    neutrals_.push_back((form_.ragged || form_.lanes_at_end) && is_combined(output) ? register_group() : 0);
    if (neutrals_.back() != 0) nodes_.identity(output.combiner, typed_.total(neutrals_.size() - 1), neutrals_.back());
  }
  for (const int bits : {32, 64})
    if (std::ranges::any_of(compute_.nodes, [&](const VectorNode& node) {
          return nodes_.checks_divisor(node) && bits_of(typed_.value_at(node).work) == bits;
        }))
      nodes_.keep_divisors(bits, register_group()), checked_ |= bits;
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

/// Whether a node or the store of a result uses a mask of its own.
bool VectorKernelWriter::takes_masks() const {
  const auto of_node = [&](const VectorNode& node) { return nodes_.takes_mask(node); };
  const auto of_result = [](const VectorOutput& output) {
    return is_float(output.view.dtype) && is_logical(output.combiner);
  };
  return std::ranges::any_of(compute_.nodes, of_node) || std::ranges::any_of(compute_.outputs, of_result);
}

/// Loads an operand at its first use.
void VectorKernelWriter::load(std::size_t i) {
  const VectorNode& node = compute_.nodes[i];
  const Reach reach = reach_of(node);
  const DType dtype = dtype_of(node);
  const auto place = [&](Section section, std::int64_t step) {
    pipeline_.begin(section);
    const unsigned narrow = nodes_.loads_aside(dtype) ? pipeline_.value() : 0;
    const unsigned loaded = reach == Reach::by_row ? pipeline_.value() : value_of(i);
    nodes_.load(dtype, loaded, input_pointers_[static_cast<std::size_t>(step_)][i], narrow, step);
    if (reach == Reach::by_row) nodes_.set(bits_of(typed_.value_at(node).held)), nodes_.spread(value_of(i), loaded);
    pipeline_.end();
  };
  if (reach == Reach::by_step && steps_ == 1) {
    value_of(i) = pipeline_.value();
    return place({}, 0);
  }
  if (reach == Reach::by_step) {
    value_of(i) = pipeline_.value(Scope::step);
    place({Section::first_group, Section::last_step, -1}, together_ * bytes(dtype));
    return place({Section::first_group | Section::last_step, 0, -1}, (together_ - form_.steps) * bytes(dtype));
  }
  const bool of_group = reach != Reach::each && steps_ > 1;
  value_of(i) = pipeline_.value(of_group ? Scope::group : Scope::iteration);
  place({of_group ? std::uint8_t{Section::first_step} : std::uint8_t{0}, 0, -1},
        (reach == Reach::each ? together_ : 1) * bytes(dtype));
}

/// The comparison that a select uses as its condition, unless its result is computed already.
const VectorNode* VectorKernelWriter::compared_by(const VectorNode& node) {
  const bool selects = node.op == VectorNode::Op::function && node.function == Function::select &&
                       node.dtype != DType::boolean && code_.set().taken_for(node.function) == nullptr;
  if (!selects) return nullptr;
  const auto condition = static_cast<std::size_t>(node.arguments[0]);
  return value_of(condition) == 0 && nodes_.compares(compute_.nodes[condition]) ? &compute_.nodes[condition] : nullptr;
}

void VectorKernelWriter::compute(std::size_t i) {
  const VectorNode& node = compute_.nodes[i];
  if (value_of(i) != 0) return;
  if (is_loaded(node)) return load(i);
  const auto given = [&](const VectorNode& to, std::size_t from) {
    std::array<unsigned, 3> registers{};
    for (std::size_t a = from; a < 3; ++a) {
      if (to.arguments[a] < 0) continue;
      const auto argument = static_cast<std::size_t>(to.arguments[a]);
      compute(argument);
      registers[a] = value_of(argument);
    }
    return registers;
  };
  const VectorNode* const comparison = compared_by(node);
  const auto compared = comparison == nullptr ? std::array<unsigned, 3>{} : given(*comparison, 0);
  const auto arguments = given(node, comparison == nullptr ? 0 : 1);
  if (nodes_.changes_nothing(node)) {
    value_of(i) = arguments[0];
    return;
  }
  const unsigned to = value_of(i) = pipeline_.value();
  const unsigned scratch = pipeline_.value();
  pipeline_.begin({});
  if (comparison != nullptr)
    nodes_.select_where(node, to, arguments.data(), *comparison, compared.data());
  else if (node.op == VectorNode::Op::convert)
    nodes_.conversion(node, to, arguments[0], scratch);
  else
    nodes_.function(node, to, arguments.data(), scratch);
  pipeline_.end();
}

Kernel VectorKernelWriter::write() {
  hoist();
  for (std::size_t o = 0; o < compute_.outputs.size(); ++o) result(o);
  pipeline_.write(next_register_);
  code_.forget_vl();
  for (const int bits : {32, 64})
    if ((checked_ & bits) != 0) nodes_.refuse_zeros(bits);
  return code_.finish();
}

namespace {

/// Number of values that stay in registers over the steps of a group.
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
  const TypedCompute typed(compute);
  if (std::ranges::any_of(compute.nodes, [](const VectorNode& node) { return node.op == VectorNode::Op::scan; }))
    return scan_kernels(set, core, typed.compute(), lanes, at);
  const std::int64_t sublanes = std::max<std::int64_t>(1, core.vlen / 32 / lanes), narrow = typed.bits() == 64 ? 2 : 1;
  const std::vector<StaticTiming> timings = static_timings(set, core);
  std::vector<VectorKernel> found;
  const auto written = [&](const RegisterForm& form, int lmul, std::int64_t together, std::int64_t part) {
    try {
      VectorKernelWriter writer(set, core, timings, typed, form, at, lmul, together, part);
      Kernel kernel = writer.write();
      found.push_back({std::move(kernel), form, writer.inexact()});
      return true;
    } catch (const SoftwarePipeline::OutOfRegisters&) {
      return false;
    }
  };
  const bool combines =
      std::ranges::any_of(compute.outputs, [](const VectorOutput& output) { return !output.reduce.empty(); });
  const auto write = [&](RegisterForm& form, int lmul, std::int64_t most_side_by_side) {
    form.block = std::min(most_side_by_side, form.block_for(held_by_group(compute, form), lmul));
    for (bool any = false; form.block > 0 && !any; form.block /= 2) {
      any = written(form, lmul, 1, 1);
      // other instructions may hide the latency of sums, and registers are few
      if (combines && form.steps > 1) any |= written(form, lmul, 1, 2);
    }
  };
  // several steps of a group at once need no more registers than one iteration
  const auto write_joined = [&](RegisterForm form, int lmul) {
    form.block = 1;
    for (std::int64_t together = VectorForm::most_together; together > 1; --together)
      if (VectorKernelWriter::may_join(typed, form, together) && written(form, lmul, together, 1)) return;
  };
  for (const int lmul : {2, 1, 0}) {
    const std::int64_t rows = (sublanes << lmul) / narrow;
    if (rows < 1) continue;
    // registers longer than rows
    const auto too_long = [&](const RegisterForm& form) {
      return lmul > 0 && rows > 1 && form.groups == 1 && form.last_rows <= rows / 2;
    };
    RegisterForm form(compute, lanes, rows), shared(compute, lanes, rows, 1, true, true);
    if (!too_long(form)) write(form, lmul, form.groups);
    if (!too_long(form) && combines && form.steps > 1) write_joined(form, lmul);
    // one group after another: registers are needed for the next group's broadcast values
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
