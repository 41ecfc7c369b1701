// Memory accesses of vector loads and stores.
#pragma once

#include "tilesim/isa/vector/elements.hpp"

namespace tilesim::isa {

template <class T>
void aligned(u64 address, bool stores) {
  if (address % sizeof(T) != 0)
    throw Trap{stores ? Cause::store_misaligned : Cause::load_misaligned, address, "vector elements must be aligned"};
}

/// Number of registers per field of a segment with elements of type T.
template <class T>
unsigned field_registers(const Hart& h) {
  const int emul = 3 + std::countr_zero(sizeof(T)) - h.v.type.sew + h.v.type.lmul;
  return emul > 0 ? 1U << emul : 1;
}

/// Accesses element by element, field by field, from `address(i)` on. A trap sets vstart to its element.
template <class T, bool stores, class Address>
void each_access(Hart& h, const Op& o, unsigned fields, Address address) {
  const unsigned apart = fields > 1 ? field_registers<T>(h) : 0;
  const u64 vl = h.v.vl, apart_bytes = u64{apart} * h.v.vlenb;
  u8* reg = h.v.at<u8>(o.rd);
  u64 i = h.v.vstart;
  try {
    for (; i < vl; ++i) {
      if (o.rm == 0 && !h.v.bit(0, i)) continue;
      u64 at = address(i);
      aligned<T>(at, stores);
      for (unsigned f = 0; f < fields; ++f, at += sizeof(T)) {
        T* element = reinterpret_cast<T*>(reg + f * apart_bytes) + i;
        if constexpr (stores)
          h.memory->store<T>(at, *element);
        else
          *element = h.memory->load<T>(at);
      }
    }
  } catch (const Trap&) {
    set_vstart(h.v, i);
    throw;
  }
}

inline unsigned fields_of(const Op& o) { return (o.bits >> 29) + 1; }

/// funct3 for the element widths of vector loads and stores.
constexpr u32 width_code(unsigned bits) { return bits == 8 ? 0 : bits == 16 ? 5 : bits == 32 ? 6 : 7; }

enum class Way : u8 { unit = 0, unordered = 1, strided = 2, ordered = 3 };

/// Encoding of a vector load or store, without bits 24 … 20.
constexpr Encoding access_code(bool stores, Way way, unsigned bits, unsigned fields) {
  return with3(stores ? op_store_fp : op_load_fp, width_code(bits)) | field(31, 29, fields - 1) | field(28, 28, 0) |
         field(27, 26, static_cast<u32>(way));
}

inline void set_direction(Declarations& d, bool stores) {
  d.extension = "V";
  d.unit = stores ? Unit::store : Unit::load;
  d.traits = (stores ? is_store : is_load) | any_vstart;
}

}  // namespace tilesim::isa
