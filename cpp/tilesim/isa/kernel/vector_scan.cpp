// Hillis, Steele, "Data parallel algorithms", 1986: steps of 2^i lanes, each a shift and an addition.
#include "tilesim/isa/kernel/vector_scan.hpp"

#include <bit>

namespace tilesim::isa {

ScanWriter::ScanWriter(Code& code, NodeWriter& nodes, const RegisterForm& form, const VectorNode& node)
    : code_(code),
      nodes_(nodes),
      form_(form),
      node_(node),
      combiner_(node.combiner),
      held_(nodes.held(node.arguments[0])),
      logical_(node.combiner == Combiner::logical_and || node.combiner == Combiner::logical_or) {
  // operands are 0 or 1
  if (logical_) combiner_ = node.combiner == Combiner::logical_and ? Combiner::minimum : Combiner::maximum;
}

void ScanWriter::begin(unsigned carry) { nodes_.neutral(node_.combiner, node_.dtype, held_, carry); }

void ScanWriter::shift(unsigned to, unsigned from, std::int64_t by) {
  code_.load_constant(t1, by);
  code_.op(node_.reverse ? "xl.down" : "xl.up", {to, from, t1});
}

void ScanWriter::write(const std::vector<Registers>& copies, const std::vector<unsigned>& carries) {
  std::vector<Registers> of = copies;
  for (Registers& one : of) {
    if (!logical_) continue;
    nodes_.flag(held_, one.flags, one.from, one.scratch);
    one.from = one.flags;
  }
  form_.lane_scanned ? along_lanes(of, carries) : along_steps(of, carries);
}

/// Widest step first, so that vacated lanes hold the neutral element in the narrower steps.
void ScanWriter::along_lanes(const std::vector<Registers>& copies, const std::vector<unsigned>& carries) {
  const bool carried = !carries.empty(), apart = node_.exclusive && carried;
  std::vector<unsigned> whole;  // values that the carry needs besides their preceding sums
  for (const Registers& of : copies) begin(of.scratch);
  set();
  std::vector<unsigned> from;
  for (const Registers& of : copies) from.push_back(of.from);
  if (node_.exclusive) {
    for (const Registers& of : copies) begin(of.to);
    for (const Registers& of : copies) shift(of.to, of.from, 1);
    for (std::size_t c = 0; c < copies.size(); ++c) from[c] = copies[c].to;
  }
  const auto width = static_cast<std::uint64_t>(form_.scan_lanes);
  const int steps = std::bit_width(width - 1);
  for (int step = steps; step-- > 0;) {
    for (std::size_t c = 0; c < copies.size(); ++c) shift(copies[c].scratch, from[c], std::int64_t{1} << step);
    for (std::size_t c = 0; c < copies.size(); ++c) {
      join(copies[c].to, from[c], copies[c].scratch, copies[c].scratch);
      from[c] = copies[c].to;
    }
  }
  if (steps == 0)
    for (std::size_t c = 0; c < copies.size(); ++c)
      if (!node_.exclusive) join(copies[c].to, from[c], copies[c].scratch, copies[c].scratch);
  if (!carried) return bound(copies);
  code_.load_constant(t1, node_.reverse ? 0 : form_.lanes - 1);
  for (const Registers& of : copies) {
    if (apart) join(of.scratch, of.to, of.from, of.scratch);
    code_.op("xl.pick", {of.scratch, apart ? of.scratch : of.to, t1});
  }
  for (const Registers& of : copies) {
    join(of.to, of.to, carries[0], of.scratch);
    join(carries[0], carries[0], of.scratch, of.scratch);
  }
}

void ScanWriter::total(unsigned total, unsigned from, unsigned scratch, unsigned flags) {
  if (logical_) nodes_.flag(held_, flags, from, scratch);
  join(total, total, logical_ ? flags : from, scratch);
}

void ScanWriter::before(unsigned total, unsigned scratch, unsigned other) {
  const auto slide = [&](unsigned to, unsigned from, std::int64_t chunks) {
    begin(to);
    set();
    code_.load_constant(t1, chunks * form_.chunk_elements());
    code_.op("vslideup.vx", {to, from, t1});
  };
  set();
  unsigned from = total;
  if (form_.lane_scanned) {
    code_.op("xl.reduce", {other, total, static_cast<int>(combiner_) + (is_floating(held_) ? 0 : 4)});
    from = other;
  }
  slide(scratch, from, 1);
  code_.op("vmv.v.v", {total, scratch});
  for (std::int64_t by = 1; by < form_.chunks; by *= 2) {
    slide(scratch, total, by);
    join(total, total, scratch, other);
  }
}

/// Limits results by the initial value of the sum, since values may exceed the range of a narrow type.
void ScanWriter::bound(const std::vector<Registers>& copies) {
  const bool extreme = combiner_ == Combiner::maximum || combiner_ == Combiner::minimum;
  if (!extreme || logical_ || is_floating(held_) || bits(node_.dtype) >= bits_of(held_)) return;
  for (const Registers& of : copies) begin(of.scratch);
  for (const Registers& of : copies) join(of.to, of.to, of.scratch, of.scratch);
}

void ScanWriter::along_steps(const std::vector<Registers>& copies, const std::vector<unsigned>& carries) {
  for (std::size_t c = 0; c < copies.size(); ++c) {
    const Registers& of = copies[c];
    if (carries.empty()) {
      begin(node_.exclusive ? of.to : of.scratch);
      if (!node_.exclusive) join(of.to, of.scratch, of.from, of.scratch);
      continue;
    }
    set();
    if (node_.exclusive) code_.op("vmv.v.v", {of.to, carries[c]});
    join(carries[c], carries[c], of.from, of.scratch);
  }
}

}  // namespace tilesim::isa
