// How a vector instruction is declared and carried out.
//
// To add one:
//  1. Say what happens to elements: a struct with `of`, templated on the element type, as `Add` in
//     table_vector_integer.cpp; signed meanings take signed types.
//  2. Turn it into one function per SEW: `same_width<VV, Add, unsigned_types>()` below gives the array that
//     `InstructionInfo::by_width` takes; leave a null where a SEW is reserved (floats at SEW 8). A shape that is not
//     here (widening, reductions, permutations) is one more function template over element types, with a loop by
//     `each` (any order, vectorised) or `each_in_order`; it reads operands by `h.v.at<T>(o.rs2)` and so on:
//     vd = o.rd, vs1 = o.rs1, vs2 = o.rs2, vs3 = o.rd, mask = register 0 unless o.rm, immediate o.imm.
//  3. Write its line: encoding `vector_code(funct6, form)` (or with fields of its own), operand words vd, vs1, vs2,
//     rs1, fs1, simm5, zimm5, vm; then its group rule by `rule(...)`, where each operand says how it takes registers.
//     Everything the rule can say is checked for you once per place and vtype (vector/check.cpp): alignment and size
//     of groups, vill, EEW up to 64, overlaps of vd with sources and with v0 when masked, one register read with two
//     widths; vstart ≠ 0 traps unless the line says `any_vstart`. Traits tell the rest: reads_vd, overlap_never,
//     scalar_destination, sets_vxsat, sets_flags, reads_rounding.
//  4. Never write tails or masked-off elements. What agnostic="ones" asks for is written by the caller, from the rule.
//  5. A vector instruction that traps halfway (a load) sets v.vstart to the element before it throws.
// Floats: h.f[rs1] narrower than 64 bits through unbox (scalar/float.hpp); the processor's own rounding mode and flags
// are those of the hart when `h.frm == h.host`, otherwise soft_float.hpp computes (see scalar/table_float.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

/// Carries out `body(i)` for every active element, in any order: elements must not depend on each other, but vd may be
/// a source.
template <class Body>
inline void each(const Hart& h, const Op& o, Body body) {
  const u64 vl = h.v.vl;
  if (o.rm != 0) {
#pragma GCC ivdep
    for (u64 i = 0; i < vl; ++i) body(i);
    return;
  }
  const u8* mask = h.v.at<u8>(0);
  for (u64 i = 0; i < vl; ++i)
    if ((mask[i >> 3] >> (i & 7) & 1) != 0) body(i);
}

/// The same from element `first` on, one after the other: narrow into wide, sums, whatever may trap.
template <class Body>
inline void each_in_order(const Hart& h, const Op& o, Body body, u64 first = 0) {
  const u64 vl = h.v.vl;
  for (u64 i = first; i < vl; ++i)
    if (o.rm != 0 || h.v.bit(0, i)) body(i);
}

using unsigned_types = std::tuple<u8, u16, u32, u64>;
using signed_types = std::tuple<s8, s16, s32, s64>;

/// vd[i] = F(vs2[i], vs1[i]).
struct VV {
  template <class F, class T>
  static void run(Hart& h, const Op& o) {
    T* d = h.v.at<T>(o.rd);
    const T *a = h.v.at<T>(o.rs2), *b = h.v.at<T>(o.rs1);
    each(h, o, [=](u64 i) { d[i] = F::template of<T>(a[i], b[i]); });
  }
};

/// vd[i] = F(vs2[i], x[rs1]).
struct VX {
  template <class F, class T>
  static void run(Hart& h, const Op& o) {
    T* d = h.v.at<T>(o.rd);
    const T* a = h.v.at<T>(o.rs2);
    const T b = static_cast<T>(h.x[o.rs1]);
    each(h, o, [=](u64 i) { d[i] = F::template of<T>(a[i], b); });
  }
};

/// vd[i] = F(vs2[i], immediate).
struct VI {
  template <class F, class T>
  static void run(Hart& h, const Op& o) {
    T* d = h.v.at<T>(o.rd);
    const T* a = h.v.at<T>(o.rs2);
    const T b = static_cast<T>(o.imm);
    each(h, o, [=](u64 i) { d[i] = F::template of<T>(a[i], b); });
  }
};

/// `Shape::run<F, T>` for each T of `Types`.
template <class Shape, class F, class Types>
constexpr std::array<Execute, 4> same_width() {
  return []<class A, class B, class C, class D>(std::type_identity<std::tuple<A, B, C, D>>) {
    return std::array<Execute, 4>{&Shape::template run<F, A>, &Shape::template run<F, B>, &Shape::template run<F, C>,
                                  &Shape::template run<F, D>};
  }(std::type_identity<Types>{});
}

inline constexpr Group no_group{}, one_group{Group::group, 0}, wide_group{Group::group, 1}, mask_group{Group::mask, 0},
    one_element{Group::element, 0}, wide_element{Group::element, 1};
/// EMUL of an operand whose elements have `bits` bits whatever SEW is.
constexpr Group fixed_group(unsigned bits) { return {Group::fixed, static_cast<s8>(std::countr_zero(bits))}; }
constexpr Group part_group(int halvings) { return {Group::group, static_cast<s8>(-halvings)}; }

constexpr GroupRule rule(Group vd, Group vs2, Group vs1 = no_group, u8 fields = 1) { return {vd, vs1, vs2, fields}; }

/// A vector line: as a scalar one, with a function for each SEW.
inline InstructionInfo& vector_line(Declarations& d, std::string name, const char* operands, Encoding encoding,
                                    const char* timing, std::array<Execute, 4> by_width, GroupRule groups,
                                    std::string description) {
  InstructionInfo& entry = d(std::move(name), operands, encoding, timing, nullptr, std::move(description));
  entry.traits |= is_vector;
  entry.by_width = by_width;
  entry.groups = groups;
  return entry;
}

/// The forms of an instruction with two vector sources of the same width.
enum Forms : u8 { form_vv = 1, form_vx = 2, form_vi = 4 };

/// Declares NAME.vv, .vx and .vi as `forms` say; `constant` is the immediate's word.
template <class F, class Types>
void same_width_family(Declarations& d, const std::string& name, u32 funct6, unsigned forms, const char* timing,
                       const std::string& description, const char* constant = "simm5") {
  if ((forms & form_vv) != 0)
    vector_line(d, name + ".vv", "vd, vs2, vs1, vm", vector_code(funct6, opivv), timing, same_width<VV, F, Types>(),
                rule(one_group, one_group, one_group), description);
  if ((forms & form_vx) != 0)
    vector_line(d, name + ".vx", "vd, vs2, rs1, vm", vector_code(funct6, opivx), timing, same_width<VX, F, Types>(),
                rule(one_group, one_group), description);
  if ((forms & form_vi) != 0)
    vector_line(d, name + ".vi", (std::string("vd, vs2, ") + constant + ", vm").c_str(), vector_code(funct6, opivi),
                timing, same_width<VI, F, Types>(), rule(one_group, one_group), description);
}

}  // namespace tilesim::isa
