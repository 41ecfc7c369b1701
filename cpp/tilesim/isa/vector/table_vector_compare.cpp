// Integer comparisons, and sums with carry: instructions that read or write one bit per element.
#include "tilesim/isa/vector/mask_results.hpp"

namespace tilesim::isa {

namespace vector_compare {

struct Equal {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  static bool of(T a, T b) {
    return a != b;
  }
};
struct Less {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  static bool of(T a, T b) {
    return a > b;
  }
};

template <class F, class T>
struct Compare {
  static void vv(Hart& h, const Op& o) {
    const T *a = h.v.at<T>(o.rs2), *b = h.v.at<T>(o.rs1);
    write_mask(h, o, o.rm == 0, [=](u64 i) { return F::template of<T>(a[i], b[i]); });
  }
  static void vx(Hart& h, const Op& o) {
    const T* a = h.v.at<T>(o.rs2);
    const T b = scalar_operand<T>(h, o);
    write_mask(h, o, o.rm == 0, [=](u64 i) { return F::template of<T>(a[i], b); });
  }
};

/// Shape of a mask result from two sources of the same width.
struct ToMask {
  template <class T>
  static constexpr bool exists = true;
  template <class F, class T>
  using Loop = Compare<F, T>;
  static constexpr GroupRule groups = rule(mask_group, one_group, one_group);
  static constexpr char letter = 'v';
};

void declare_comparisons(Declarations& d) {
  constexpr unsigned all = form_vv | form_vx | form_vi, both = form_vv | form_vx, scalars = form_vx | form_vi;
  const auto line = [](const char* name, u32 funct6, unsigned forms, const char* description) {
    return Family{name, funct6, forms, "compare", description};
  };
  family<Equal, unsigned_types, ToMask>(d, line("vmseq", 0x18, all, "Mask of equal elements."));
  family<NotEqual, unsigned_types, ToMask>(d, line("vmsne", 0x19, all, "Mask of unequal elements."));
  family<Less, unsigned_types, ToMask>(d, line("vmsltu", 0x1A, both, "Mask of smaller elements, unsigned."));
  family<Less, signed_types, ToMask>(d, line("vmslt", 0x1B, both, "Mask of smaller elements."));
  family<LessEqual, unsigned_types, ToMask>(d,
                                            line("vmsleu", 0x1C, all, "Mask of smaller or equal elements, unsigned."));
  family<LessEqual, signed_types, ToMask>(d, line("vmsle", 0x1D, all, "Mask of smaller or equal elements."));
  family<Greater, unsigned_types, ToMask>(d, line("vmsgtu", 0x1E, scalars, "Mask of larger elements, unsigned."));
  family<Greater, signed_types, ToMask>(d, line("vmsgt", 0x1F, scalars, "Mask of larger elements."));
}

/// Sum with carry in v0, or difference with borrow in v0.
template <class T, bool scalar, bool minus>
void with_carry(Hart& h, const Op& o) {
  T* d = h.v.at<T>(o.rd);
  const T *a = h.v.at<T>(o.rs2), *b = h.v.at<T>(o.rs1);
  const T x = scalar ? scalar_operand<T>(h, o) : T{0};
  const u8* mask = h.v.at<u8>(0);
  const u64 vl = h.v.vl;
  for (u64 i = 0; i < vl; ++i) {
    const T carry = mask[i >> 3] >> (i & 7) & 1, y = scalar ? x : b[i];
    d[i] = static_cast<T>(minus ? a[i] - y - carry : a[i] + y + carry);
  }
}

/// Carry out or borrow out; o.rm = 1: no carry in.
template <class T, bool scalar, bool minus>
void carries(Hart& h, const Op& o) {
  const T *a = h.v.at<T>(o.rs2), *b = h.v.at<T>(o.rs1);
  const T x = scalar ? scalar_operand<T>(h, o) : T{0};
  const bool comes = o.rm == 0;
  const std::vector<u8> mask(h.v.at<u8>(0), h.v.at<u8>(0) + h.v.vlenb);  // a copy, since vd may be v0
  write_mask(h, o, false, [=, in = mask.data()](u64 i) {
    const T carry = comes ? in[i >> 3] >> (i & 7) & 1 : 0, y = scalar ? x : b[i];
    if (minus) return a[i] < y || (carry != 0 && a[i] == y);
    const T sum = static_cast<T>(a[i] + y), all = static_cast<T>(sum + carry);
    return sum < y || all < sum;
  });
}

template <bool scalar, bool minus>
void declare_carry_form(Declarations& d, const char* letter, const char* operand, VectorForm form) {
  constexpr auto sums = by_widths<unsigned_types>([]<class T>() -> Execute { return &with_carry<T, scalar, minus>; });
  constexpr auto outs = by_widths<unsigned_types>([]<class T>() -> Execute { return &carries<T, scalar, minus>; });
  const Group second = scalar ? no_group : one_group;
  const std::string v = std::string(".v") + letter, operands = std::string("vd, vs2, ") + operand;
  const u32 funct6 = minus ? 0x12 : 0x10;
  const Encoding code = vector_code(funct6, form), code_out = vector_code(funct6 + 1, form);
  vector_line(d, (minus ? "vsbc" : "vadc") + v + "m", operands + ", v0", code | field(25, 25, 0), "integer", sums,
              rule(one_group, one_group, second), minus ? "Differences with borrows." : "Sums with carries.");
  const std::string name = minus ? "vmsbc" : "vmadc";
  const char* description = minus ? "Borrows out of differences." : "Carries out of sums.";
  const GroupRule groups = rule(mask_group, one_group, second);
  vector_line(d, name + v + "m", operands + ", v0", code_out | field(25, 25, 0), "compare", outs, groups, description);
  vector_line(d, name + v, operands, code_out | field(25, 25, 1), "compare", outs, groups, description);
}

}  // namespace vector_compare

void declare_vector_compare(Declarations& d) {
  using namespace vector_compare;
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = 0;
  declare_comparisons(d);
  declare_carry_form<false, false>(d, "v", "vs1", opivv);
  declare_carry_form<true, false>(d, "x", "rs1", opivx);
  declare_carry_form<true, false>(d, "i", "simm5", opivi);
  declare_carry_form<false, true>(d, "v", "vs1", opivv);
  declare_carry_form<true, true>(d, "x", "rs1", opivx);
}

}  // namespace tilesim::isa
