// How to declare and execute a vector instruction.
//
// To add one:
//  1. Define the operation on elements: a struct with `of`, templated on the element type, like `Add` in
//     table_vector_integer.cpp; signed operations use signed types; a third parameter is the old element of vd.
//  2. Pass it to `family`, which declares .vv, .vx and .vi with one function per SEW. Shapes: `Same`, `Widening`,
//     `WideFirst`, `Narrowing` below. Other shapes (reductions, permutations) need a function template over element
//     types, with a loop by `each` (any order, vectorised) or `each_in_order`; `by_widths` makes the array for
//     `InstructionInfo::by_width`, with null for a reserved SEW. Read operands by `h.v.at<T>(o.rs2)` and so on:
//     vd = o.rd, vs1 = o.rs1, vs2 = o.rs2, vs3 = o.rd, mask = register 0 unless o.rm, immediate o.imm. Read a source
//     of another width than vd by `source`, since their registers may overlap.
//  3. Declare its line: encoding `vector_code(funct6, form)` (or with separate fields), operand words vd, vs1, vs2,
//     rs1, fs1, simm5, zimm5, vm; then its group rule by `rule(...)`, with the registers of each operand.
//     vector/check.cpp checks the rule once per instruction address and vtype: alignment and size
//     of groups, vill, EEW up to 64, overlaps of vd with sources and with a mask in v0, registers read with two
//     widths; vstart ≠ 0 traps unless the line has `any_vstart`. Other traits: reads_vd, overlap_never,
//     scalar_destination, sets_vxsat, sets_flags, reads_rounding.
//  4. Never write tails or masked-off elements. The caller writes agnostic elements, by the rule.
//  5. A vector instruction that traps halfway (a load) sets v.vstart to the current element before it throws.
// Floats: read h.f[rs1] narrower than 64 bits by unbox (scalar/float.hpp). If `h.frm == h.host`, the processor's
// rounding mode and flags are the hart's; otherwise soft_float.hpp computes (see scalar/table_float.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

/// Runs `body(i)` for every active element, in any order: elements must be independent of each other, but vd may be a
/// source.
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

/// The same from element `first` on, in order: for narrow-to-wide results, sums, and operations that may trap.
template <class Body>
inline void each_in_order(const Hart& h, const Op& o, Body body, u64 first = 0) {
  const u64 vl = h.v.vl;
  for (u64 i = first; i < vl; ++i)
    if (o.rm != 0 || h.v.bit(0, i)) body(i);
}

using unsigned_types = std::tuple<u8, u16, u32, u64>;
using signed_types = std::tuple<s8, s16, s32, s64>;

/// The elements of a source; a copy if writes to vd, of another width, would change elements before they are read.
template <class T, class D>
const T* source(Hart& h, const Op& o, unsigned reg, unsigned place) {
  const u64 from = u64{reg} * h.v.vlenb, to = u64{o.rd} * h.v.vlenb;
  const u64 bytes = h.v.vl * sizeof(T), written = h.v.vl * sizeof(D);
  if (sizeof(T) == sizeof(D) || from >= to + written || to >= from + bytes) return h.v.at<T>(reg);
  thread_local std::vector<u64> copies[2];
  std::vector<u64>& copy = copies[place];
  copy.resize((bytes + 7) / 8);
  std::memcpy(copy.data(), h.v.at<u8>(reg), bytes);
  return reinterpret_cast<const T*>(copy.data());
}

template <std::size_t bytes, bool is_signed>
struct IntegerOf;
template <>
struct IntegerOf<1, false> {
  using Type = u8;
};
template <>
struct IntegerOf<1, true> {
  using Type = s8;
};
template <>
struct IntegerOf<2, false> {
  using Type = u16;
};
template <>
struct IntegerOf<2, true> {
  using Type = s16;
};
template <>
struct IntegerOf<4, false> {
  using Type = u32;
};
template <>
struct IntegerOf<4, true> {
  using Type = s32;
};
template <>
struct IntegerOf<8, false> {
  using Type = u64;
};
template <>
struct IntegerOf<8, true> {
  using Type = s64;
};
template <>
struct IntegerOf<16, false> {
  using Type = u128;
};
template <>
struct IntegerOf<16, true> {
  using Type = s128;
};
/// The integer type of twice the width.
template <class T>
using Twice = typename IntegerOf<2 * sizeof(T), std::is_signed_v<T>>::Type;

/// The value of a scalar or immediate operand for every element.
template <class T>
T scalar_operand(const Hart& h, const Op& o) {
  return static_cast<T>((o.bits >> 12 & 7) == opivi ? static_cast<u64>(o.imm) : h.x[o.rs1]);
}

/// vd[i] = F(vs2[i], vs1[i] or scalar), optionally with the old vd[i] as third operand; D, A, B: types of vd, vs2, vs1.
template <class F, class D, class A, class B>
struct Elements {
  static constexpr bool reads_old = requires(A a, B b, D d) { F::template of<D>(a, b, d); };
  static D one(A a, B b, D old) {
    if constexpr (reads_old)
      return F::template of<D>(a, b, old);
    else
      return F::template of<D>(a, b);
  }
  static void vv(Hart& h, const Op& o) {
    D* d = h.v.at<D>(o.rd);
    const A* a = source<A, D>(h, o, o.rs2, 0);
    const B* b = source<B, D>(h, o, o.rs1, 1);
    each(h, o, [=](u64 i) { d[i] = one(a[i], b[i], d[i]); });
  }
  static void vx(Hart& h, const Op& o) {
    D* d = h.v.at<D>(o.rd);
    const A* a = source<A, D>(h, o, o.rs2, 0);
    const B b = scalar_operand<B>(h, o);
    each(h, o, [=](u64 i) { d[i] = one(a[i], b, d[i]); });
  }
};

inline constexpr Group no_group{}, one_group{Group::group, 0}, wide_group{Group::group, 1}, mask_group{Group::mask, 0},
    one_element{Group::element, 0}, wide_element{Group::element, 1};
/// The group of an operand whose elements have `bits` bits for every SEW.
constexpr Group fixed_group(unsigned bits) { return {Group::fixed, static_cast<s8>(std::countr_zero(bits))}; }
constexpr Group part_group(int halvings) { return {Group::group, static_cast<s8>(-halvings)}; }
constexpr Group whole_group(unsigned registers) { return {Group::whole, static_cast<s8>(std::countr_zero(registers))}; }

constexpr GroupRule rule(Group vd, Group vs2, Group vs1 = no_group, u8 fields = 1) { return {vd, vs1, vs2, fields}; }

/// Shapes: operand types for an element type T of SEW bits; `exists`: whether T is a legal SEW.
struct Same {
  template <class T>
  static constexpr bool exists = true;
  template <class F, class T>
  using Loop = Elements<F, T, T, T>;
  static constexpr GroupRule groups = rule(one_group, one_group, one_group);
  static constexpr char letter = 'v';
};
struct Widening {
  template <class T>
  static constexpr bool exists = sizeof(T) < 8;
  template <class F, class T>
  using Loop = Elements<F, Twice<T>, T, T>;
  static constexpr GroupRule groups = rule(wide_group, one_group, one_group);
  static constexpr char letter = 'v';
};
struct WideFirst {
  template <class T>
  static constexpr bool exists = sizeof(T) < 8;
  template <class F, class T>
  using Loop = Elements<F, Twice<T>, Twice<T>, T>;
  static constexpr GroupRule groups = rule(wide_group, wide_group, one_group);
  static constexpr char letter = 'w';
};
struct Narrowing {
  template <class T>
  static constexpr bool exists = sizeof(T) < 8;
  template <class F, class T>
  using Loop = Elements<F, T, Twice<T>, T>;
  static constexpr GroupRule groups = rule(one_group, wide_group, one_group);
  static constexpr char letter = 'w';
};

/// `make<T>()` for each T of `Types`: one function per SEW.
template <class Types, class Make>
constexpr std::array<Execute, 4> by_widths(Make make) {
  return [&]<class A, class B, class C, class D>(std::type_identity<std::tuple<A, B, C, D>>) {
    return std::array<Execute, 4>{make.template operator()<A>(), make.template operator()<B>(),
                                  make.template operator()<C>(), make.template operator()<D>()};
  }(std::type_identity<Types>{});
}

/// Declares a vector instruction: like a scalar one, with one function per SEW.
inline InstructionInfo& vector_line(Declarations& d, std::string name, const std::string& operands, Encoding encoding,
                                    const char* timing, std::array<Execute, 4> by_width, GroupRule groups,
                                    std::string description) {
  InstructionInfo& entry = d(std::move(name), operands, encoding, timing, nullptr, std::move(description));
  entry.traits |= is_vector;
  entry.by_width = by_width;
  entry.groups = groups;
  return entry;
}

/// The forms of an instruction with two vector sources.
enum Forms : u8 { form_vv = 1, form_vx = 2, form_vi = 4 };

struct Family {
  const char* name;
  u32 funct6;
  unsigned forms;
  const char* timing;
  const char* description;
  const char* constant = "simm5";  ///< operand word of the immediate
  VectorForm vector = opivv;       ///< opivv or opmvv
};

/// Declares NAME.vv, .vx, .vi (.wv, .wx, .wi) according to `forms`.
template <class F, class Types, class Shape = Same>
void family(Declarations& d, const Family& line) {
  constexpr auto vv = by_widths<Types>([]<class T>() -> Execute {
    if constexpr (Shape::template exists<T>)
      return &Shape::template Loop<F, T>::vv;
    else
      return nullptr;
  });
  constexpr auto vx = by_widths<Types>([]<class T>() -> Execute {
    if constexpr (Shape::template exists<T>)
      return &Shape::template Loop<F, T>::vx;
    else
      return nullptr;
  });
  const bool swapped = (d.traits & reads_vd) != 0;  // multiply-adds list vs1 before vs2
  const std::string name = std::string(line.name) + "." + Shape::letter;
  const auto operands = [&](const char* second) {
    return swapped ? std::string("vd, ") + second + ", vs2, vm" : std::string("vd, vs2, ") + second + ", vm";
  };
  constexpr GroupRule groups = Shape::groups, scalar = rule(groups.vd, groups.vs2);
  const VectorForm with_x = line.vector == opivv ? opivx : opmvx;
  if ((line.forms & form_vv) != 0)
    vector_line(d, name + "v", operands("vs1"), vector_code(line.funct6, line.vector), line.timing, vv, groups,
                line.description);
  if ((line.forms & form_vx) != 0)
    vector_line(d, name + "x", operands("rs1"), vector_code(line.funct6, with_x), line.timing, vx, scalar,
                line.description);
  if ((line.forms & form_vi) != 0)
    vector_line(d, name + "i", operands(line.constant), vector_code(line.funct6, opivi), line.timing, vx, scalar,
                line.description);
}

}  // namespace tilesim::isa
