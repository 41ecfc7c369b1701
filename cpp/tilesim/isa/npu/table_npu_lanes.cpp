// Moves and sums within registers. A register has `sublanes` rows of `lanes` 32-bit elements.
#include "tilesim/base/functions/functions.hpp"
#include "tilesim/isa/npu/encoding.hpp"
#include "tilesim/isa/npu/functions.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace npu_lanes {

u64 lanes_of(const Hart& h, const Op& o) {
  if (h.npu == nullptr || h.npu->spec.lanes == 0) illegal(o, "this core has no rows of lanes");
  return h.npu->spec.lanes;
}

template <class Stored>
void spread(Hart& h, const Op& o) {
  const u64 lanes = lanes_of(h, o);
  const auto* from = h.v.at<Stored>(o.rs2);
  auto* to = h.v.at<Stored>(o.rd);
  for (u64 row = 0; row < h.v.vl; row += lanes) {
    const Stored first = from[row];
    for (u64 i = row; i < std::min(row + lanes, h.v.vl); ++i) to[i] = first;
  }
}

template <class T>
T both(Combiner combiner, T a, T b) {
  const T values[2] = {a, b};
  const Function f = combiner == Combiner::add        ? Function::add
                     : combiner == Combiner::multiply ? Function::multiply
                     : combiner == Combiner::maximum  ? Function::maximum
                                                      : Function::minimum;
  return evaluate(f, values);
}

/// Initial value of a total: sums of floats start with 0, so that the sum of -0 terms is 0.
template <class T>
T begun(Combiner combiner, T first) {
  return std::is_floating_point_v<T> && combiner == Combiner::add ? both<T>(combiner, T{}, first) : first;
}

/// Bits 0 and 1 of the code select the combiner; bit 2: integers; bit 3: over the rows instead of within them.
template <class T, class Stored>
void reduce(Hart& h, const Op& o) {
  const u64 lanes = lanes_of(h, o), vl = h.v.vl;
  const auto combiner = static_cast<Combiner>(o.imm & 3);
  const auto* from = h.v.at<Stored>(o.rs2);
  auto* to = h.v.at<Stored>(o.rd);
  if ((o.imm & 8) != 0) {
    for (u64 lane = 0; lane < std::min(lanes, vl); ++lane) {
      T total = begun<T>(combiner, from[lane]);
      for (u64 i = lane + lanes; i < vl; i += lanes) total = both<T>(combiner, total, from[i]);
      for (u64 i = lane; i < vl; i += lanes) to[i] = static_cast<Stored>(total);
    }
    return;
  }
  for (u64 row = 0; row < vl; row += lanes) {
    const u64 end = std::min(row + lanes, vl);
    T total = begun<T>(combiner, from[row]);
    for (u64 i = row + 1; i < end; ++i) total = both<T>(combiner, total, from[i]);
    for (u64 i = row; i < end; ++i) to[i] = static_cast<Stored>(total);
  }
}

template <class Float, class Integer>
void reduce_any(Hart& h, const Op& o) {
  (o.imm & 4) != 0 ? reduce<s64, Integer>(h, o) : reduce<Float, Float>(h, o);
}

/// The larger or smaller operand; NaN if one is NaN.
template <bool largest, class Float>
void extreme(Hart& h, const Op& o) {
  const auto* a = h.v.at<Float>(o.rs2);
  const auto* b = h.v.at<Float>(o.rs1);
  auto* to = h.v.at<Float>(o.rd);
  for (u64 i = 0; i < h.v.vl; ++i) {
    const Float both[2] = {a[i], b[i]};
    to[i] = evaluate(largest ? Function::maximum : Function::minimum, both);
  }
}

}  // namespace npu_lanes

void declare_npu_lanes(Declarations& d) {
  using namespace npu_lanes;
  constexpr Group one{Group::group, 0};
  d.extension = "Xtilesimnpu", d.unit = Unit::cross_lane, d.traits = is_vector | never_masked;
  const auto line = [&](const char* name, const char* operands, Encoding encoding, const char* timing, Execute run,
                        Execute wide, const char* description) {
    InstructionInfo& info = d(name, operands, encoding, timing, nullptr, description);
    info.by_width = {nullptr, nullptr, run, wide};
    info.groups = {one, {}, one, 1};
  };
  const Encoding code = vcix(vcix_xv, 2, false, vcix_i);
  line("xl.spread", "vd, vs2", code | field(19, 15, 16), "permutation", spread<u32>, spread<u64>,
       "The first element of each row of lanes, in all of its lanes.");
  line("xl.reduce", "vd, vs2, xlid", code | field(19, 19, 0), "reduction", reduce_any<float, s32>,
       reduce_any<double, s64>,
       "Sum (0; of floats from +0 on), product (1), maximum (2) or minimum (3) of each row of lanes; + 4: of integers; "
       "+ 8: over the rows.");
  d.unit = Unit::arithmetic;
  const auto pair = [&](const char* name, std::uint32_t op, Execute run, Execute wide, const char* description) {
    InstructionInfo& info =
        d(name, "vd, vs2, vs1", vcix(vcix_xvv, op, false, vcix_v), "float-simple", nullptr, description);
    info.by_width = {nullptr, nullptr, run, wide};
    info.groups = {one, one, one, 1};
  };
  pair("xf.max", 0, extreme<true, float>, extreme<true, double>, "The larger of two floats; NaN where one is.");
  pair("xf.min", 1, extreme<false, float>, extreme<false, double>, "The smaller of two floats; NaN where one is.");
  d.traits = 0;
}

}  // namespace tilesim::isa
