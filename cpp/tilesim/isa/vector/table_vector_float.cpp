// Float sums, products, quotients and roots, of one width and widening.
#include "tilesim/isa/vector/fused_kernels.hpp"

namespace tilesim::isa {

namespace vector_float {

struct Sum {
  template <class T>
  static T host(T a, T b) {
    return a + b;
  }
  static constexpr auto exact = soft::add;
};
struct Difference {
  template <class T>
  static T host(T a, T b) {
    return a - b;
  }
  static constexpr auto exact = soft::subtract;
};
struct Product {
  template <class T>
  static T host(T a, T b) {
    return a * b;
  }
  static constexpr auto exact = soft::multiply;
};
struct Quotient {
  template <class T>
  static T host(T a, T b) {
    return a / b;
  }
  static constexpr auto exact = soft::divide;
};

template <class F, class Operation, bool swapped>
void binary(Hart& h, Round mode, void* to, const void* first, const void* second, unsigned n) {
  using Bits = typename F::Bits;
  auto* d = static_cast<Bits*>(to);
  const auto *a = static_cast<const Bits*>(swapped ? second : first),
             *b = static_cast<const Bits*>(swapped ? first : second);
  if constexpr (F::host)
    if (mode == h.host) [[likely]] {
      for_block(n, [=](unsigned k) { d[k] = canonical<F>(Operation::host(value_of<F>(a[k]), value_of<F>(b[k]))); });
      return;
    }
  for (unsigned k = 0; k < n; ++k) d[k] = static_cast<Bits>(Operation::exact(F::format, a[k], b[k], mode, h.fflags));
}

/// Operands of format F (the first one of twice the width if `wide_first`), result of twice the width.
template <class F, class Operation, bool wide_first>
void widening(Hart& h, Round mode, void* to, const void* first, const void* second, unsigned n) {
  using Bits = typename Wider<F>::Bits;
  alignas(64) Bits a[float_block], b[float_block];
  if constexpr (!wide_first) widen<F>(h, a, static_cast<const typename F::Bits*>(first), n);
  widen<F>(h, b, static_cast<const typename F::Bits*>(second), n);
  binary<Wider<F>, Operation, false>(h, mode, to, wide_first ? first : a, b, n);
}

template <class Operation, bool swapped, Second second>
constexpr auto same() {
  return by_formats([]<class F>() -> Execute {
    using B = typename F::Bits;
    return &float_instruction<B, B, B, &binary<F, Operation, swapped>, second>;
  });
}

template <class Operation, bool wide_first, Second second>
constexpr auto wide() {
  return by_narrow_formats([]<class F>() -> Execute {
    using D = typename Wider<F>::Bits;
    using B = typename F::Bits;
    return &float_instruction<D, std::conditional_t<wide_first, D, B>, B, &widening<F, Operation, wide_first>, second>;
  });
}

template <class Operation>
void declare_same(Declarations& d, const FloatFamily& line) {
  declare_float_family(d, line, same<Operation, false, Second::vector>(), same<Operation, false, Second::scalar>());
}
template <class Operation>
void declare_swapped(Declarations& d, const FloatFamily& line) {
  declare_float_family(d, line, {}, same<Operation, true, Second::scalar>());
}
template <class Operation>
void declare_wide(Declarations& d, const FloatFamily& line) {
  declare_float_family(d, line, wide<Operation, false, Second::vector>(), wide<Operation, false, Second::scalar>());
}
template <class Operation>
void declare_wide_first(Declarations& d, const FloatFamily& line) {
  declare_float_family(d, line, wide<Operation, true, Second::vector>(), wide<Operation, true, Second::scalar>());
}

template <class F>
void square_root(Hart& h, Round mode, void* to, const void* from, const void*, unsigned n) {
  using Bits = typename F::Bits;
  auto* d = static_cast<Bits*>(to);
  const auto* a = static_cast<const Bits*>(from);
  if constexpr (F::host)
    if (mode == h.host) [[likely]] {
      root_block(d, a, n);
      return;
    }
  for (unsigned k = 0; k < n; ++k) d[k] = static_cast<Bits>(soft::square_root(F::format, a[k], mode, h.fflags));
}

}  // namespace vector_float

void declare_vector_float(Declarations& d) {
  using namespace vector_float;
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = sets_flags | reads_rounding;
  declare_same<Sum>(d, {"vfadd", 0x00, "float-add", "Sums."});
  declare_same<Difference>(d, {"vfsub", 0x02, "float-add", "Differences."});
  declare_swapped<Difference>(d, {"vfrsub", 0x27, "float-add", "Differences, the scalar first."});
  declare_same<Product>(d, {"vfmul", 0x24, "float-multiply", "Products."});
  declare_same<Quotient>(d, {"vfdiv", 0x20, "float-divide", "Quotients."});
  declare_swapped<Quotient>(d, {"vfrdiv", 0x21, "float-divide", "Quotients, the scalar first."});
  constexpr GroupRule wide = rule(wide_group, one_group, one_group), first = rule(wide_group, wide_group, one_group);
  const char* add = "float-add-widening";
  declare_wide<Sum>(d, {"vfwadd", 0x30, add, "Sums of twice the width.", wide});
  declare_wide<Difference>(d, {"vfwsub", 0x32, add, "Differences of twice the width.", wide});
  declare_wide_first<Sum>(d, {"vfwadd", 0x34, add, "Adds to elements of twice the width.", first, 'w'});
  declare_wide_first<Difference>(d, {"vfwsub", 0x36, add, "Subtracts from elements of twice the width.", first, 'w'});
  declare_wide<Product>(d, {"vfwmul", 0x38, "float-multiply-widening", "Products of twice the width.", wide});
  constexpr auto roots = by_formats([]<class F>() -> Execute {
    using B = typename F::Bits;
    return &float_instruction<B, B, B, &square_root<F>, Second::none>;
  });
  vector_line(d, "vfsqrt.v", "vd, vs2, vm", vector_code(0x13, opfvv) | field(19, 15, 0), "float-divide", roots,
              rule(one_group, one_group), "Square roots.");
  d.traits = 0;
}

}  // namespace tilesim::isa
