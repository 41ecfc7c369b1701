// Loads, computes and stores values in kernels with running sums.
#include "tilesim/isa/kernel/scan_writer.hpp"

namespace tilesim::isa {

using Reach = RegisterForm::Reach;

/// Whether a value is constant over all steps and groups.
bool ScanKernelWriter::is_hoisted(const VectorNode& node) const {
  if (node.op == VectorNode::Op::constant || node.op == VectorNode::Op::scalar) return true;
  if (!is_loaded(node)) return false;
  const Reach reach = reach_of(node);
  return reach == Reach::one || (reach == Reach::by_step && form_.steps == 1);
}

/// Whether a value is constant at least over the steps of a group.
bool ScanKernelWriter::stays(std::size_t i) const {
  const VectorNode& node = compute_.nodes[i];
  if (is_hoisted(node)) return true;
  if (!form_.stepped() || !is_loaded(node)) return false;
  const Reach reach = reach_of(node);
  return reach == Reach::by_group || reach == Reach::by_row;
}

void ScanKernelWriter::begin() {
  stored_elements_ = form_.elements();
  std::size_t counts = 0;
  for (const VectorNode& node : compute_.nodes) {
    if (!is_loaded(node)) {
      input_pointers_.push_back(0);
      continue;
    }
    const Address at =
        node.op == VectorNode::Op::iota ? at_.counts.at(counts++) : at_.inputs[static_cast<std::size_t>(node.index)];
    input_pointers_.push_back(pointer(at));
  }
  for (const Address at : at_.outputs) output_pointers_.push_back(pointer(at));
  if (form_.ragged) valid_ = pointer(at_.valid);
  values_.assign(compute_.nodes.size(), {});
  for (unsigned c = 0; c < copies_; ++c) scratch_.push_back(take());
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i) {
    const VectorNode& node = compute_.nodes[i];
    if (!is_hoisted(node)) continue;
    values_[i].assign(copies_, take());
    if (is_loaded(node))
      load(dtype_of(node), nodes_.held(static_cast<int>(i)), values_[i][0], input_pointers_[i], scratch_[0]);
    else
      nodes_.constant(node, values_[i][0]);
  }
  if (form_.stepped())
    for (const VectorOutput& output : compute_.outputs) totals_.push_back(combined(output) ? take() : 0);
  carries_.resize(compute_.nodes.size());
  for (std::size_t i = 0; form_.stepped() && i < compute_.nodes.size(); ++i)
    for (std::int64_t c = 0; compute_.nodes[i].op == VectorNode::Op::scan && c < form_.side; ++c)
      carries_[i].push_back(take());
}

/// Loads a value, widens it to its node's representation, and sets vl for that.
void ScanKernelWriter::load(DType dtype, Held held, unsigned to, unsigned pointer, unsigned scratch) {
  const Held loaded = held_as(dtype);
  const bool widens = !is_floating(held) && bits_of(loaded) < bits_of(held);
  nodes_.load(dtype, widens ? scratch : to, pointer, widens ? to : scratch);
  if (widens) nodes_.widen(loaded, to, scratch);
  nodes_.set(bits_of(held));
}

/// Loads operands that are constant over the steps of a group.
void ScanKernelWriter::load_group() {
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i) {
    const VectorNode& node = compute_.nodes[i];
    if (!is_loaded(node) || is_hoisted(node)) continue;
    const Reach reach = reach_of(node);
    if (reach != Reach::by_group && reach != Reach::by_row) continue;
    values_[i].assign(copies_, 0);
    for (unsigned c = 0; c < copies_; ++c) {
      unsigned& to = values_[i][c];
      to = c < form_.side ? take() : values_[i][0];
      if (c >= form_.side) continue;
      load(dtype_of(node), nodes_.held(static_cast<int>(i)), to, input_pointers_[i], scratch_[c]);
      if (reach == Reach::by_row) nodes_.spread(to, to);
      code_.advance(input_pointers_[i], bytes(dtype_of(node)));
    }
  }
}

void ScanKernelWriter::compute_node(std::size_t i, unsigned copies) {
  const VectorNode& node = compute_.nodes[i];
  const auto reach = is_loaded(node) ? reach_of(node) : Reach::each;
  if (stays(i)) return;
  values_[i].clear();
  if (node.op == VectorNode::Op::scan) {
    running_sum(i, copies);
    return free_arguments(i);
  }
  const bool shared = is_loaded(node) && form_.side > 1 && reach == Reach::by_step;
  for (unsigned c = 0; c < copies; ++c) values_[i].push_back(shared && c > 0 ? values_[i][0] : take());
  for (unsigned c = 0; c < copies; ++c) {
    const unsigned to = values_[i][c];
    if (shared && c > 0) break;
    if (is_loaded(node)) {
      load(dtype_of(node), nodes_.held(static_cast<int>(i)), to, input_pointers_[i], scratch_[c]);
      if (reach == Reach::by_row) nodes_.spread(to, to);
      code_.advance(input_pointers_[i], bytes(dtype_of(node)));
      continue;
    }
    unsigned arguments[3] = {};
    for (std::size_t a = 0; a < 3; ++a)
      if (node.arguments[a] >= 0) arguments[a] = values_[static_cast<std::size_t>(node.arguments[a])][c];
    if (node.op == VectorNode::Op::convert)
      nodes_.convert(node, to, arguments[0], scratch_[c]);
    else
      nodes_.function(node, to, arguments, scratch_[c]);
  }
  free_arguments(i);
}

/// Frees the registers of arguments whose last use is node `i`.
void ScanKernelWriter::free_arguments(std::size_t i) {
  for (const int argument : compute_.nodes[i].arguments) {
    if (argument < 0 || is_loaded(compute_.nodes[i])) continue;
    const auto a = static_cast<std::size_t>(argument);
    if (last_use_[a] == i && !stays(a)) free_values(a);
  }
}

void ScanKernelWriter::free_values(std::size_t i) {
  if (!in_carry(i))
    for (const unsigned reg : values_[i]) groups_.give(reg);
  values_[i].clear();
}

void ScanKernelWriter::running_sum(std::size_t i, unsigned copies) {
  const auto from = static_cast<std::size_t>(compute_.nodes[i].arguments[0]);
  ScanWriter scan = scan_of(i);
  std::vector<ScanWriter::Registers> all;
  for (unsigned c = 0; c < copies; ++c) {
    const unsigned to = scan.in_carry() ? carries_[i][c] : take();
    values_[i].push_back(to);
    all.push_back({to, values_[from][c], scratch_[c], scan.logical() ? take() : 0});
  }
  scan.write(all, carries_[i]);
  for (const ScanWriter::Registers& one : all)
    if (scan.logical()) groups_.give(one.flags);
}

}  // namespace tilesim::isa
