#include "tilesim/isa/latency/kernel_runner.hpp"

#include <algorithm>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::isa {

namespace {

constexpr Address code_begin = 0x10000, code_end = code_begin + (Address{64} << 20), back_to = 0x8000;

}  // namespace

KernelRunner::KernelRunner(std::shared_ptr<const InstructionSet> set, std::uint32_t vlen, NpuSpec spec)
    : hart_(std::move(set), vlen), spec_(std::move(spec)), next_(code_begin) {
  memory_.add(code_begin, code_end, readable | executable, "text");
}

Memory& KernelRunner::scratchpad(std::int64_t bytes) {
  const Address end =
      scratchpad_base + static_cast<Address>(round_up(std::max<std::int64_t>(bytes, 1), std::int64_t{page_bytes}));
  if (end <= scratchpad_end_) return memory_;
  if (scratchpad_end_ == scratchpad_base)
    memory_.add(scratchpad_base, end, readable | writable, "scratchpad");
  else
    memory_.grow(scratchpad_base, end);
  scratchpad_end_ = end;
  return memory_;
}

bool KernelRunner::has_room(const Kernel& kernel) const { return 4 * kernel.words.size() <= code_end - next_; }

Address KernelRunner::place(const Kernel& kernel) {
  require(has_room(kernel), "a kernel is longer than the code memory");
  const Address at = next_;
  memory_.place(at, kernel.words.data(), 4 * kernel.words.size());
  next_ += 4 * kernel.words.size();
  return at;
}

void KernelRunner::clear() {
  next_ = code_begin;
  memory_.code_changed();
}

bool KernelRunner::run(Address code) {
  Npu npu(spec_);
  hart_.npu = &npu, hart_.pc = code, hart_.x[ra] = back_to;
  const Stop stop = hart_.run(memory_, ~std::uint64_t{0} >> 1, nullptr, back_to);
  hart_.npu = nullptr;
  if (stop.kind == Stop::trapped && stop.trap.cause == Cause::breakpoint) return false;
  if (stop.kind != Stop::returned)
    throw InternalError("a kernel ended with: " + std::string(cause_text(stop.trap.cause)) + " " + stop.trap.text);
  return true;
}

}  // namespace tilesim::isa
