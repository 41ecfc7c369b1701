#include "tilesim/compile/recurrence/plan.hpp"

#include <algorithm>
#include <map>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::lower {

namespace {

using Use = RecurrenceBuffer::Use;

class RecurrencePlanner {
 public:
  RecurrencePlanner(const Recurrence& recurrence, const LoopPlan& loop, const Share& machine)
      : r_(recurrence), loop_(loop), machine_(machine) {}

  RecurrencePlan run() {
    choose_lane();
    add_buffers();
    add_stages();
    plan_.tiles = r_.space;
    while (!(plan_.fits = fits()) && cut()) {
    }
    while (plan_.fits && parts() < machine_.core.count && cut()) {
    }
    if (plan_.fits) plan_.fits = fits();
    return std::move(plan_);
  }

 private:
  std::vector<bool> spans_of(ValueId value) const {
    std::vector<bool> spans(r_.space.size(), false);
    for (const int axis : r_.axes[at(value)])
      if (axis != Recurrence::none) spans[at(axis)] = true;
    return spans;
  }

  /// The longest axis that nothing adds up along; else the longest.
  void choose_lane() {
    for (int i = 1; i < std::ssize(r_.space); ++i) {
      const bool better = !r_.summed[at(i)] && r_.summed[at(plan_.lane)];
      if (better || (r_.summed[at(i)] == r_.summed[at(plan_.lane)] && r_.space[at(i)] > r_.space[at(plan_.lane)]))
        plan_.lane = i;
    }
  }

  std::size_t add(Use use, ValueId value, const char* stem) {
    RecurrenceBuffer buffer;
    buffer.use = use;
    buffer.value = value;
    buffer.slot = stem + std::to_string(plan_.buffers.size());
    buffer.dtype = r_.body.value(value).type.dtype;
    buffer.spans = spans_of(value);
    plan_.buffers.push_back(std::move(buffer));
    return plan_.buffers.size() - 1;
  }

  void add_buffers() {
    for (const Recurrence::Whole& whole : r_.wholes) add(Use::whole, whole.value, "x");
    for (const Recurrence::Slice& read : r_.reads) add(Use::read, read.value, "x");
    for (const Recurrence::Renewed& state : r_.states) add(Use::state, state.before, "s");
    for (const Recurrence::Slice& write : r_.writes) {
      RecurrenceBuffer& buffer = plan_.buffers[add(Use::write, write.value, "y")];
      buffer.spans.assign(r_.space.size(), false);
      for (const int axis : write.axes)
        if (axis != Recurrence::none) buffer.spans[at(axis)] = true;
    }
  }

  static bool sums(const Op& op) { return op.kind == Kind::reduce || op.kind == Kind::contract; }

  void add_stages() {
    std::map<ValueId, std::vector<std::size_t>> wanted;
    std::size_t state = 0, write = 0;
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (plan_.buffers[i].use == Use::state) wanted[r_.states[state++].after].push_back(i);
      if (plan_.buffers[i].use == Use::write) wanted[r_.writes[write++].value].push_back(i);
    }
    std::map<ValueId, bool> needed;
    for (const auto& [value, buffers] : wanted) needed[value] = true;
    std::vector<const Op*> made;
    for (auto op = r_.body.ops.rbegin(); op != r_.body.ops.rend(); ++op) {
      if (!needed.count(op->results[0])) continue;
      for (const ValueId operand : op->operands)
        if (operand != no_value) needed[operand] = true;
      if (sums(*op)) made.push_back(&*op);
    }
    for (auto op = made.rbegin(); op != made.rend(); ++op) {
      const ValueId value = (*op)->results[0];
      std::vector<std::size_t> buffers;  // that take the sum as it is; a state is copied, whose old value may be needed
      auto& taken = wanted[value];
      std::erase_if(taken, [&](std::size_t buffer) {
        const bool as_it_is = plan_.buffers[buffer].use == Use::write && plan_.buffers[buffer].spans == spans_of(value);
        if (as_it_is) buffers.push_back(buffer);
        return as_it_is;
      });
      if (reads(value) || !taken.empty()) buffers.push_back(add(Use::sum, value, "r"));
      if (taken.empty()) wanted.erase(value);
      std::vector<bool> spans = spans_of(value);  // an operand may be the value behind a broadcast
      for (std::size_t of = 0; of < ((*op)->kind == Kind::contract ? 2 : 1); ++of) {
        const std::vector<bool> others = spans_of((*op)->operands[of]);
        for (std::size_t i = 0; i < spans.size(); ++i) spans[i] = spans[i] || others[i];
      }
      for (const int axis : r_.along[at(value)]) spans[at(axis)] = true;
      stage(r_.level[at(value)] - 1, spans).results.push_back({value, *op, std::move(buffers)});
    }
    for (const auto& [value, buffers] : wanted)
      for (const std::size_t buffer : buffers)
        stage(r_.level[at(value)], plan_.buffers[buffer].spans).results.push_back({value, nullptr, {buffer}});
    std::ranges::stable_sort(plan_.stages, {}, &RecurrenceStage::level);
  }

  bool reads(ValueId value) const {
    return std::ranges::any_of(r_.body.ops, [&](const Op& op) { return std::ranges::count(op.operands, value) > 0; });
  }

  RecurrenceStage& stage(int level, const std::vector<bool>& spans) {
    for (RecurrenceStage& known : plan_.stages)
      if (known.level == level && known.spans == spans) return known;
    plan_.stages.push_back({level, spans, {}});
    return plan_.stages.back();
  }

  std::int64_t parts() const {
    std::int64_t parts = 1;
    for (std::size_t i = 0; i < r_.space.size(); ++i) parts *= ceil_div(r_.space[i], plan_.tiles[i]);
    return parts;
  }

  /// Whether tiles along an axis store separate elements: of what does not lie along it each would store all.
  bool stored_apart(int axis) const {
    return std::ranges::all_of(plan_.buffers, [&](const RecurrenceBuffer& buffer) {
      return (buffer.use != Use::state && buffer.use != Use::write) || buffer.spans[at(axis)];
    });
  }

  /// In two along the longest axis that may be cut, the lanes as long as they stay full; false: none.
  bool cut() {
    const std::int64_t lanes = machine_.core.vector.lanes;
    int best = -1;
    for (int i = 0; i < std::ssize(r_.space); ++i) {
      if (r_.summed[at(i)] || plan_.tiles[at(i)] < 2 || !stored_apart(i)) continue;
      if (i == plan_.lane && plan_.tiles[at(i)] <= lanes) continue;
      if (best < 0 || plan_.tiles[at(i)] > plan_.tiles[at(best)]) best = i;
    }
    if (best < 0) return false;
    std::int64_t& tile = plan_.tiles[at(best)];
    const std::int64_t parts = ceil_div(r_.space[at(best)], tile) + 1;
    const std::int64_t next = ceil_div(r_.space[at(best)], parts);
    tile = std::min(tile - 1, best == plan_.lane ? round_up(next, lanes) : next);
    if (best == plan_.lane) tile = std::max(lanes, tile / lanes * lanes);
    return true;
  }

  /// Strides for the tiles at hand, and as many trips in a chunk as leave room for all rings.
  bool fits() {
    std::int64_t fixed = 0, each = 0;
    const bool one = parts() == 1;
    for (RecurrenceBuffer& buffer : plan_.buffers) {
      lay(buffer);
      const std::int64_t bytes = buffer.tile * host_bytes(buffer.dtype);
      if (buffer.use == Use::read || buffer.use == Use::write) each += 2 * bytes;
      if (buffer.use == Use::whole) fixed += (one ? 1 : 2) * bytes;
      if (buffer.use == Use::state) fixed += (one ? 2 : 4) * bytes;
      if (buffer.use == Use::sum) fixed += 2 * bytes;
    }
    const std::int64_t room = machine_.core.scratchpad.bytes - 64 * std::ssize(plan_.buffers) - fixed;
    const std::int64_t wanted = std::min<std::int64_t>(loop_.trips, 64), most = each > 0 ? room / each : wanted;
    plan_.chunk = std::clamp<std::int64_t>(most, 1, wanted);  // a plan that does not fit still has tiles and chunks
    return room >= 0 && most >= std::min<std::int64_t>(wanted, 4);
  }

  void lay(RecurrenceBuffer& buffer) const {
    buffer.strides.assign(r_.space.size(), 0);
    buffer.tile = 1;
    const auto next = [&](std::size_t axis) {
      if (!buffer.spans[axis]) return;
      buffer.strides[axis] = buffer.tile;
      buffer.tile *= plan_.tiles[axis];
    };
    next(at(plan_.lane));
    for (std::size_t axis = r_.space.size(); axis-- > 0;)
      if (static_cast<int>(axis) != plan_.lane) next(axis);
  }

  const Recurrence& r_;
  const LoopPlan& loop_;
  const Share& machine_;
  RecurrencePlan plan_;
};

}  // namespace

RecurrencePlan plan_recurrence(const Recurrence& recurrence, const LoopPlan& plan, const Share& machine) {
  return RecurrencePlanner(recurrence, plan, machine).run();
}

}  // namespace tilesim::lower
