#include "tilesim/isa/kernel/scan_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/kernel/vector_scan.hpp"
#include "tilesim/isa/kernel/vector_writer.hpp"

namespace tilesim::isa {

namespace {

using Reach = RegisterForm::Reach;

constexpr std::array<unsigned, 13> scan_pointers{10, 11, 12, 13, 16, 17, 28, 29, 30, 31, 8, 9, 5};

/// Register groups of one size, v0 kept for masks.
class ScanGroups {
 public:
  explicit ScanGroups(int lmul) : lmul_(lmul), free_(32U >> lmul, true) {}
  /// −1: none is left.
  int take() {
    for (std::size_t i = 1; i < free_.size(); ++i)
      if (free_[i]) return free_[i] = false, static_cast<int>(i << lmul_);
    return -1;
  }
  void give(int reg) { free_[static_cast<std::size_t>(reg) >> lmul_] = true; }

 private:
  int lmul_;
  std::vector<bool> free_;
};

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

  Kernel write();
  const std::string& inexact() const { return nodes_.inexact(); }

  struct OutOfRegisters {};

 private:
  unsigned take() {
    const int reg = groups_.take();
    if (reg < 0) throw OutOfRegisters{};
    return static_cast<unsigned>(reg);
  }
  unsigned pointer(Address address) {
    if (pointers_ == scan_pointers.size())
      throw Unsupported({"no kernel has so many operands", {}, std::to_string(compute_.inputs.size()), "13", {}});
    const unsigned reg = scan_pointers[pointers_++];
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
  ScanGroups groups_;
  std::vector<std::size_t> last_use_, uses_;  ///< by nodes; by results
  std::vector<unsigned> input_pointers_, output_pointers_;
  std::size_t pointers_ = 0;
  std::vector<std::vector<unsigned>> values_;   ///< of each node, by copy
  std::vector<unsigned> totals_;                ///< of each combined output
  std::vector<std::vector<unsigned>> carries_;  ///< of each running sum, where groups have several steps
  std::vector<unsigned> scratch_;
  unsigned valid_ = 0;
  std::int64_t stored_elements_ = 0;
};

/// What is the same in all steps of all groups.
bool ScanKernelWriter::is_hoisted(const VectorNode& node) const {
  if (node.op == VectorNode::Op::constant || node.op == VectorNode::Op::scalar) return true;
  if (!is_loaded(node)) return false;
  const Reach reach = reach_of(node);
  return reach == Reach::one || (reach == Reach::by_step && form_.steps == 1);
}

/// Over the steps of a group, at least.
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
      nodes_.load(dtype_of(node), values_[i][0], input_pointers_[i], scratch_[0]);
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

/// Operands that stay for the steps of a group.
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
      nodes_.load(dtype_of(node), to, input_pointers_[i], scratch_[c]);
      if (reach == Reach::by_row) nodes_.set(), code_.op("xl.spread", {to, to});
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
      nodes_.load(dtype_of(node), to, input_pointers_[i], scratch_[c]);
      if (reach == Reach::by_row) nodes_.set(), code_.op("xl.spread", {to, to});
      code_.advance(input_pointers_[i], bytes(dtype_of(node)));
      continue;
    }
    unsigned arguments[3] = {};
    for (std::size_t a = 0; a < 3; ++a)
      if (node.arguments[a] >= 0) arguments[a] = values_[static_cast<std::size_t>(node.arguments[a])][c];
    if (node.op == VectorNode::Op::convert)
      nodes_.convert(node.dtype, nodes_.held(node.arguments[0]), to, arguments[0], scratch_[c]);
    else
      nodes_.function(node, to, arguments, scratch_[c]);
  }
  free_arguments(i);
}

/// Of values that no later node takes.
void ScanKernelWriter::free_arguments(std::size_t i) {
  for (const int argument : compute_.nodes[i].arguments) {
    if (argument < 0 || is_loaded(compute_.nodes[i])) continue;
    const auto a = static_cast<std::size_t>(argument);
    if (last_use_[a] == i && !stays(a)) free_values(a);
  }
}

void ScanKernelWriter::free_values(std::size_t i) {
  if (!in_carry(i))
    for (const unsigned reg : values_[i]) groups_.give(static_cast<int>(reg));
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
    if (scan.logical()) groups_.give(static_cast<int>(one.flags));
}

/// Values where nothing is count as neutral.
void ScanKernelWriter::leave_out(const VectorOutput& output, unsigned value, unsigned scratch) {
  nodes_.set(8);
  code_.op("vlm.v", {0, valid_});
  code_.advance(valid_, stored_elements_ / 8);
  nodes_.neutral(output.combiner, output.view.dtype, nodes_.held(output.node), scratch);
  code_.op("vmerge.vvm", {scratch, scratch, value});
  code_.op("vmv.v.v", {value, scratch});
}

/// `copies` steps of a group, or groups of one step, side by side.
void ScanKernelWriter::body(unsigned copies) {
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i) compute_node(i, copies);
  // one mask for all results: they are combined over the same dims
  bool masked = false;
  for (std::size_t o = 0; o < compute_.outputs.size(); ++o) {
    const VectorOutput& output = compute_.outputs[o];
    const auto node = static_cast<std::size_t>(output.node);
    const Held held = nodes_.held(output.node);
    if (combined(output)) {
      if (form_.ragged && masked)
        throw Unsupported({"no kernel leaves places out for several results", {}, {}, {}, {}});
      masked = form_.ragged;
      // what stays, or is another's too, is not written over
      std::vector<unsigned> own = values_[node];
      const bool apart = stays(node) || uses_[node] > 1 || in_carry(node);
      for (unsigned c = 0; apart && c < copies; ++c) {
        own[c] = take();
        nodes_.set(), code_.op("vmv.v.v", {own[c], values_[node][c]});
      }
      for (unsigned c = 0; masked && c < copies; ++c) leave_out(output, own[c], scratch_[c]);
      if (!form_.stepped())
        finish(output, o, own, copies);
      else
        for (unsigned c = 0; c < copies; ++c) nodes_.combine(output.combiner, held, totals_[o], own[c], scratch_[c]);
      for (unsigned c = 0; apart && c < copies; ++c) groups_.give(static_cast<int>(own[c]));
      continue;
    }
    if (output.accumulate) throw Unsupported({"no kernel adds to a result that is not combined", {}, {}, {}, {}});
    for (unsigned c = 0; c < copies; ++c) {
      nodes_.store(output.view.dtype, held, values_[node][c], output_pointers_[o], scratch_[c]);
      code_.advance(output_pointers_[o], bytes(output.view.dtype));
    }
  }
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i) {
    if (!stays(i)) free_values(i);
  }
}

/// Totals across lanes and rows, with what was there before, to their places.
void ScanKernelWriter::finish(const VectorOutput& output, std::size_t o, const std::vector<unsigned>& totals,
                              unsigned copies) {
  const Held held = nodes_.held(output.node);
  if (held != held_as(output.view.dtype)) throw Unsupported({"no kernel combines integers as floats", {}, {}, {}, {}});
  const int id = static_cast<int>(output.combiner) + (held == Held::integer ? 4 : 0);
  if (static_cast<int>(output.combiner) > 3)
    throw Unsupported({"no kernel combines so", {}, std::string(name(output.combiner)), {}, {}});
  nodes_.set();
  for (unsigned c = 0; form_.lane_reduced && c < copies; ++c) code_.op("xl.reduce", {scratch_[c], totals[c], id});
  for (unsigned c = 0; form_.lane_reduced && c < copies; ++c) code_.op("vmv.v.v", {totals[c], scratch_[c]});
  for (unsigned c = 0; form_.rows_reduced && c < copies; ++c) code_.op("xl.reduce", {scratch_[c], totals[c], id + 8});
  for (unsigned c = 0; form_.rows_reduced && c < copies; ++c) code_.op("vmv.v.v", {totals[c], scratch_[c]});
  for (unsigned c = 0; c < copies; ++c) {
    if (output.accumulate) {
      const unsigned before = take();
      nodes_.load(output.view.dtype, before, output_pointers_[o], scratch_[c]);
      nodes_.set();
      nodes_.combine(output.combiner, held, totals[c], before, scratch_[c]);
      groups_.give(static_cast<int>(before));
    }
    nodes_.store(output.view.dtype, held, totals[c], output_pointers_[o], scratch_[c]);
    code_.advance(output_pointers_[o], bytes(output.view.dtype));
  }
}

/// What the parts of rows begin with: all steps are gone through for their totals, then again for the sums.
void ScanKernelWriter::sums_before() {
  std::vector<bool> needed(compute_.nodes.size(), false);
  for (std::size_t i = compute_.nodes.size(); i-- > 0;)
    if (needed[i] || !carries_[i].empty())
      for (const int argument : compute_.nodes[i].arguments)
        if (argument >= 0) needed[static_cast<std::size_t>(argument)] = true;
  const unsigned other = take();
  const auto step = [&] {
    for (std::size_t i = 0; i < compute_.nodes.size(); ++i) {
      if (needed[i]) compute_node(i, 1);
      if (carries_[i].empty()) continue;
      scan_of(i).total(carries_[i][0], values_[static_cast<std::size_t>(compute_.nodes[i].arguments[0])][0],
                       scratch_[0], other);
    }
    for (std::size_t i = 0; i < compute_.nodes.size(); ++i)
      if (!stays(i)) free_values(i);
  };
  if (form_.steps > 2) {
    code_.begin_loop(a4, form_.steps);
    step();
    code_.end_loop();
  } else {
    for (std::int64_t i = 0; i < form_.steps; ++i) step();
  }
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i) {
    if (!carries_[i].empty()) scan_of(i).before(carries_[i][0], scratch_[0], other);
    if (needed[i] && is_loaded(compute_.nodes[i]) && !stays(i))
      code_.advance(input_pointers_[i], -form_.steps * bytes(dtype_of(compute_.nodes[i])));
  }
  groups_.give(static_cast<int>(other));
}

/// Steps of a group, `copies_` side by side; operands by step begin again.
void ScanKernelWriter::one_group() {
  load_group();
  for (std::size_t o = 0; o < compute_.outputs.size(); ++o)
    if (combined(compute_.outputs[o]))
      nodes_.neutral(compute_.outputs[o].combiner, compute_.outputs[o].view.dtype,
                     nodes_.held(compute_.outputs[o].node), totals_[o]);
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i)
    for (const unsigned carry : carries_[i]) scan_of(i).begin(carry);
  if (form_.chunks > 1) sums_before();
  const std::int64_t in_round = form_.side > 1 ? 1 : copies_, rounds = form_.steps / in_round;
  if (rounds > 2) {
    code_.begin_loop(a4, rounds);
    body(copies_);
    code_.end_loop();
  } else {
    for (std::int64_t i = 0; i < rounds; ++i) body(copies_);
  }
  for (std::int64_t i = rounds * in_round; i < form_.steps; ++i) body(1);
  for (std::size_t o = 0; o < compute_.outputs.size(); ++o)
    if (combined(compute_.outputs[o])) finish(compute_.outputs[o], o, {totals_[o]}, 1);
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i) {
    const VectorNode& node = compute_.nodes[i];
    if (!is_loaded(node) || is_hoisted(node)) continue;
    if (reach_of(node) == Reach::by_step) code_.advance(input_pointers_[i], -form_.steps * bytes(dtype_of(node)));
    if (reach_of(node) != Reach::by_group && reach_of(node) != Reach::by_row) continue;
    free_values(i);
  }
}

Kernel ScanKernelWriter::write() {
  begin();
  const std::int64_t full = form_.last_rows < form_.rows ? form_.groups - 1 : form_.groups;
  if (form_.stepped()) {
    if (full > 2) {
      code_.begin_loop(a5, full);
      one_group();
      code_.end_loop();
    } else {
      for (std::int64_t g = 0; g < full; ++g) one_group();
    }
    if (full < form_.groups) nodes_.elements(form_.last_rows * form_.lanes), code_.forget_vl(), one_group();
    return code_.finish();
  }
  const std::int64_t rounds = full / copies_;
  if (rounds > 2) {
    code_.begin_loop(a4, rounds);
    body(copies_);
    code_.end_loop();
  } else {
    for (std::int64_t i = 0; i < rounds; ++i) body(copies_);
  }
  for (std::int64_t i = rounds * copies_; i < full; ++i) body(1);
  if (full < form_.groups) nodes_.elements(form_.last_rows * form_.lanes), code_.forget_vl(), body(1);
  return code_.finish();
}

}  // namespace

std::vector<VectorKernel> scan_kernels(const InstructionSet& set, const CoreTiming& core, const VectorCompute& compute,
                                       std::int64_t lanes, const VectorAddresses& at) {
  const std::int64_t sublanes = std::max<std::int64_t>(1, core.vlen / 32 / lanes);
  static constexpr std::array<std::pair<int, unsigned>, 9> shapes{
      {{2, 2}, {2, 1}, {1, 4}, {1, 2}, {1, 1}, {0, 8}, {0, 4}, {0, 2}, {0, 1}}};
  std::vector<VectorKernel> found;
  const auto write = [&](const RegisterForm& form, int lmul, unsigned copies) {
    try {
      ScanKernelWriter writer(set, compute, form, at, lmul, copies);
      Kernel kernel = writer.write();
      found.push_back({std::move(kernel), form, writer.inexact()});
    } catch (const ScanKernelWriter::OutOfRegisters&) {
      return;
    }
  };
  const bool combines = std::any_of(compute.outputs.begin(), compute.outputs.end(),
                                    [](const VectorOutput& output) { return !output.reduce.empty(); });
  for (const auto& [lmul, copies] : shapes) {
    const std::int64_t rows = sublanes << lmul;
    const RegisterForm form(compute, lanes, rows, 1, false), cut(compute, lanes, rows);
    // more side by side than there are, or longer registers than rows
    const bool few = copies > 1 && form.groups * form.steps < copies;
    if (few || (lmul > 0 && cut.groups == 1 && cut.last_rows <= sublanes << (lmul - 1))) continue;
    // running sums over the steps of a group follow each other: what stands side by side is of other groups
    const bool beside = form.steps_scanned && form.stepped() && copies > 1;
    if (cut.chunks > 1 && !beside) write(cut, lmul, copies);
    if (lmul > 0 && form.groups == 1 && form.last_rows <= sublanes << (lmul - 1)) continue;
    if (!beside)
      write(form, lmul, copies);
    else if (form.groups % copies == 0 && !combines)
      write({compute, lanes, rows, copies, false}, lmul, copies);
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
