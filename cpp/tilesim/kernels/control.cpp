// while, branch, and the collectives on one device.
#include <algorithm>

#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {

Results while_loop(const Call& call) {
  Results state = call.operands;
  std::int64_t trips = 0;
  for (; run_callee(call, 0, state)[0].int_at(0) != 0; ++trips) {
    call.poll();
    state = run_callee(call, 1, state);
  }
  if (call.options.loops) call.options.loops(call.function, call.op, trips);
  return state;
}

Results branch(const Call& call) {
  const Array& which = call.operand(0);
  const std::vector<Array> inputs(call.operands.begin() + 1, call.operands.end());
  const auto last = static_cast<std::int64_t>(call.op.functions.size()) - 1;
  std::int64_t chosen = which.int_at(0);
  if (which.dtype() == DType::boolean)
    chosen = chosen != 0 ? 0 : 1;
  else if (chosen < 0 || chosen > last)
    chosen = last;
  return run_callee(call, static_cast<std::size_t>(chosen), inputs);
}

/// A group of one device returns its operand; operands of other devices are not available here.
Results collective(const Call& call) {
  const bool alone = call.op.kind != Kind::permute_devices && call.op.kind != Kind::device_index &&
                     call.attributes().integer("group_size", 1) == 1;
  if (!alone) call.unsupported(std::string(info(call.op.kind).name) + " among several devices");
  return {call.operand(0)};
}

}  // namespace tilesim::kernels
