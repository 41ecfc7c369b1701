// A: load-reserved, store-conditional and atomic operations of a single hart.
#include <algorithm>
#include <array>

#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace {

template <class T>
u64 as_register(T value) {
  return static_cast<u64>(static_cast<s64>(static_cast<std::make_signed_t<T>>(value)));
}

template <class T>
void aligned(u64 address, Cause cause) {
  if (address % sizeof(T) != 0) throw Trap{cause, address, "atomic accesses must be aligned"};
}

template <class T>
void load_reserved(Hart& h, const Op& o) {
  const u64 address = h.x[o.rs1];
  aligned<T>(address, Cause::load_misaligned);
  h.reserved = as_register(h.memory->load<T>(address));
  h.x[o.rd] = h.reserved;
  h.reservation = address;
}

template <class T>
void store_conditional(Hart& h, const Op& o) {
  const u64 address = h.x[o.rs1];
  aligned<T>(address, Cause::store_misaligned);
  // a store of this hart ends the reservation if it changes the value
  const bool held = h.reservation == address && h.memory->load<T>(address) == static_cast<T>(h.reserved);
  if (held) h.memory->store<T>(address, static_cast<T>(h.x[o.rs2]));
  h.reservation = ~Address{0};
  h.x[o.rd] = held ? 0 : 1;
}

template <class F, class T>
void change(Hart& h, const Op& o) {
  const u64 address = h.x[o.rs1];
  aligned<T>(address, Cause::store_misaligned);
  h.memory->for_writing(address);
  const T before = h.memory->load<T>(address);
  h.memory->store<T>(address, F{}(before, static_cast<T>(h.x[o.rs2])));
  h.x[o.rd] = as_register(before);
}

struct Swap {
  template <class T>
  T operator()(T, T b) const {
    return b;
  }
};
struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
template <bool is_signed, bool largest>
struct Choose {
  template <class T>
  T operator()(T a, T b) const {
    using S = std::conditional_t<is_signed, std::make_signed_t<T>, T>;
    const bool less = static_cast<S>(a) < static_cast<S>(b);
    return less == largest ? b : a;
  }
};

/// Declares the four memory orderings of one instruction: on a single hart they are equivalent.
void orders(Declarations& d, const std::string& name, u32 funct5, u32 width, const char* operands, bool one_source,
            Execute execute, const char* description) {
  static const std::array<const char*, 4> suffixes{"", ".rl", ".aq", ".aqrl"};
  for (u32 order = 0; order < 4; ++order) {
    Encoding code = with7(op_amo, width, funct5 << 2 | order);
    if (one_source) code = code | field(24, 20, 0);
    d(name + (width == 2 ? ".w" : ".d") + suffixes[order], operands, code, "atomic", execute, description);
  }
}

template <class T>
void declare_width(Declarations& d) {
  const u32 width = sizeof(T) == 4 ? 2 : 3;
  d.unit = Unit::load, d.traits = is_load;
  orders(d, "lr", 2, width, "rd, (rs1)", true, load_reserved<T>, "Loads and reserves an address.");
  d.unit = Unit::store, d.traits = is_store;
  const char* three = "rd, rs2, (rs1)";
  orders(d, "sc", 3, width, three, false, store_conditional<T>, "Stores if the address is still reserved.");
  d.traits = is_load | is_store;
  orders(d, "amoswap", 1, width, three, false, change<Swap, T>, "Exchanges a register with memory.");
  orders(d, "amoadd", 0, width, three, false, change<Sum, T>, "Adds to memory.");
  orders(d, "amoxor", 4, width, three, false, change<Xor, T>, "Exclusive or in memory.");
  orders(d, "amoand", 12, width, three, false, change<And, T>, "And in memory.");
  orders(d, "amoor", 8, width, three, false, change<Or, T>, "Or in memory.");
  orders(d, "amomin", 16, width, three, false, change<Choose<true, false>, T>, "Smaller, signed, into memory.");
  orders(d, "amomax", 20, width, three, false, change<Choose<true, true>, T>, "Larger, signed, into memory.");
  orders(d, "amominu", 24, width, three, false, change<Choose<false, false>, T>, "Smaller, unsigned, into memory.");
  orders(d, "amomaxu", 28, width, three, false, change<Choose<false, true>, T>, "Larger, unsigned, into memory.");
}

}  // namespace

void declare_atomic(Declarations& d) {
  d.extension = "A";
  declare_width<u32>(d);
  declare_width<u64>(d);
  d.unit = Unit::scalar, d.traits = 0;
}

}  // namespace tilesim::isa
