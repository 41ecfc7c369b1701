// Special functions of an NPU core: what the standard vector instructions lack, as the function table means it.
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

}  // namespace npu_functions

void declare_npu_functions(Declarations& d) {
  using namespace npu_functions;
  constexpr Group one{Group::group, 0};
  d.extension = "Xtilesimnpu", d.unit = Unit::special, d.traits = is_vector | never_masked;
  InstructionInfo& info = d("fn", "vd, vs2, fnid", vcix(vcix_xv, 3, false, vcix_i), "special", nullptr,
                            "A special function of each element, by its number.");
  info.by_width = {nullptr, nullptr, apply<float>, apply<double>};
  info.groups = {one, {}, one, 1};
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
