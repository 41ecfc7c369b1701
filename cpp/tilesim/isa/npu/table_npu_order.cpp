// Instructions for running sums and sorting: moves along rows of lanes and across a register, 8-bit floats.
#include "tilesim/base/dtype.hpp"
#include "tilesim/isa/npu/encoding.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace npu_order {

u64 row_of_lanes(const Hart& h, const Op& o) {
  if (h.npu == nullptr || h.npu->spec.lanes == 0) illegal(o, "this core has no rows of lanes");
  return h.npu->spec.lanes;
}

/// Lane l takes lane l − by of its row; the first `by` lanes are unchanged.
template <class T>
void up(Hart& h, const Op& o) {
  const u64 lanes = row_of_lanes(h, o), by = h.x[o.rs1], vl = h.v.vl;
  const T* from = h.v.at<T>(o.rs2);
  T* to = h.v.at<T>(o.rd);
  for (u64 row = 0; row < vl; row += lanes)
    for (u64 i = std::min(row + lanes, vl) - row; i-- > by;) to[row + i] = from[row + i - by];
}

/// Lane l takes lane l + by of its row; the last `by` lanes are unchanged.
template <class T>
void down(Hart& h, const Op& o) {
  const u64 lanes = row_of_lanes(h, o), by = h.x[o.rs1], vl = h.v.vl;
  const T* from = h.v.at<T>(o.rs2);
  T* to = h.v.at<T>(o.rd);
  for (u64 row = 0; row < vl; row += lanes)
    for (u64 i = by; i < std::min(lanes, vl - row); ++i) to[row + i - by] = from[row + i];
}

/// All lanes of a row take one of its lanes, or 0 if that lane does not exist.
template <class T>
void pick(Hart& h, const Op& o) {
  const u64 lanes = row_of_lanes(h, o), lane = h.x[o.rs1], vl = h.v.vl;
  const T* from = h.v.at<T>(o.rs2);
  T* to = h.v.at<T>(o.rd);
  for (u64 row = 0; row < vl; row += lanes) {
    const u64 end = std::min(row + lanes, vl);
    const T value = lane < end - row ? from[row + lane] : T{0};
    std::fill(to + row, to + end, value);
  }
}

/// Element i takes element i xor rs1 of the group, or 0 beyond vl.
template <class T>
void flip(Hart& h, const Op& o) {
  const u64 by = h.x[o.rs1], vl = h.v.vl;
  const T* from = h.v.at<T>(o.rs2);
  T* to = h.v.at<T>(o.rd);
  for (u64 i = 0; i < vl; ++i) to[i] = (i ^ by) < vl ? from[i ^ by] : T{0};
}

DType float8(const Op& o) {
  const auto dtype = static_cast<DType>(o.imm);
  if (o.imm >= dtype_count || !is_float(dtype) || bits(dtype) != 8) illegal(o, "no float of 8 bits has this number");
  return dtype;
}

/// Source and destination may share registers.
void widen(Hart& h, const Op& o) {
  const std::vector<u8> from(h.v.at<u8>(o.rs2), h.v.at<u8>(o.rs2) + h.v.vl);
  convert(from.data(), float8(o), h.v.at<float>(o.rd), DType::f32, static_cast<s64>(h.v.vl));
}

void narrow(Hart& h, const Op& o) {
  const std::vector<float> from(h.v.at<float>(o.rs2), h.v.at<float>(o.rs2) + h.v.vl);
  convert(from.data(), DType::f32, h.v.at<u8>(o.rd), float8(o), static_cast<s64>(h.v.vl));
}

void declare_lanes(Declarations& d) {
  constexpr Group one{Group::group, 0};
  const auto line = [&](const char* name, VcixSources sources, std::uint32_t op, Execute single, Execute wide,
                        std::uint32_t traits, const char* description) {
    InstructionInfo& info =
        d(name, "vd, vs2, rs1", vcix(sources, op, false, vcix_r), "permutation", nullptr, description);
    info.by_width = {nullptr, nullptr, single, wide};
    info.groups = {one, {}, one, 1};
    info.traits |= traits;
  };
  d.unit = Unit::cross_lane;
  line("xl.up", vcix_xvv, 0, up<u32>, up<u64>, reads_vd | overlap_never,
       "Each row of lanes moved up by rs1 lanes; the first ones stay as they were.");
  line("xl.down", vcix_xvv, 1, down<u32>, down<u64>, reads_vd | overlap_never,
       "Each row of lanes moved down by rs1 lanes; the last ones stay as they were.");
  line("xl.pick", vcix_xv, 0, pick<u32>, pick<u64>, 0, "Lane rs1 of each row of lanes, in all of its lanes.");
  line("xl.flip", vcix_xv, 1, flip<u32>, flip<u64>, overlap_never,
       "Element i takes element i xor rs1: halves of blocks swap, or blocks reverse.");
}

void declare_floats(Declarations& d) {
  constexpr Group word{Group::fixed, 5}, byte{Group::fixed, 3};
  d.unit = Unit::arithmetic;
  const auto line = [&](const char* name, std::uint32_t op, Execute run, Group vd, Group vs2, const char* description) {
    InstructionInfo& info =
        d(name, "vd, vs2, dtype", vcix(vcix_xv, op, false, vcix_i), "float-narrowing", nullptr, description);
    info.by_width = {nullptr, nullptr, run, nullptr};
    info.groups = {vd, {}, vs2, 1};
  };
  line("xf.widen", 0, widen, word, byte, "Floats of 8 bits, whose type is named, as f32.");
  line("xf.narrow", 1, narrow, byte, word, "f32 rounded to floats of 8 bits, whose type is named.");
}

}  // namespace npu_order

void declare_npu_order(Declarations& d) {
  d.extension = "Xtilesimnpu", d.traits = is_vector | never_masked;
  npu_order::declare_lanes(d);
  npu_order::declare_floats(d);
  d.traits = 0;
}

}  // namespace tilesim::isa
