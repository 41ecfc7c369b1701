// Executes sorts by their kernels: copies keys to register order and results back.
#include <cstring>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/latency/executor.hpp"
#include "tilesim/isa/order/sort_kernel.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim::isa {

namespace {

/// Offsets of rows, in elements.
std::vector<std::int64_t> row_offsets(const TileView& view) {
  std::vector<std::int64_t> all;
  for_each_offset(view.dims.data(), view.dims.size() - 1, [&](std::int64_t offset) { all.push_back(offset); });
  return all;
}

/// Calls `visit(byte offset in the view, byte offset in the buffer)` for each key. Rows are split into parts of
/// `length` keys; a block of rows uses `registers` registers.
template <class Visit>
void each_key(const TileView& view, const SortPlan& plan, std::int64_t length, std::int64_t registers, Visit visit) {
  const std::int64_t count = view.dims.back().extent, step = view.dims.back().stride;
  std::int64_t row = 0;
  for (const std::int64_t offset : row_offsets(view)) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t slot =
          (row / plan.rows * registers + i % length) * plan.elements() + i / length * plan.rows + row % plan.rows;
      visit((offset + i * step) * host_bytes(view.dtype), slot * host_bytes(view.dtype));
    }
    ++row;
  }
}

}  // namespace

void KernelExecutor::sort(const tilesim::Sort& sort) {
  for (const TileView* view : {&sort.in, &sort.keys})
    for (const ViewDim& dim : view->dims)
      if (dim.extent <= 0) return execute(sort);
  Memory memory;
  Address next = scratchpad_base;
  const auto place = [&](std::int64_t bytes) {
    const Address here = next;
    next += static_cast<Address>(round_up(std::max<std::int64_t>(bytes, 1), 4096));
    memory.add(here, next, readable | writable, "scratchpad");
    return here;
  };
  const std::vector<SortPlan> plans = plans_of(core_, sort);
  // all plans are equivalent; they are used in turn
  const SortPlan plan = plans[static_cast<std::size_t>(by_kernel_) % plans.size()];
  const std::int64_t filled = plan.row_blocks * plan.filled * plan.elements(),
                     stored = plan.row_blocks * plan.stored() * plan.elements();
  SortAddresses at;
  std::vector<std::byte> in(static_cast<std::size_t>(filled * host_bytes(sort.in.dtype)));
  const auto bytes = static_cast<std::size_t>(host_bytes(sort.in.dtype));
  each_key(sort.in, plan, plan.columns == 1 ? plan.extent : plan.registers, plan.filled,
           [&](std::int64_t from, std::int64_t to) {
             std::memcpy(&in[static_cast<std::size_t>(to)], sort.in.data + from, bytes);
           });
  at.in = place(std::ssize(in));
  memory.place(at.in, in.data(), in.size());
  at.keys = place(stored * host_bytes(sort.keys.dtype));
  at.positions = place(stored * host_bytes(sort.positions.dtype));
  at.work = place(plan.registers * plan.word_bytes());
  run_code(sort_kernel(*set_, sort, plan, at).kernel, memory);
  const std::int64_t length = plan.columns == 1 ? plan.stored() : plan.sorted;
  for (const auto& [view, from] : {std::pair{&sort.keys, at.keys}, std::pair{&sort.positions, at.positions}})
    each_key(*view, plan, length, plan.stored(), [&, view = view, from = from](std::int64_t to, std::int64_t slot) {
      memory.read(from + static_cast<Address>(slot), view->data + to,
                  static_cast<std::uint64_t>(host_bytes(view->dtype)));
    });
}

}  // namespace tilesim::isa
