// Loads and stores of non-contiguous elements, by a stride or by indices; also in segments.
#include "tilesim/isa/vector/memory_elements.hpp"

namespace tilesim::isa {

namespace vector_scatter {

template <class T, bool stores>
void by_stride(Hart& h, const Op& o) {
  const u64 base = h.x[o.rs1], stride = h.x[o.rs2];
  each_access<T, stores>(h, o, fields_of(o), [=](u64 i) { return base + i * stride; });
}

template <class T, class Index, bool stores>
void by_index(Hart& h, const Op& o) {
  const u64 base = h.x[o.rs1];
  const Index* index = h.v.at<Index>(o.rs2);
  each_access<T, stores>(h, o, fields_of(o), [=](u64 i) { return base + index[i]; });
}

std::string segment(unsigned fields) { return fields > 1 ? "seg" + std::to_string(fields) : ""; }

template <class T, bool stores>
void declare_strided(Declarations& d) {
  constexpr unsigned bits = 8 * sizeof(T);
  const Execute run = &by_stride<T, stores>;
  for (u8 fields = 1; fields <= 8; ++fields)
    vector_line(d, std::string(stores ? "vss" : "vls") + segment(fields) + "e" + std::to_string(bits) + ".v",
                stores ? "vs3, (rs1), rs2, vm" : "vd, (rs1), rs2, vm", access_code(stores, Way::strided, bits, fields),
                stores ? "vstore-strided" : "vload-strided", {run, run, run, run},
                rule(fixed_group(bits), no_group, no_group, fields),
                stores ? "Elements to memory at equal distances." : "Elements from memory at equal distances.");
}

template <class Index, bool stores>
void declare_indexed(Declarations& d, Way way) {
  constexpr unsigned bits = 8 * sizeof(Index);
  constexpr auto by_width = by_widths<unsigned_types>([]<class T>() -> Execute { return &by_index<T, Index, stores>; });
  const bool ordered = way == Way::ordered;
  const u32 traits = d.traits;
  for (u8 fields = 1; fields <= 8; ++fields) {
    d.traits = fields > 1 && !stores ? traits | overlap_never : traits;
    vector_line(d,
                std::string(stores ? "vs" : "vl") + (ordered ? "ox" : "ux") + segment(fields) + "ei" +
                    std::to_string(bits) + ".v",
                stores ? "vs3, (rs1), vs2, vm" : "vd, (rs1), vs2, vm", access_code(stores, way, bits, fields),
                stores ? "vstore-indexed" : "vload-indexed", by_width,
                rule(one_group, fixed_group(bits), no_group, fields),
                stores ? "Elements to memory at given distances." : "Elements from memory at given distances.");
  }
  d.traits = traits;
}

template <bool stores>
void declare_direction(Declarations& d) {
  set_direction(d, stores);
  declare_strided<u8, stores>(d);
  declare_strided<u16, stores>(d);
  declare_strided<u32, stores>(d);
  declare_strided<u64, stores>(d);
  for (const Way way : {Way::unordered, Way::ordered}) {
    declare_indexed<u8, stores>(d, way);
    declare_indexed<u16, stores>(d, way);
    declare_indexed<u32, stores>(d, way);
    declare_indexed<u64, stores>(d, way);
  }
}

}  // namespace vector_scatter

void declare_vector_scatter(Declarations& d) {
  vector_scatter::declare_direction<false>(d);
  vector_scatter::declare_direction<true>(d);
  d.traits = 0;
}

}  // namespace tilesim::isa
