// Special functions of an NPU core that standard vector instructions lack, as defined by the function table.
#include <cstring>

#include "tilesim/base/functions/functions.hpp"
#include "tilesim/isa/npu/encoding.hpp"
#include "tilesim/isa/npu/functions.hpp"
#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace npu_functions {

template <class Float>
void apply(Hart& h, const Op& o) {
  if (o.imm >= static_cast<s64>(special_functions.size())) illegal(o, "no function has this number");
  const Function which = special_functions[static_cast<std::size_t>(o.imm)];
  const auto* from = h.v.at<Float>(o.rs2);
  auto* to = h.v.at<Float>(o.rd);
  for (u64 i = 0; i < h.v.vl; ++i) to[i] = evaluate(which, from + i);
}

/// Applies a function of two floats.
template <Function which, class Float>
void apply_pair(Hart& h, const Op& o) {
  const auto* a = h.v.at<Float>(o.rs2);
  const auto* b = h.v.at<Float>(o.rs1);
  auto* to = h.v.at<Float>(o.rd);
  for (u64 i = 0; i < h.v.vl; ++i) {
    const Float both[2] = {a[i], b[i]};
    to[i] = evaluate(which, both);
  }
}

}  // namespace npu_functions

void declare_npu_functions(Declarations& d) {
  using namespace npu_functions;
  constexpr Group one{Group::group, 0};
  d.extension = "Xtilesimnpu", d.unit = Unit::special, d.traits = is_vector | never_masked;
  InstructionInfo& info = d("fn", "vd, vs2, fnid", vcix(vcix_xv, 3, false, vcix_i), "special", nullptr,
                            "A special function of each element, by its number.");
  info.by_width = {nullptr, nullptr, apply<float>, apply<double>};
  info.groups = {one, {}, one, 1};
  const auto pair = [&](const char* name, std::uint32_t op, const char* timing, Execute run, Execute wide,
                        const char* description) {
    InstructionInfo& two = d(name, "vd, vs2, vs1", vcix(vcix_xv, op, false, vcix_v), timing, nullptr, description);
    two.by_width = {nullptr, nullptr, run, wide};
    two.groups = {one, one, one, 1};
  };
  pair("fn.power", 0, "special", apply_pair<Function::power, float>, apply_pair<Function::power, double>,
       "Floats of vs2 to the power of those of vs1.");
  pair("fn.atan2", 1, "special", apply_pair<Function::atan2, float>, apply_pair<Function::atan2, double>,
       "Angles whose tangents are vs2 over vs1, by the signs of both.");
  d.unit = Unit::arithmetic;
  pair("fn.remainder", 2, "float-divide", apply_pair<Function::remainder, float>,
       apply_pair<Function::remainder, double>, "Remainder of floats, with the dividend's sign.");
  pair("fn.floor_divide", 3, "float-divide", apply_pair<Function::floor_divide, float>,
       apply_pair<Function::floor_divide, double>, "Quotients of floats, rounded down.");
  d.traits = 0;
}

void declare_npu_matrix(Declarations& d);
void declare_npu_lanes(Declarations& d);
void declare_npu_moves(Declarations& d);
void declare_npu_order(Declarations& d);

void declare_npu(Declarations& d) {
  declare_npu_matrix(d);
  declare_npu_functions(d);
  declare_npu_lanes(d);
  declare_npu_moves(d);
  declare_npu_order(d);
}

}  // namespace tilesim::isa
