#include "tilesim/isa/kernel/scan_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/kernel/scan_writer.hpp"

namespace tilesim::isa {

using Reach = RegisterForm::Reach;

/// Replaces positions without elements by the neutral element.
void ScanKernelWriter::leave_out(const VectorOutput& output, unsigned value, unsigned scratch) {
  nodes_.set(8);
  code_.op("vlm.v", {0, valid_});
  code_.advance(valid_, stored_elements_ / 8);
  nodes_.neutral(output.combiner, output.view.dtype, nodes_.held(output.node), scratch);
  code_.op("vmerge.vvm", {scratch, scratch, value});
  code_.op("vmv.v.v", {value, scratch});
}

/// Writes one step of `copies` groups, or `copies` steps of a group.
void ScanKernelWriter::body(unsigned copies) {
  for (std::size_t i = 0; i < compute_.nodes.size(); ++i) compute_node(i, copies);
  // all results share one mask, as they reduce the same dims
  bool masked = false;
  for (std::size_t o = 0; o < compute_.outputs.size(); ++o) {
    const VectorOutput& output = compute_.outputs[o];
    const auto node = static_cast<std::size_t>(output.node);
    const Held held = nodes_.held(output.node);
    if (combined(output)) {
      if (form_.ragged && masked)
        throw Unsupported({"no kernel leaves places out for several results", {}, {}, {}, {}});
      masked = form_.ragged;
      // copies values that are needed again, before they are overwritten
      std::vector<unsigned> own = values_[node];
      const bool apart = stays(node) || uses_[node] > 1 || in_carry(node);
      for (unsigned c = 0; apart && c < copies; ++c) {
        own[c] = take();
        nodes_.set(bits_of(held)), code_.op("vmv.v.v", {own[c], values_[node][c]});
      }
      for (unsigned c = 0; masked && c < copies; ++c) leave_out(output, own[c], scratch_[c]);
      if (!form_.stepped())
        finish(output, o, own, copies);
      else
        for (unsigned c = 0; c < copies; ++c) nodes_.combine(output.combiner, held, totals_[o], own[c], scratch_[c]);
      for (unsigned c = 0; apart && c < copies; ++c) groups_.give(own[c]);
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

/// Reduces totals over lanes and rows, combines them with existing results, and stores them.
void ScanKernelWriter::finish(const VectorOutput& output, std::size_t o, const std::vector<unsigned>& totals,
                              unsigned copies) {
  const Held held = nodes_.held(output.node);
  if (is_floating(held) != is_float(output.view.dtype))
    throw Unsupported({"no kernel combines integers as floats", {}, {}, {}, {}});
  const int id = static_cast<int>(output.combiner) + (is_floating(held) ? 0 : 4);
  if (static_cast<int>(output.combiner) > 3)
    throw Unsupported({"no kernel combines this way", {}, std::string(name(output.combiner)), {}, {}});
  // steps begin with the neutral element, sums over lanes with 0
  const bool from_first = !form_.stepped() && !form_.lane_reduced && !form_.rows_reduced;
  for (unsigned c = 0; from_first && is_floating(held) && output.combiner == Combiner::add && c < copies; ++c) {
    nodes_.neutral(output.combiner, output.view.dtype, held, scratch_[c]);
    nodes_.combine(output.combiner, held, totals[c], scratch_[c], scratch_[c]);
  }
  nodes_.set(bits_of(held));
  for (unsigned c = 0; form_.lane_reduced && c < copies; ++c) code_.op("xl.reduce", {scratch_[c], totals[c], id});
  for (unsigned c = 0; form_.lane_reduced && c < copies; ++c) code_.op("vmv.v.v", {totals[c], scratch_[c]});
  for (unsigned c = 0; form_.rows_reduced && c < copies; ++c) code_.op("xl.reduce", {scratch_[c], totals[c], id + 8});
  for (unsigned c = 0; form_.rows_reduced && c < copies; ++c) code_.op("vmv.v.v", {totals[c], scratch_[c]});
  for (unsigned c = 0; c < copies; ++c) {
    if (output.accumulate) {
      const unsigned before = take();
      load(output.view.dtype, held, before, output_pointers_[o], scratch_[c]);
      nodes_.combine(output.combiner, held, totals[c], before, scratch_[c]);
      groups_.give(before);
    }
    nodes_.store(output.view.dtype, held, totals[c], output_pointers_[o], scratch_[c]);
    code_.advance(output_pointers_[o], bytes(output.view.dtype));
  }
}

/// Computes the initial values of parts of rows: a first pass over all steps yields totals, the second one the sums.
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
  groups_.give(other);
}

/// Writes the steps of a group, `copies_` at a time; operands per step restart.
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

std::vector<VectorKernel> scan_kernels(const InstructionSet& set, const CoreTiming& core, const VectorCompute& compute,
                                       std::int64_t lanes, const VectorAddresses& at) {
  const int bits = TypedCompute(compute).bits();
  const std::int64_t sublanes = std::max<std::int64_t>(1, core.vlen / 32 / lanes);
  static constexpr std::array<std::pair<int, unsigned>, 9> shapes{
      {{2, 2}, {2, 1}, {1, 4}, {1, 2}, {1, 1}, {0, 8}, {0, 4}, {0, 2}, {0, 1}}};
  std::vector<VectorKernel> found;
  const auto write = [&](const RegisterForm& form, int lmul, unsigned copies) {
    try {
      ScanKernelWriter writer(set, compute, form, at, lmul, copies);
      Kernel kernel = writer.write();
      found.push_back({std::move(kernel), form, writer.inexact()});
    } catch (const OutOfRegisters&) {
      return;
    }
  };
  const bool combines = std::any_of(compute.outputs.begin(), compute.outputs.end(),
                                    [](const VectorOutput& output) { return !output.reduce.empty(); });
  for (const auto& [lmul, copies] : shapes) {
    const std::int64_t rows = (sublanes << lmul) * 32 / bits;
    if (rows < 1) continue;
    const RegisterForm form(compute, lanes, rows, 1, false), cut(compute, lanes, rows);
    // more copies than there are steps, or registers longer than rows
    const bool few = copies > 1 && form.groups * form.steps < copies;
    if (few || (lmul > 0 && cut.groups == 1 && cut.last_rows <= rows / 2)) continue;
    // running sums over the steps of a group depend on each other: copies are of different groups
    const bool beside = form.steps_scanned && form.stepped() && copies > 1;
    if (cut.chunks > 1 && !beside) write(cut, lmul, copies);
    if (lmul > 0 && form.groups == 1 && form.last_rows <= rows / 2) continue;
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
