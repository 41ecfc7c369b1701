// Moves of elements: to and from scalars, slides, gathers, compression, whole registers.
#include "tilesim/isa/vector/float_elements.hpp"

namespace tilesim::isa {

namespace vector_permute {

template <class T>
void up(Hart& h, const Op& o) {
  const u64 by = scalar_operand<u64>(h, o), vl = h.v.vl;
  if (by >= vl) return;
  T* d = h.v.at<T>(o.rd);
  const T* a = h.v.at<T>(o.rs2);
  if (o.rm != 0)
    std::memcpy(d + by, a, (vl - by) * sizeof(T));
  else
    each_in_order(h, o, [=](u64 i) { d[i] = a[i - by]; }, by);
}

template <class T>
void down(Hart& h, const Op& o) {
  const u64 by = std::min(scalar_operand<u64>(h, o), h.v.vlmax), vl = h.v.vl, have = h.v.vlmax - by;
  T* d = h.v.at<T>(o.rd);
  const T* a = h.v.at<T>(o.rs2) + by;
  if (o.rm != 0) {
    const u64 kept = std::min(have, vl);
    std::memmove(d, a, kept * sizeof(T));
    std::fill(d + kept, d + std::max(kept, vl), T{0});
  } else {
    each_in_order(h, o, [=](u64 i) { d[i] = i < have ? a[i] : T{0}; });
  }
}

template <class T, bool is_float>
T edge(const Hart& h, const Op& o) {
  if constexpr (!is_float || sizeof(T) == 1) {
    return static_cast<T>(h.x[o.rs1]);
  } else {
    vector_rounding(h, o);
    return float_scalar<T>(h, o);
  }
}

template <class T, bool is_float>
void up_one(Hart& h, const Op& o) {
  const T x = edge<T, is_float>(h, o);
  T* d = h.v.at<T>(o.rd);
  const T* a = h.v.at<T>(o.rs2);
  each(h, o, [=](u64 i) { d[i] = i == 0 ? x : a[i - 1]; });
}

template <class T, bool is_float>
void down_one(Hart& h, const Op& o) {
  const T x = edge<T, is_float>(h, o);
  T* d = h.v.at<T>(o.rd);
  const T* a = h.v.at<T>(o.rs2);
  const u64 last = h.v.vl - 1;
  each_in_order(h, o, [=](u64 i) { d[i] = i == last ? x : a[i + 1]; });
}

/// vd[i] = vs2[vs1[i]], 0 beyond VLMAX.
template <class T, class Index>
void gather(Hart& h, const Op& o) {
  T* d = h.v.at<T>(o.rd);
  const T* a = h.v.at<T>(o.rs2);
  const Index* b = h.v.at<Index>(o.rs1);
  const u64 vlmax = h.v.vlmax;
  each(h, o, [=](u64 i) { d[i] = b[i] < vlmax ? a[b[i]] : T{0}; });
}

template <class T>
void gather_one(Hart& h, const Op& o) {
  const u64 index = scalar_operand<u64>(h, o);
  T* d = h.v.at<T>(o.rd);
  const T x = index < h.v.vlmax ? h.v.at<T>(o.rs2)[index] : T{0};
  each(h, o, [=](u64 i) { d[i] = x; });
}

template <class T>
void compress(Hart& h, const Op& o) {
  T* d = h.v.at<T>(o.rd);
  const T* a = h.v.at<T>(o.rs2);
  for (u64 i = 0; i < h.v.vl; i += 64)
    for (u64 ones = mask_word(h, o.rs1, i) & below(h.v.vl, i); ones != 0; ones &= ones - 1)
      *d++ = a[i + static_cast<u64>(std::countr_zero(ones))];
}

template <class T>
void to_scalar(Hart& h, const Op& o) {
  h.x[o.rd] = static_cast<u64>(static_cast<s64>(*h.v.at<std::make_signed_t<T>>(o.rs2)));
}

template <class T>
void from_scalar(Hart& h, const Op& o) {
  if (h.v.vl != 0) *h.v.at<T>(o.rd) = static_cast<T>(h.x[o.rs1]);
}

template <class F>
void to_float(Hart& h, const Op& o) {
  vector_rounding(h, o);
  h.f[o.rd] = box<F>(*h.v.at<typename F::Bits>(o.rs2));
}

template <class F>
void from_float(Hart& h, const Op& o) {
  vector_rounding(h, o);
  if (h.v.vl != 0) *h.v.at<typename F::Bits>(o.rd) = float_scalar<typename F::Bits>(h, o);
}

template <unsigned registers>
void whole(Hart& h, const Op& o) {
  std::memmove(h.v.at<u8>(o.rd), h.v.at<u8>(o.rs2), u64{registers} * h.v.vlenb);
}

void declare_scalar_moves(Declarations& d) {
  d.unit = Unit::cross_lane, d.traits = 0;
  vector_line(d, "vmv.x.s", "rd, vs2", vector_code(0x10, opmvv) | field(25, 25, 1) | field(19, 15, 0), "to-scalar",
              by_widths<unsigned_types>([]<class T>() -> Execute { return &to_scalar<T>; }),
              rule(no_group, one_element), "Element 0, with its sign.");
  vector_line(d, "vfmv.f.s", "fd, vs2", vector_code(0x10, opfvv) | field(25, 25, 1) | field(19, 15, 0), "to-scalar",
              by_formats([]<class F>() -> Execute { return &to_float<F>; }), rule(no_group, one_element),
              "Element 0 as a float.");
  d.traits = scalar_destination;
  vector_line(d, "vmv.s.x", "vd, rs1", vector_code(0x10, opmvx) | field(25, 25, 1) | field(24, 20, 0), "from-scalar",
              by_widths<unsigned_types>([]<class T>() -> Execute { return &from_scalar<T>; }),
              rule(one_element, no_group), "Element 0 from a register.");
  vector_line(d, "vfmv.s.f", "vd, fs1", vector_code(0x10, opfvf) | field(25, 25, 1) | field(24, 20, 0), "from-scalar",
              by_formats([]<class F>() -> Execute { return &from_float<F>; }), rule(one_element, no_group),
              "Element 0 from a float.");
  d.traits = 0;
}

void declare_slides(Declarations& d) {
  constexpr GroupRule groups = rule(one_group, one_group);
  constexpr auto ups = by_widths<unsigned_types>([]<class T>() -> Execute { return &up<T>; });
  constexpr auto downs = by_widths<unsigned_types>([]<class T>() -> Execute { return &down<T>; });
  constexpr auto up_ones = by_widths<unsigned_types>([]<class T>() -> Execute { return &up_one<T, false>; });
  constexpr auto down_ones = by_widths<unsigned_types>([]<class T>() -> Execute { return &down_one<T, false>; });
  constexpr auto up_floats = by_formats([]<class F>() -> Execute { return &up_one<typename F::Bits, true>; });
  constexpr auto down_floats = by_formats([]<class F>() -> Execute { return &down_one<typename F::Bits, true>; });
  const char *x = "vd, vs2, rs1, vm", *i = "vd, vs2, zimm5, vm", *f = "vd, vs2, fs1, vm";
  const char* far = "Elements from lower places.";
  const char* near = "Elements from higher places, zeros from beyond.";
  d.traits = overlap_never | reads_vd;
  vector_line(d, "vslideup.vx", x, vector_code(0x0E, opivx), "slide", ups, groups, far);
  vector_line(d, "vslideup.vi", i, vector_code(0x0E, opivi), "slide", ups, groups, far);
  d.traits = overlap_never;
  const char* first = "Elements from one place lower, the first from a register.";
  vector_line(d, "vslide1up.vx", x, vector_code(0x0E, opmvx), "slide", up_ones, groups, first);
  vector_line(d, "vfslide1up.vf", f, vector_code(0x0E, opfvf), "slide", up_floats, groups, first);
  d.traits = 0;
  vector_line(d, "vslidedown.vx", x, vector_code(0x0F, opivx), "slide", downs, groups, near);
  vector_line(d, "vslidedown.vi", i, vector_code(0x0F, opivi), "slide", downs, groups, near);
  const char* last = "Elements from one place higher, the last from a register.";
  vector_line(d, "vslide1down.vx", x, vector_code(0x0F, opmvx), "slide", down_ones, groups, last);
  vector_line(d, "vfslide1down.vf", f, vector_code(0x0F, opfvf), "slide", down_floats, groups, last);
}

void declare_gathers(Declarations& d) {
  d.traits = overlap_never;
  const char* description = "Elements of vs2 by number; zeros for numbers that are too large.";
  vector_line(d, "vrgather.vv", "vd, vs2, vs1, vm", vector_code(0x0C, opivv), "gather",
              by_widths<unsigned_types>([]<class T>() -> Execute { return &gather<T, T>; }),
              rule(one_group, one_group, one_group), description);
  vector_line(d, "vrgatherei16.vv", "vd, vs2, vs1, vm", vector_code(0x0E, opivv), "gather",
              by_widths<unsigned_types>([]<class T>() -> Execute { return &gather<T, u16>; }),
              rule(one_group, one_group, fixed_group(16)), description);
  constexpr auto ones = by_widths<unsigned_types>([]<class T>() -> Execute { return &gather_one<T>; });
  const char* one = "One element of vs2 to all.";
  vector_line(d, "vrgather.vx", "vd, vs2, rs1, vm", vector_code(0x0C, opivx), "gather-one", ones,
              rule(one_group, one_group), one);
  vector_line(d, "vrgather.vi", "vd, vs2, zimm5, vm", vector_code(0x0C, opivi), "gather-one", ones,
              rule(one_group, one_group), one);
  vector_line(d, "vcompress.vm", "vd, vs2, vs1", vector_code(0x17, opmvv) | field(25, 25, 1), "compress",
              by_widths<unsigned_types>([]<class T>() -> Execute { return &compress<T>; }),
              rule(one_group, one_group, mask_group), "The elements that a mask names, side by side.");
  d.traits = 0;
}

template <unsigned registers>
void declare_whole(Declarations& d) {
  const Encoding code = vector_code(0x27, opivi) | field(25, 25, 1) | field(19, 15, registers - 1);
  const Execute run = &whole<registers>;
  vector_line(d, "vmv" + std::to_string(registers) + "r.v", "vd, vs2", code, "move", {run, run, run, run},
              rule(whole_group(registers), whole_group(registers)), "Copies whole registers.");
}

}  // namespace vector_permute

void declare_vector_permute(Declarations& d) {
  using namespace vector_permute;
  d.extension = "V";
  declare_scalar_moves(d);
  declare_slides(d);
  declare_gathers(d);
  d.unit = Unit::arithmetic;
  declare_whole<1>(d);
  declare_whole<2>(d);
  declare_whole<4>(d);
  declare_whole<8>(d);
}

}  // namespace tilesim::isa
