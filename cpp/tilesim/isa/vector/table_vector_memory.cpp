// Unit-stride loads and stores.
#include "tilesim/isa/vector/elements.hpp"

namespace tilesim::isa {

namespace {

/// One element at a time, which stops before the first that cannot be accessed.
template <class T, bool stores>
void by_element(Hart& h, const Op& o, u64 base) {
  T* reg = h.v.at<T>(o.rd);
  for (u64 i = h.v.vstart; i < h.v.vl; ++i) {
    if (o.rm == 0 && !h.v.bit(0, i)) continue;
    try {
      if constexpr (stores)
        h.memory->store<T>(base + i * sizeof(T), reg[i]);
      else
        reg[i] = h.memory->load<T>(base + i * sizeof(T));
    } catch (const Trap&) {
      set_vstart(h.v, i);
      throw;
    }
  }
}

void aligned(u64 address, u64 bytes, bool stores) {
  if (address % bytes != 0)
    throw Trap{stores ? Cause::store_misaligned : Cause::load_misaligned, address, "vector elements must be aligned"};
}

template <class T, bool stores>
void unit_stride(Hart& h, const Op& o) {
  const u64 base = h.x[o.rs1], bytes = h.v.vl * sizeof(T);
  if (h.v.vl > h.v.vstart) aligned(base, sizeof(T), stores);
  if (o.rm != 0 && h.v.vstart == 0) {
    try {
      if constexpr (stores)
        h.memory->write(base, h.v.at<u8>(o.rd), bytes);
      else
        h.memory->read(base, h.v.at<u8>(o.rd), bytes);
      return;
    } catch (const Trap&) {  // found again below, with its element
    }
  }
  by_element<T, stores>(h, o, base);
}

/// funct3 of the widths of vector loads and stores.
constexpr u32 width_code(unsigned bits) { return bits == 8 ? 0 : bits == 16 ? 5 : bits == 32 ? 6 : 7; }

template <class T, bool stores>
void declare_width(Declarations& d) {
  constexpr unsigned bits = 8 * sizeof(T);
  const Encoding code =
      with3(stores ? op_store_fp : op_load_fp, width_code(bits)) | field(31, 26, 0) | field(24, 20, 0);
  const Execute run = &unit_stride<T, stores>;
  vector_line(d, (stores ? "vse" : "vle") + std::to_string(bits) + ".v", stores ? "vs3, (rs1), vm" : "vd, (rs1), vm",
              code, stores ? "vstore" : "vload", {run, run, run, run}, rule(fixed_group(bits), no_group),
              stores ? "Elements to memory, one after the other." : "Elements from memory, one after the other.");
}

template <bool stores>
void declare_direction(Declarations& d) {
  d.unit = stores ? Unit::store : Unit::load;
  d.traits = (stores ? is_store : is_load) | any_vstart;
  declare_width<u8, stores>(d);
  declare_width<u16, stores>(d);
  declare_width<u32, stores>(d);
  declare_width<u64, stores>(d);
}

}  // namespace

void declare_vector_memory(Declarations& d) {
  d.extension = "V";
  declare_direction<false>(d);
  declare_direction<true>(d);
  d.traits = 0;
}

}  // namespace tilesim::isa
