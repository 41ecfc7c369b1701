// Reductions: element 0 of vd from element 0 of vs1 and all active elements of vs2, in their order.
#include "tilesim/isa/vector/float_elements.hpp"

namespace tilesim::isa {

namespace vector_reduce {

struct Sum {
  template <class T>
  static T of(T a, T b) {
    using U = std::make_unsigned_t<T>;  // sums wrap around
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return a ^ b;
  }
};
struct Least {
  template <class T>
  static T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Most {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};

template <class F, class D, class A>
void integers(Hart& h, const Op& o) {
  const u64 vl = h.v.vl;
  if (vl == 0) return;
  const A* a = h.v.at<A>(o.rs2);
  const u8* mask = h.v.at<u8>(0);
  D all = *h.v.at<D>(o.rs1);
  if (o.rm != 0)
    for (u64 i = 0; i < vl; ++i) all = F::template of<D>(all, D{a[i]});
  else
    for (u64 i = 0; i < vl; ++i)
      if ((mask[i >> 3] >> (i & 7) & 1) != 0) all = F::template of<D>(all, D{a[i]});
  *h.v.at<D>(o.rd) = all;
}

template <class F, class Types>
void declare_integer(Declarations& d, const char* name, u32 funct6, const char* description) {
  constexpr auto by_width = by_widths<Types>([]<class T>() -> Execute { return &integers<F, T, T>; });
  vector_line(d, name, "vd, vs2, vs1, vm", vector_code(funct6, opmvv), "reduction", by_width,
              rule(one_element, one_group, one_element), description);
}

template <class Types>
void declare_wide_integer(Declarations& d, const char* name, u32 funct6, const char* description) {
  constexpr auto by_width = by_widths<Types>([]<class T>() -> Execute {
    if constexpr (sizeof(T) < 8)
      return &integers<Sum, Twice<T>, T>;
    else
      return nullptr;
  });
  vector_line(d, name, "vd, vs2, vs1, vm", vector_code(funct6, opivv), "reduction", by_width,
              rule(wide_element, one_group, wide_element), description);
}

/// Adds the elements to `total`, in order.
template <class F>
using FloatFold = typename F::Bits (*)(Hart& h, Round mode, typename F::Bits total, const typename F::Bits* a,
                                       unsigned n);

template <class F>
typename F::Bits add_all(Hart& h, Round mode, typename F::Bits total, const typename F::Bits* a, unsigned n) {
  using Bits = typename F::Bits;
  if constexpr (F::host)
    if (mode == h.host) [[likely]] {
      auto sum = value_of<F>(total);
      for (unsigned k = 0; k < n; ++k) sum += value_of<F>(a[k]);
      return n == 0 ? total : canonical<F>(sum);
    }
  for (unsigned k = 0; k < n; ++k) total = static_cast<Bits>(soft::add(F::format, total, a[k], mode, h.fflags));
  return total;
}

template <class F, bool largest>
typename F::Bits extreme_of(Hart& h, Round, typename F::Bits total, const typename F::Bits* a, unsigned n) {
  using Bits = typename F::Bits;
  using Key = std::make_signed_t<Bits>;
  constexpr Bits magnitude = static_cast<Bits>(F::format.sign() - 1),
                 infinity = static_cast<Bits>(F::format.infinity());
  // maps floats to integers of the same order, −0 just below +0; its own inverse
  const auto key = [](Bits x) {
    const auto negative = static_cast<Bits>(static_cast<Key>(x) >> (8 * sizeof(Bits) - 1));
    return static_cast<Key>(x ^ static_cast<Bits>(negative & magnitude));
  };
  Bits nan = static_cast<Bits>((total & magnitude) > infinity);
  Key best = key(total);
  for (unsigned k = 0; k < n; ++k) {
    nan |= static_cast<Bits>((a[k] & magnitude) > infinity);
    best = largest ? std::max(best, key(a[k])) : std::min(best, key(a[k]));
  }
  if (nan == 0) return static_cast<Bits>(key(static_cast<Bits>(best)));
  for (unsigned k = 0; k < n; ++k)
    total = static_cast<Bits>((largest ? soft::larger : soft::smaller)(F::format, total, a[k], h.fflags));
  return total;
}

/// F: format of the result; A: format of the elements.
template <class F, class A, FloatFold<F> fold>
void floats(Hart& h, const Op& o) {
  const Round mode = vector_rounding(h, o);
  if (h.v.vl == 0) return;
  const auto* a = h.v.at<typename A::Bits>(o.rs2);
  auto total = *h.v.at<typename F::Bits>(o.rs1);
  for (u64 i = 0; i < h.v.vl; i += float_block) {
    u64 active = below(h.v.vl, i) & (o.rm == 0 ? mask_word(h, 0, i) : ~u64{0});
    typename A::Bits elements[float_block];
    unsigned n = 0;
    for (; active != 0; active &= active - 1) elements[n++] = a[i + static_cast<u64>(std::countr_zero(active))];
    if constexpr (std::is_same_v<F, A>) {
      total = fold(h, mode, total, elements, n);
    } else {
      typename F::Bits wide[float_block];
      widen<A>(h, wide, elements, n);
      total = fold(h, mode, total, wide, n);
    }
  }
  *h.v.at<typename F::Bits>(o.rd) = total;
}

void float_line(Declarations& d, const char* name, u32 funct6, const std::array<Execute, 4>& by_width, Group element,
                const char* description) {
  vector_line(d, name, "vd, vs2, vs1, vm", vector_code(funct6, opfvv), "float-reduction", by_width,
              rule(element, one_group, element), description);
}

void declare_floats(Declarations& d) {
  constexpr auto sums = by_formats([]<class F>() -> Execute { return &floats<F, F, &add_all<F>>; });
  constexpr auto wide =
      by_narrow_formats([]<class F>() -> Execute { return &floats<Wider<F>, F, &add_all<Wider<F>>>; });
  d.traits = scalar_destination | sets_flags | reads_rounding;
  float_line(d, "vfredusum.vs", 0x01, sums, one_element,
             "Sum of all elements, in any order; the simulator uses element order.");
  float_line(d, "vfredosum.vs", 0x03, sums, one_element, "Sum of all elements, in order.");
  d.entries.back().timing = "float-reduction-ordered";
  float_line(d, "vfwredusum.vs", 0x31, wide, wide_element,
             "Sum of twice the width, in any order; the simulator uses element order.");
  float_line(d, "vfwredosum.vs", 0x33, wide, wide_element, "Sum of twice the width, in order.");
  d.entries.back().timing = "float-reduction-ordered";
  d.traits = scalar_destination | sets_flags;
  float_line(d, "vfredmin.vs", 0x05,
             by_formats([]<class F>() -> Execute { return &floats<F, F, &extreme_of<F, false>>; }), one_element,
             "The smallest element.");
  float_line(d, "vfredmax.vs", 0x07,
             by_formats([]<class F>() -> Execute { return &floats<F, F, &extreme_of<F, true>>; }), one_element,
             "The largest element.");
}

}  // namespace vector_reduce

void declare_vector_reduce(Declarations& d) {
  using namespace vector_reduce;
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = scalar_destination;
  declare_integer<Sum, unsigned_types>(d, "vredsum.vs", 0x00, "Sum of all elements.");
  declare_integer<And, unsigned_types>(d, "vredand.vs", 0x01, "And of all elements.");
  declare_integer<Or, unsigned_types>(d, "vredor.vs", 0x02, "Or of all elements.");
  declare_integer<Xor, unsigned_types>(d, "vredxor.vs", 0x03, "Exclusive or of all elements.");
  declare_integer<Least, unsigned_types>(d, "vredminu.vs", 0x04, "The smallest element, unsigned.");
  declare_integer<Least, signed_types>(d, "vredmin.vs", 0x05, "The smallest element.");
  declare_integer<Most, unsigned_types>(d, "vredmaxu.vs", 0x06, "The largest element, unsigned.");
  declare_integer<Most, signed_types>(d, "vredmax.vs", 0x07, "The largest element.");
  declare_wide_integer<unsigned_types>(d, "vwredsumu.vs", 0x30, "Sum of twice the width, unsigned.");
  declare_wide_integer<signed_types>(d, "vwredsum.vs", 0x31, "Sum of twice the width.");
  declare_floats(d);
  d.traits = 0;
}

}  // namespace tilesim::isa
