// Masks: logic, counts, first set bit, set-before-first, element numbers.
#include "tilesim/isa/vector/mask_results.hpp"

namespace tilesim::isa {

namespace vector_mask {

enum Logic : u8 { and_not, and_, or_, xor_, or_not, nand, nor, xnor };

constexpr u64 combined(u64 a, u64 b, Logic logic) {
  switch (logic) {
    case and_not:
      return a & ~b;
    case and_:
      return a & b;
    case or_:
      return a | b;
    case xor_:
      return a ^ b;
    case or_not:
      return a | ~b;
    case nand:
      return ~(a & b);
    case nor:
      return ~(a | b);
    default:
      return ~(a ^ b);
  }
}

/// Replaces the bits in `where` of the word that starts at element i by those of `value`.
void put(Hart& h, unsigned reg, u64 i, u64 value, u64 where) {
  const u64 bits = (mask_word(h, reg, i) & ~where) | (value & where);
  std::memcpy(h.v.at<u8>(reg) + (i >> 3), &bits, 8);
}

template <Logic logic>
void bitwise(Hart& h, const Op& o) {
  for (u64 i = 0; i < h.v.vl; i += 64)
    put(h, o.rd, i, combined(mask_word(h, o.rs2, i), mask_word(h, o.rs1, i), logic), below(h.v.vl, i));
}

u64 active_at(const Hart& h, const Op& o, u64 i) {
  return below(h.v.vl, i) & (o.rm == 0 ? mask_word(h, 0, i) : ~u64{0});
}

void count(Hart& h, const Op& o) {
  u64 ones = 0;
  for (u64 i = 0; i < h.v.vl; i += 64)
    ones += static_cast<u64>(std::popcount(mask_word(h, o.rs2, i) & active_at(h, o, i)));
  h.x[o.rd] = ones;
}

void first(Hart& h, const Op& o) {
  u64 found = ~u64{0};
  for (u64 i = 0; i < h.v.vl && found == ~u64{0}; i += 64)
    if (const u64 ones = mask_word(h, o.rs2, i) & active_at(h, o, i); ones != 0)
      found = i + static_cast<u64>(std::countr_zero(ones));
  h.x[o.rd] = found;
}

enum class Until : u8 { before, only, including };

/// Sets the bits before the first one of vs2, at it only, or both.
template <Until until>
void around_first(Hart& h, const Op& o) {
  bool found = false;
  for (u64 i = 0; i < h.v.vl; i += 64) {
    const u64 active = active_at(h, o, i), ones = mask_word(h, o.rs2, i) & active;
    const u64 lowest = found ? 0 : ones & (~ones + 1), before = found ? 0 : ones == 0 ? ~u64{0} : lowest - 1;
    put(h, o.rd, i, until == Until::before ? before : until == Until::only ? lowest : before | lowest, active);
    found = found || ones != 0;
  }
}

/// Number of ones of vs2 before each element.
template <class T>
void ones_before(Hart& h, const Op& o) {
  T* d = h.v.at<T>(o.rd);
  T ones = 0;
  each_in_order(h, o, [&](u64 i) {
    d[i] = ones;
    ones = static_cast<T>(ones + (h.v.bit(o.rs2, i) ? 1 : 0));
  });
}

template <class T>
void numbers(Hart& h, const Op& o) {
  T* d = h.v.at<T>(o.rd);
  each(h, o, [=](u64 i) { d[i] = static_cast<T>(i); });
}

constexpr std::array<Execute, 4> any_width(Execute run) { return {run, run, run, run}; }

template <Logic logic>
void declare_logic(Declarations& d, const char* name, const char* description) {
  vector_line(d, name, "vd, vs2, vs1", vector_code(0x18 + logic, opmvv) | field(25, 25, 1), "mask",
              any_width(&bitwise<logic>), rule(mask_group, mask_group, mask_group), description);
}

void declare_unary(Declarations& d, const char* name, u32 funct6, u32 code, Execute run, Group vd, const char* text) {
  vector_line(d, name, vd.kind == Group::none ? "rd, vs2, vm" : "vd, vs2, vm",
              vector_code(funct6, opmvv) | field(19, 15, code), "mask", any_width(run), rule(vd, mask_group), text);
}

}  // namespace vector_mask

void declare_vector_mask(Declarations& d) {
  using namespace vector_mask;
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = 0;
  declare_logic<and_not>(d, "vmandn.mm", "And with the complement of vs1.");
  declare_logic<and_>(d, "vmand.mm", "And.");
  declare_logic<or_>(d, "vmor.mm", "Or.");
  declare_logic<xor_>(d, "vmxor.mm", "Exclusive or.");
  declare_logic<or_not>(d, "vmorn.mm", "Or with the complement of vs1.");
  declare_logic<nand>(d, "vmnand.mm", "And, complemented.");
  declare_logic<nor>(d, "vmnor.mm", "Or, complemented.");
  declare_logic<xnor>(d, "vmxnor.mm", "Exclusive or, complemented.");
  declare_unary(d, "vcpop.m", 0x10, 0x10, &count, no_group, "Number of ones.");
  declare_unary(d, "vfirst.m", 0x10, 0x11, &first, no_group, "Index of the first set element, or −1.");
  d.traits = overlap_never;
  declare_unary(d, "vmsbf.m", 0x14, 1, &around_first<Until::before>, mask_group, "Ones before the first one.");
  declare_unary(d, "vmsof.m", 0x14, 2, &around_first<Until::only>, mask_group, "The first one only.");
  declare_unary(d, "vmsif.m", 0x14, 3, &around_first<Until::including>, mask_group, "Ones up to the first one.");
  constexpr auto before = by_widths<unsigned_types>([]<class T>() -> Execute { return &ones_before<T>; });
  vector_line(d, "viota.m", "vd, vs2, vm", vector_code(0x14, opmvv) | field(19, 15, 0x10), "iota", before,
              rule(one_group, mask_group), "Number of ones before each element.");
  d.traits = 0;
  constexpr auto ids = by_widths<unsigned_types>([]<class T>() -> Execute { return &numbers<T>; });
  vector_line(d, "vid.v", "vd, vm", vector_code(0x14, opmvv) | field(24, 20, 0) | field(19, 15, 0x11), "integer", ids,
              rule(one_group, no_group), "The elements' numbers.");
}

}  // namespace tilesim::isa
