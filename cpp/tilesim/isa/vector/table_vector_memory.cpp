// Loads and stores of contiguous elements: plain, segments, fault-only-first, masks, whole registers.
#include "tilesim/isa/vector/memory_elements.hpp"

namespace tilesim::isa {

namespace vector_memory {

/// Transfers `bytes` at once; false for a fault, which the element-by-element access then finds.
template <bool stores>
bool at_once(Hart& h, unsigned reg, u64 base, u64 bytes) {
  try {
    if constexpr (stores)
      h.memory->write(base, h.v.at<u8>(reg), bytes);
    else
      h.memory->read(base, h.v.at<u8>(reg), bytes);
  } catch (const Trap&) {
    return false;
  }
  return true;
}

template <class T, bool stores>
void side_by_side(Hart& h, const Op& o) {
  const u64 base = h.x[o.rs1];
  const unsigned fields = fields_of(o);
  if (o.rm != 0 && fields == 1 && h.v.vstart == 0 && base % sizeof(T) == 0 &&
      at_once<stores>(h, o.rd, base, h.v.vl * sizeof(T)))
    return;
  each_access<T, stores>(h, o, fields, [=](u64 i) { return base + i * fields * sizeof(T); });
}

/// A fault after the first element shortens vl; no field of the faulting segment is loaded.
template <class T>
void to_first_fault(Hart& h, const Op& o) {
  const u64 base = h.x[o.rs1], bytes = fields_of(o) * sizeof(T), vl = h.v.vl;
  if (base % sizeof(T) == 0 && !h.memory->can(base, vl * bytes, readable)) {
    u64 reached = h.v.vstart;
    while (reached < vl &&
           ((o.rm == 0 && !h.v.bit(0, reached)) || h.memory->can(base + reached * bytes, bytes, readable)))
      ++reached;
    if (reached != 0) h.v.vl = reached;
  }
  side_by_side<T, false>(h, o);
}

/// Transfers the bytes that contain vl bits.
template <bool stores>
void mask_bytes(Hart& h, const Op& o) {
  const u64 kept = h.v.vl, base = h.x[o.rs1], bytes = (kept + 7) / 8;
  if (h.v.vstart == 0 && at_once<stores>(h, o.rd, base, bytes)) return;
  h.v.vl = bytes;
  try {
    each_access<u8, stores>(h, o, 1, [=](u64 i) { return base + i; });
  } catch (const Trap&) {
    h.v.vl = kept;
    throw;
  }
  h.v.vl = kept;
}

/// Transfers whole registers independently of vtype and vl; T: unit of alignment and of vstart.
template <class T, bool stores>
void whole(Hart& h, const Op& o) {
  const u64 base = h.x[o.rs1], bytes = u64{fields_of(o)} * h.v.vlenb;
  if (h.v.vstart == 0 && base % sizeof(T) == 0 && at_once<stores>(h, o.rd, base, bytes)) return;
  const u64 kept = h.v.vl;
  h.v.vl = bytes / sizeof(T);
  try {
    each_access<T, stores>(h, o, 1, [=](u64 i) { return base + i * sizeof(T); });
  } catch (const Trap&) {
    h.v.vl = kept;
    throw;
  }
  h.v.vl = kept;
}

constexpr std::array<Execute, 4> any_width(Execute run) { return {run, run, run, run}; }

template <class T, bool stores>
void declare_width(Declarations& d) {
  constexpr unsigned bits = 8 * sizeof(T);
  const std::string width = "e" + std::to_string(bits), letter = stores ? "vs" : "vl";
  for (u8 fields = 1; fields <= 8; ++fields) {
    const std::string name = letter + (fields > 1 ? "seg" + std::to_string(fields) : "") + width;
    const Encoding code = access_code(stores, Way::unit, bits, fields);
    const GroupRule groups = rule(fixed_group(bits), no_group, no_group, fields);
    const char* timing = fields > 1 ? (stores ? "vstore-segment" : "vload-segment") : stores ? "vstore" : "vload";
    vector_line(d, name + ".v", stores ? "vs3, (rs1), vm" : "vd, (rs1), vm", code | field(24, 20, 0), timing,
                any_width(&side_by_side<T, stores>), groups,
                fields > 1 ? (stores ? "Segments of fields to memory." : "Segments of fields from memory.")
                : stores   ? "Elements to memory, one after the other."
                           : "Elements from memory, one after the other.");
    if constexpr (!stores)
      vector_line(d, name + "ff.v", "vd, (rs1), vm", code | field(24, 20, 0x10), timing, any_width(&to_first_fault<T>),
                  groups, "Elements from memory, as far as they can be read; vl says how many.");
  }
}

template <class T>
void declare_whole_loads(Declarations& d) {
  constexpr unsigned bits = 8 * sizeof(T);
  for (const unsigned registers : {1U, 2U, 4U, 8U})
    vector_line(d, "vl" + std::to_string(registers) + "re" + std::to_string(bits) + ".v", "vd, (rs1)",
                access_code(false, Way::unit, bits, registers) | field(25, 25, 1) | field(24, 20, 8), "vload-whole",
                any_width(&whole<T, false>), rule(whole_group(registers), no_group), "Whole registers from memory.");
}

template <bool stores>
void declare_direction(Declarations& d) {
  set_direction(d, stores);
  declare_width<u8, stores>(d);
  declare_width<u16, stores>(d);
  declare_width<u32, stores>(d);
  declare_width<u64, stores>(d);
  vector_line(d, stores ? "vsm.v" : "vlm.v", stores ? "vs3, (rs1)" : "vd, (rs1)",
              access_code(stores, Way::unit, 8, 1) | field(25, 25, 1) | field(24, 20, 11), stores ? "vstore" : "vload",
              any_width(&mask_bytes<stores>), rule(mask_group, no_group),
              stores ? "A mask to memory." : "A mask from memory.");
  d.traits |= ignores_vtype;
}

}  // namespace vector_memory

void declare_vector_memory(Declarations& d) {
  using namespace vector_memory;
  declare_direction<false>(d);
  declare_whole_loads<u8>(d);
  declare_whole_loads<u16>(d);
  declare_whole_loads<u32>(d);
  declare_whole_loads<u64>(d);
  declare_direction<true>(d);
  for (const unsigned registers : {1U, 2U, 4U, 8U})
    vector_line(d, "vs" + std::to_string(registers) + "r.v", "vs3, (rs1)",
                access_code(true, Way::unit, 8, registers) | field(25, 25, 1) | field(24, 20, 8), "vstore-whole",
                any_width(&whole<u8, true>), rule(whole_group(registers), no_group), "Whole registers to memory.");
  d.traits = 0;
}

}  // namespace tilesim::isa
