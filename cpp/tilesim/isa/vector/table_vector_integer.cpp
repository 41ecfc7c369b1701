// Integer arithmetic on elements of one width.
#include "tilesim/isa/vector/elements.hpp"

namespace tilesim::isa {

namespace {

struct Add {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Subtract {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a - b);
  }
};

struct ReverseSubtract {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(b - a);
  }
};

}  // namespace

void declare_vector_integer(Declarations& d) {
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = 0;
  same_width_family<Add, unsigned_types>(d, "vadd", 0x00, form_vv | form_vx | form_vi, "integer", "Sums.");
  same_width_family<Subtract, unsigned_types>(d, "vsub", 0x02, form_vv | form_vx, "integer", "Differences.");
  same_width_family<ReverseSubtract, unsigned_types>(d, "vrsub", 0x03, form_vx | form_vi, "integer",
                                                     "Differences, the scalar first.");
}

}  // namespace tilesim::isa
