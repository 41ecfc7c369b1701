// Emits the statements of a recurrence: loops over tiles, then chunks of trips, then single trips. A state has two
// alternating copies, so that a trip may read the value that it replaces.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/lanes.hpp"
#include "tilesim/compile/plan/in_place.hpp"
#include "tilesim/compile/plan/uses.hpp"
#include "tilesim/compile/prepare/checks.hpp"
#include "tilesim/compile/recurrence/computes.hpp"
#include "tilesim/compile/vector/vector.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"
#include "tilesim/program/vector_work.hpp"

namespace tilesim::lower {

namespace {

using program::Block;
using program::View;
using Use = RecurrenceBuffer::Use;

class RecurrenceLowering {
 public:
  RecurrenceLowering(const Context& context, const LoopPlan& loop, const Recurrence& r)
      : context_(context),
        loop_(loop),
        r_(r),
        plan_(plan_recurrence(r, loop, context.machine)),
        tile_(r, loop, plan_),
        computes_(context, loop, r_, plan_, tile_),
        loads_(std::max<std::int64_t>(1, context.machine.core.dma.load_queues)) {}

  /// The functions of a trip take the vector unit either way. Products take it here alone; in exchange no state passes
  /// through memory.
  std::optional<RecurrenceGain> gain() const {
    if (!plan_.fits || !computes_.computes_all() || !computes_.multiplies_all()) return std::nullopt;
    const Share& machine = context_.machine;
    double moved = 0;
    for (const Recurrence::Renewed& state : r_.states) {
      const TensorType& type = r_.body.value(state.before).type;
      moved += 2.0 * static_cast<double>(packed_bytes(type.dtype, element_count(type.shape)));
    }
    const double seconds = moved / static_cast<double>(machine.memory.bytes_per_second) +
                           2e-12 * static_cast<double>(machine.memory.latency_ps);
    double products = 0;
    for (const RecurrenceStage& stage : plan_.stages) {
      RecurrenceStage others = stage;
      std::erase_if(others.results, [](const RecurrenceStage::Result& result) {
        return result.sum && result.sum->kind == Kind::contract;
      });
      products += computes_.cycles(stage) - computes_.cycles(others);
    }
    std::int64_t parts = 1;
    for (std::size_t i = 0; i < r_.space.size(); ++i) parts *= ceil_div(r_.space[i], plan_.tiles[i]);
    const auto trips = static_cast<double>(loop_.trips);
    const double apart = seconds * static_cast<double>(machine.core.clock.hertz);
    return RecurrenceGain{trips * moved,
                          trips * (apart - products * static_cast<double>(ceil_div(parts, machine.core.count)))};
  }

  program::Scope lower(const Op& op) {
    program::Scope scope;
    scope.kernel = op.name;
    scope.operation = {op.name};
    scope.launch_cycles = context_.machine.core.kernel_launch_cycles;
    scope.barrier = true;
    Block before = copies(op);
    find_ends(op);
    if (before.empty()) return write_kernel(std::move(scope), rings(), tiles());
    program::Scope step;
    step.operation = {op.name};
    step.barrier = true;
    before.push_back(on("", write_kernel(std::move(step), rings(), tiles())));
    scope.body = std::move(before);
    return scope;
  }

 private:
  // ---- Around the kernel: what of a loop's state no trip writes

  const Placement& result(const Op& op, std::size_t state) const { return context_.placements[at(op.results[state])]; }
  bool has_result(const Op& op, std::size_t state) const {
    return op.results[state] != no_value && context_.placed(op.results[state]);
  }

  Block copies(const Op& op) const {
    Block block;
    for (std::size_t i = 0; i < loop_.states.size(); ++i) {
      if (!has_result(op, i)) continue;
      if (const auto number = number_at_end(i)) {
        block.push_back(on("", number_step(op, *number, result(op, i))));
        continue;
      }
      const bool same_bytes = old_value(op, op.results[i]) != no_value;
      if (loop_.states[i] == Carried::renewed || same_bytes || writes_all(i)) continue;
      block.push_back(on("", copy_step(context_, op.name, copy_name(op, i), operand(op, i), result(op, i))));
    }
    return block;
  }

  std::optional<std::int64_t> number_at_end(std::size_t state) const {
    if (loop_.states[state] == Carried::counter) return loop_.start + loop_.trips * loop_.step;
    for (const Induction& own : loop_.inductions)
      if (own.state == state) return own.start + loop_.trips * own.step;
    return std::nullopt;
  }

  const Placement& operand(const Op& op, std::size_t state) const {
    return context_.placements[at(op.operands[state])];
  }

  bool writes_all(std::size_t state) const {
    return std::ranges::any_of(r_.writes, [&](const Recurrence::Slice& write) {
      return write.state == state && r_.body.value(r_.body.inputs[state]).type.shape[write.axis] == loop_.trips;
    });
  }

  /// Where buffers come from and go to in memory.
  struct End {
    const Placement *from = nullptr, *to = nullptr;
    std::vector<int> axes;  ///< of the tensor: axis of the space
    int trips = -1;         ///< axis of the tensor along which trips lie
    const Recurrence::Slice* slice = nullptr;
    bool from_turned = false, to_turned = false;
  };

  void find_ends(const Op& op) {
    std::size_t whole = 0, read = 0, write = 0, state = 0;
    for (const RecurrenceBuffer& buffer : plan_.buffers) {
      End end;
      if (buffer.use == Use::whole) {
        end.from = &operand(op, r_.wholes[whole++].state);
        end.axes = r_.axes[at(buffer.value)];
      } else if (buffer.use == Use::state) {
        const Recurrence::Renewed& own = r_.states[state++];
        end.from = &operand(op, own.state);
        if (has_result(op, own.state)) end.to = &result(op, own.state);
        end.axes = r_.axes[at(buffer.value)];
      } else if (buffer.use != Use::sum) {
        const bool in = buffer.use == Use::read;
        end.slice = in ? &r_.reads[read++] : &r_.writes[write++];
        if (in) end.from = &operand(op, end.slice->state);
        if (!in && has_result(op, end.slice->state)) end.to = &result(op, end.slice->state);
        end.axes = end.slice->axes;
        end.trips = static_cast<int>(end.slice->axis);
      }
      end.from_turned = end.from && turned(buffer, end, *end.from);
      end.to_turned = end.to && turned(buffer, end, *end.to);
      ends_.push_back(std::move(end));
    }
  }

  Shape tile_of(const End& end) const {
    Shape tile;
    for (std::size_t i = 0; i < end.axes.size(); ++i)
      tile.push_back(static_cast<int>(i) == end.trips  ? plan_.chunk
                     : end.axes[i] == Recurrence::none ? 1
                                                       : plan_.tiles[at(end.axes[i])]);
    return tile;
  }

  /// Whether elements change lanes between memory and the tile.
  bool turned(const RecurrenceBuffer& buffer, const End& end, const Placement& placement) const {
    if (!buffer.spans[at(plan_.lane)]) return plan_.tiles[at(plan_.lane)] > 1;
    const Shape tile = tile_of(end);
    const std::vector<std::int64_t> strides = memory_strides(context_, placement, tile);
    for (std::size_t i = 0; i < tile.size(); ++i)
      if (strides[i] == 1 && tile[i] > 1) return end.axes[i] != plan_.lane;
    return false;
  }

  // ---- Rings and transfers

  std::vector<Ring> rings() const {
    const bool one = std::ranges::all_of(tile_.start, [](const Expr& start) { return start.is_constant(); });
    std::vector<Ring> rings;
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      const RecurrenceBuffer& buffer = plan_.buffers[i];
      const bool chunked = buffer.use == Use::read || buffer.use == Use::write;
      const std::int64_t copies = buffer.use == Use::state ? 2 : chunked ? plan_.chunk : 1;
      const std::int64_t depth = one && (buffer.use == Use::whole || buffer.use == Use::state) ? 1 : 2;
      rings.push_back({buffer.slot, buffer.dtype, buffer.tile * copies, depth, static_cast<std::int64_t>(i) % loads_});
    }
    return rings;
  }

  /// Between memory and the slot, which holds the tile in its own order, or turned, in that of memory.
  program::Transfer transfer(std::size_t number, const Placement& placement, bool is_turned) const {
    const RecurrenceBuffer& buffer = plan_.buffers[number];
    const End& end = ends_[number];
    const std::vector<std::int64_t> memory = memory_strides(context_, placement, tile_of(end));
    std::vector<Expr> start, extent;
    std::vector<std::int64_t> strides;
    for (std::size_t i = 0; i < end.axes.size(); ++i) {
      const bool trips = static_cast<int>(i) == end.trips, none = end.axes[i] == Recurrence::none;
      if (trips)
        start.push_back(Expr(end.slice->first) +
                        (end.slice->step > 0 ? tile_.first_trip : Expr(1) - tile_.first_trip - tile_.count));
      else
        start.push_back(none ? Expr(0) : tile_.start[at(end.axes[i])]);
      extent.push_back(trips ? tile_.count : none ? Expr(1) : tile_.extent[at(end.axes[i])]);
      strides.push_back(is_turned ? memory[i] : trips ? buffer.tile : none ? 0 : buffer.strides[at(end.axes[i])]);
    }
    return region_transfer(placement, start, extent, strides, buffer.slot);
  }

  void turn(std::size_t number, const Placement& placement, bool loaded, const Expr& offset, Block& block) const {
    const RecurrenceBuffer& buffer = plan_.buffers[number];
    const End& end = ends_[number];
    const std::vector<std::int64_t> strides = memory_strides(context_, placement, tile_of(end));
    View memory{buffer.slot, 0, offset, {}}, tile{buffer.slot, 0, offset, {}};
    for (std::size_t i = 0; i < end.axes.size(); ++i) {
      const bool trips = static_cast<int>(i) == end.trips, none = end.axes[i] == Recurrence::none;
      const Expr extent = trips ? tile_.count : none ? Expr(1) : tile_.extent[at(end.axes[i])];
      memory.dims.push_back({extent, strides[i]});
      tile.dims.push_back({extent, trips ? buffer.tile : none ? 0 : buffer.strides[at(end.axes[i])]});
    }
    if (!buffer.spans[at(plan_.lane)]) {  // from one lane to all
      const Expr lanes = min(Expr(context_.machine.core.vector.lanes), tile_.extent[at(plan_.lane)]);
      memory.dims.push_back({loaded ? lanes : Expr(1), 0});
      tile.dims.push_back({loaded ? lanes : Expr(1), 0});
    }
    block.push_back(statement(program::PermuteOp{loaded ? memory : tile, loaded ? tile : memory}));
  }

  void load(std::size_t number, Block& block) const {
    const End& end = ends_[number];
    block.push_back(statement(program::Load{transfer(number, *end.from, end.from_turned)}));
    if (end.from_turned) turn(number, *end.from, true, 0, block);
  }

  void store(std::size_t number, const Expr& offset, Block& block) const {
    const End& end = ends_[number];
    if (!end.to) return;
    if (end.to_turned) turn(number, *end.to, false, offset, block);
    program::Transfer to = transfer(number, *end.to, end.to_turned);
    to.offset = to.offset + offset;
    block.push_back(statement(program::Store{std::move(to), {}, 0}));
  }

  // ---- Statements

  /// `read`: receives the buffers that the trip reads.
  Block one_trip(std::set<std::size_t>& read) const {
    Block block;
    for (const RecurrenceStage& stage : plan_.stages) {
      RecurrenceComputes::Compute compute = computes_.compute(stage);
      block.push_back(statement(std::move(compute.op)));
      read.merge(compute.read);
    }
    return block;
  }

  Block one_chunk(Block trip) const {
    Block block;
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].use == Use::read) load(i, block);
    if (plan_.chunk > 1)
      block.push_back(loop("trip", tile_.count, std::move(trip)));
    else
      std::ranges::move(trip, std::back_inserter(block));
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].use == Use::write) store(i, 0, block);
    return block;
  }

  Block tiles() const {
    std::set<std::size_t> read;
    Block chunk = one_chunk(one_trip(read)), block;
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
      if (const Use use = plan_.buffers[i].use; read.contains(i) && (use == Use::whole || use == Use::state))
        load(i, block);
    const std::int64_t chunks = ceil_div(loop_.trips, plan_.chunk);
    if (chunks > 1)
      block.push_back(loop("chunk", Expr(chunks), std::move(chunk)));
    else
      std::ranges::move(chunk, std::back_inserter(block));
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].use == Use::state) store(i, Expr(loop_.trips % 2 * plan_.buffers[i].tile), block);
    for (std::size_t i = r_.space.size(); i-- > 0;) {
      const std::int64_t trips = ceil_div(r_.space[i], plan_.tiles[i]);
      if (trips < 2) continue;
      Block around;
      around.push_back(loop("part" + std::to_string(i), Expr(trips), std::move(block)));
      block = std::move(around);
    }
    return block;
  }

  const Context& context_;
  const LoopPlan& loop_;
  const Recurrence& r_;
  RecurrencePlan plan_;
  RecurrenceTile tile_;
  RecurrenceComputes computes_;
  std::int64_t loads_ = 1;
  std::vector<End> ends_;  ///< per buffer
};

}  // namespace

std::optional<RecurrenceGain> recurrence_gain(const Recurrence& recurrence, const LoopPlan& plan,
                                              const Context& context) {
  return RecurrenceLowering(context, plan, recurrence).gain();
}

program::Scope lower_recurrence(Context& context, const Op& op, const LoopPlan& plan, const Recurrence& recurrence) {
  return RecurrenceLowering(context, plan, recurrence).lower(op);
}

}  // namespace tilesim::lower
