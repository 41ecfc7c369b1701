// Checks the legality of a vector instruction, once per instruction address and vtype.
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace {

/// Registers of an operand: `count` from `first` on, with elements of 2^width bits (0: a mask).
struct Taken {
  unsigned first = 0, count = 0;
  int width = 0;
  bool fractional = false;  ///< EMUL < 1
  explicit operator bool() const { return count != 0; }
  bool overlaps(const Taken& other) const { return first < other.first + other.count && other.first < first + count; }
};

Taken taken(const Hart& h, const Op& o, Group group, unsigned reg, unsigned fields) {
  const int sew = h.v.type.sew, lmul = h.v.type.lmul;
  Taken t{reg, 1, 0, false};
  switch (group.kind) {
    case Group::none:
      return {};
    case Group::mask:
      return t;
    case Group::whole:
      t.count = 1U << group.scale, t.width = 3;
      break;
    case Group::element:
      t.width = sew + group.scale;
      break;
    case Group::group:
    case Group::fixed: {
      t.width = group.kind == Group::group ? sew + group.scale : group.scale;
      const int emul = t.width - sew + lmul;
      if (emul > 3 || emul < -3) illegal(o, "a register group of more than 8, or less than an eighth");
      t.fractional = emul < 0;
      t.count = emul > 0 ? 1U << emul : 1;
    }
  }
  if (t.width > 6 || t.width < 3) illegal(o, "this element width does not exist");
  if (reg % t.count != 0) illegal(o, "a register group starts at a multiple of its size");
  t.count *= fields;
  if (t.count > 8) illegal(o, "segments need more than 8 registers");
  if (reg + t.count > 32) illegal(o, "a register group goes beyond v31");
  return t;
}

/// A destination may overlap a source of another width only if no element is overwritten before it is read (RISC-V "V"
/// 1.0, section 5.2).
bool may_overlap(const Taken& d, const Taken& s) {
  if (d.width == s.width) return true;
  if (d.width < s.width) return d.first == s.first;
  return !s.fractional && s.first + s.count == d.first + d.count;
}

void check_overlaps(const Op& o, const InstructionInfo& info, const Taken& d, const Taken& a, const Taken& b) {
  const Taken mask{0, 1, 0, false};
  const bool masked = o.rm == 0;
  for (const Taken& s : {a, b}) {
    if (!s) continue;
    if (d && !info.is(is_store) && d.overlaps(s) &&
        (info.is(overlap_never) || (!may_overlap(d, s) && !info.is(scalar_destination))))
      illegal(o, "the destination overlaps a source");
    if (masked && s.width != 0 && s.overlaps(mask)) illegal(o, "v0 is read as a mask and as elements");
  }
  // registers read with two widths, including vd as a source
  if (d && (info.is(reads_vd) || info.is(is_store)))
    for (const Taken& s : {a, b})
      if (s && s.width != d.width && s.overlaps(d)) illegal(o, "a register is read with two element widths");
  if (masked && d && (d.width != 0 || info.is(overlap_never)) && d.overlaps(mask)) {
    if (info.is(is_store)) illegal(o, "v0 is read as a mask and as elements");
    if (!info.is(scalar_destination)) illegal(o, "a masked instruction writes over its mask");
  }
  if (a && b && a.width != b.width && a.overlaps(b)) illegal(o, "a register is read with two element widths");
}

void resolve(Hart& h, const Op& o) {
  const InstructionInfo& info = h.set().info(o.id);
  if ((h.v.vtype >> 63) != 0 && !info.is(ignores_vtype)) illegal(o, "vtype is not set (vill)");
  const Execute found =
      info.meaning != nullptr ? run_meaning : info.by_width[info.is(ignores_vtype) ? 0 : h.v.type.sew - 3U];
  if (found == nullptr) illegal(o, "elements of this width are reserved");
  const GroupRule& rule = info.groups;
  const Taken d = taken(h, o, rule.vd, o.rd, rule.fields), a = taken(h, o, rule.vs2, o.rs2, 1),
              b = taken(h, o, rule.vs1, o.rs1, 1);
  check_overlaps(o, info, d, a, b);
  o.resolved = found;
  o.key = h.v.key & 0xFFFF;
}

/// Whether v0 excludes elements; merges and sums with carry read v0 as an operand of all elements.
bool is_masked(const Hart& h, const Op& o, const InstructionInfo& info) {
  if (o.rm != 0) return false;
  const auto& parts = h.set().parts(h.set().id(info));
  return std::any_of(parts.begin(), parts.end(),
                     [](const OperandPart& part) { return part.word != nullptr && part.word->sort == Sort::masked; });
}

/// Number of elements below vl that an instruction writes; vcompress writes as many as its mask has ones.
u64 written(const Hart& h, const InstructionInfo& info, const std::vector<u8>& packed) {
  if (info.is(scalar_destination)) return 1;
  if (info.name != "vcompress.vm") return h.v.vl;
  u64 count = 0;
  for (u64 i = 0; i < h.v.vl; ++i) count += packed[i >> 3] >> (i & 7) & 1;
  return count;
}

/// Number of leading elements that an instruction never writes: those below a slide up.
u64 first_element(const Hart& h, const Op& o, const InstructionInfo& info) {
  if (info.name == "vslideup.vi") return static_cast<u64>(o.imm);
  return info.name == "vslideup.vx" ? h.x[o.rs1] : 0;
}

/// Sets agnostic elements to ones; `mask`: v0 before the instruction, `packed`: vs1 before it.
void write_ones(Hart& h, const Op& o, const InstructionInfo& info, const std::vector<u8>& mask,
                const std::vector<u8>& packed) {
  const GroupRule& rule = info.groups;
  if (info.is(is_store) || rule.vd.kind == Group::none || rule.vd.kind == Group::whole || h.v.vl == 0) return;
  const Taken d = taken(h, o, rule.vd, o.rd, 1);
  const bool left_out = h.v.type.mask_agnostic && is_masked(h, o, info);
  if (rule.vd.kind == Group::mask) {                                    // mask tails are always agnostic
    const u64 done = info.is(is_load) ? (h.v.vl + 7) / 8 * 8 : h.v.vl;  // vlm.v loads whole bytes
    for (u64 i = done; i < h.v.vlen; ++i) h.v.set_bit(o.rd, i, true);
    for (u64 i = 0; left_out && i < h.v.vl; ++i)
      if ((mask[i >> 3] >> (i & 7) & 1) == 0) h.v.set_bit(o.rd, i, true);
    return;
  }
  const u64 bytes = u64{1} << (d.width - 3), elements = u64{d.count} * h.v.vlenb / bytes;
  for (unsigned f = 0; f < rule.fields; ++f) {
    u8* to = h.v.at<u8>(o.rd + f * d.count);
    const u64 done = written(h, info, packed);
    if (h.v.type.tail_agnostic && done < elements) std::memset(to + done * bytes, 0xFF, (elements - done) * bytes);
    for (u64 i = first_element(h, o, info); left_out && !info.is(scalar_destination) && i < h.v.vl; ++i)
      if ((mask[i >> 3] >> (i & 7) & 1) == 0) std::memset(to + i * bytes, 0xFF, bytes);
  }
}

void run_slowly(Hart& h, const Op& o) {
  resolve(h, o);
  const InstructionInfo& info = h.set().info(o.id);
  if (h.v.vstart != 0 && !info.is(any_vstart)) illegal(o, "vstart is not 0");
  std::vector<u8> mask, packed;
  if (h.v.ones) mask.assign(h.v.at<u8>(0), h.v.at<u8>(0) + h.v.vlenb);
  if (h.v.ones && o.rs1 < 32) packed.assign(h.v.at<u8>(o.rs1), h.v.at<u8>(o.rs1) + h.v.vlenb);
  o.resolved(h, o);
  if (h.v.ones) write_ones(h, o, info, mask, packed);
  if (h.v.vstart != 0) set_vstart(h.v, 0);
}

}  // namespace

void run_vector(Hart& h, const Op& o) {
  if (h.v.key == o.key) [[likely]]
    o.resolved(h, o);
  else
    run_slowly(h, o);
  ++h.vector_instructions;
  h.element_operations += h.v.vl;
}

}  // namespace tilesim::isa
