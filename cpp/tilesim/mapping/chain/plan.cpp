#include "tilesim/mapping/chain/plan.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "tilesim/base/shape.hpp"
#include "tilesim/machine/parts.hpp"
#include "tilesim/mapping/chain/units.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::int64_t chain_alignment = 64;

/// Computes buffers, bytes and cycles of a plan.
class ChainPricing {
 public:
  ChainPricing(const ChainProblem& problem, const Share& machine)
      : p_(problem), machine_(machine), units_(problem, machine) {}

  void add_buffers(ChainPlan& plan) const {
    const std::int64_t ends = plan.ends, hidden = plan.hidden, rows = plan.rows;
    const std::int64_t span = p_.span_rows(rows), read = std::min(span, p_.rows_in), pixels = rows * p_.columns;
    const auto add = [&](const std::string& name, DType dtype, std::int64_t elements, std::int64_t depth,
                         bool sums = false) { plan.buffers.push_back({name, dtype, elements, depth, sums}); };
    const bool first = p_.has(ChainStage::first), middle = p_.has(ChainStage::middle), last = p_.has(ChainStage::last);
    plan.buffers.clear();
    add("x", p_.x,
        first ? p_.in * p_.first_row.span(read) * p_.first_column.span(p_.columns_in)
              : hidden * span * p_.span_columns(),
        first ? ends : 2);
    for (std::size_t i = 0; i < chain_stages; ++i) {
      const auto stage = static_cast<ChainStage>(i);
      if (!p_.has(stage)) continue;
      const std::string number = std::to_string(i);
      const std::int64_t weights = stage == ChainStage::first    ? p_.in * p_.first_taps()
                                   : stage == ChainStage::middle ? p_.row.taps * p_.column.taps
                                                                 : p_.out;
      const bool held = plan.holds(stage), end = stage == ChainStage::last;
      add("w" + number, p_.stage(stage).weights, (held ? p_.hidden : hidden) * weights, held ? ends : 2);
      const std::int64_t channels = end ? p_.out : plan.holds_leaves() ? p_.hidden : hidden;
      for (std::size_t leaf = 0; leaf < p_.stage(stage).leaves.size(); ++leaf) {
        const ChainProblem::Leaf& one = p_.stage(stage).leaves[leaf];
        add("l" + number + "_" + std::to_string(leaf), one.dtype, one.whole ? channels * pixels : channels,
            one.whole || plan.holds_leaves() ? ends : 2);
      }
    }
    if (first) {
      add("s0", DType::f32, hidden * read * p_.columns_in, 2, true);
      add("h0", p_.stage(ChainStage::first).result, hidden * span * p_.span_columns(), middle ? 1 : 2);
    }
    if (middle) add("s1", DType::f32, hidden * pixels, 1);
    if (middle && last) add("h1", p_.stage(ChainStage::middle).result, hidden * pixels, 2);
    if (last) add("s2", DType::f32, p_.out * pixels, ends, true);
    add("y", p_.stage(last ? ChainStage::last : ChainStage::middle).result, (last ? p_.out : hidden) * pixels,
        last ? ends : 2);
  }

  bool fits(const ChainPlan& plan) const {
    const bool apart = machine_.core.scratchpad.accumulator_bytes > 0;
    std::int64_t scratchpad = 0, sums = 0;
    for (const SlotRing& buffer : plan.buffers) {
      const std::int64_t bytes =
          buffer.depth * round_up(buffer.elements * host_bytes(buffer.dtype), chain_alignment) + chain_alignment;
      (buffer.sums && apart ? sums : scratchpad) += bytes;
    }
    return scratchpad <= machine_.core.scratchpad.bytes && sums <= machine_.core.scratchpad.accumulator_bytes;
  }

  /// Each block of rows loops over tiles of hidden channels. The array computes the next tile while the vector unit
  /// processes the current tile. Between blocks, each unit waits for the other.
  void price(ChainPlan& plan) const {
    const std::int64_t blocks = ceil_div(p_.rows, plan.rows), tiles = ceil_div(p_.hidden, plan.hidden);
    const std::vector<std::int64_t> own = parts_of_loops({p_.lead, blocks}, machine_.core.count);
    const auto trips = static_cast<double>(ceil_div(p_.lead, own[0]));
    const double rate = units_.rate(static_cast<double>(own[0] * own[1]));
    const std::int64_t own_blocks = ceil_div(blocks, own[1]);
    const Block first = look(plan, 0, rate), last = look(plan, blocks - 1, rate);
    const Block inner = blocks > 2 ? look(plan, 1, rate) : Block{};
    const auto between = static_cast<double>(std::max<std::int64_t>(0, blocks - 2));
    const auto behind = static_cast<double>(std::max<std::int64_t>(0, own_blocks - 2));
    const auto of_core = [&](double Block::* part) {  // one core; an inner block replaces a missing last block
      if (own_blocks == 1) return std::max(first.*part, inner.*part);
      return first.*part + behind * inner.*part + (blocks > 2 && own_blocks < blocks ? inner.*part : last.*part);
    };
    const double memory = of_core(&Block::bytes) / rate, step = static_cast<double>(tiles);
    const double all = first.bytes + between * inner.bytes + (blocks > 1 ? last.bytes : 0);
    plan.bytes = all * static_cast<double>(p_.lead);
    plan.computing = trips * std::max(of_core(&Block::array), of_core(&Block::vector));
    plan.recomputed_flops = again(plan, blocks) * static_cast<double>(p_.lead);
    plan.cycles = std::max(trips * of_core(&Block::cycles), trips * memory + first.cycles / step) + 2 * units_.way() +
                  first.bytes / rate / step + static_cast<double>(machine_.core.kernel_launch_cycles);
  }

  /// Whether the first and the last block of rows read rows of the image, not only padding.
  bool reads(const ChainPlan& plan) const {
    const std::int64_t last = (ceil_div(p_.rows, plan.rows) - 1) * plan.rows;
    return rows_read(0, std::min(plan.rows, p_.rows)) > 0 && rows_read(last, p_.rows - last) > 0;
  }

 private:
  struct Block { double cycles = 0, array = 0, vector = 0, bytes = 0; };

  std::int64_t rows_read(std::int64_t start, std::int64_t rows) const {
    if (!p_.has(ChainStage::middle)) return rows;
    const std::int64_t begin = start * p_.row.stride - p_.row.pad;
    return std::min(p_.rows_in, begin + p_.row.span(rows)) - std::max<std::int64_t>(0, begin);
  }

  /// Flops of the first product on rows that two blocks both compute.
  double again(const ChainPlan& plan, std::int64_t blocks) const {
    if (!p_.has(ChainStage::first) || !p_.has(ChainStage::middle)) return 0;
    std::int64_t rows = -p_.rows_in;
    for (std::int64_t i = 0; i < blocks; ++i)
      rows += rows_read(i * plan.rows, std::min(plan.rows, p_.rows - i * plan.rows));
    return 2 * static_cast<double>(std::max<std::int64_t>(0, rows) * p_.columns_in * p_.in * p_.first_taps()) *
           static_cast<double>(p_.hidden);
  }

  /// One tile of hidden channels: cycles of the array before and after the vector unit, and of the vector unit; bytes.
  struct Tile {
    ChainUnits::Cycles before, behind, vector;
    double bytes = 0, loads = 0;
  };

  /// Cycles for setting the edges of the window's input to zero.
  ChainUnits::Cycles borders(std::int64_t hidden, std::int64_t rows) const {
    ChainUnits::Cycles all;
    const std::int64_t right = p_.span_columns() - p_.column.pad - p_.columns_in;
    if (p_.column.pad > 0) all += units_.vector({}, hidden, p_.span_rows(rows), p_.column.pad);
    if (right > 0) all += units_.vector({}, hidden, p_.span_rows(rows), right);
    return all;
  }

  /// Adds the weights, and the values per channel, of a stage for `hidden` hidden channels.
  void load(ChainStage stage, std::int64_t hidden, bool weights, bool leaves, double& bytes, double& loads) const {
    if (!p_.has(stage)) return;
    if (weights) bytes += units_.weight_bytes(stage, hidden), ++loads;
    if (leaves && stage != ChainStage::last)
      bytes += units_.leaf_bytes(stage, hidden, 0), loads += static_cast<double>(p_.stage(stage).leaves.size());
  }

  Tile tile_of(const ChainPlan& plan, std::int64_t hidden, std::int64_t rows, std::int64_t read) const {
    Tile tile;
    for (const ChainStage stage : {ChainStage::first, ChainStage::middle, ChainStage::last})
      load(stage, hidden, !plan.holds(stage), !plan.holds_leaves(), tile.bytes, tile.loads);
    if (p_.has(ChainStage::first)) {
      tile.before = units_.array(ChainStage::first, read, hidden);
      tile.vector += units_.behind(ChainStage::first, hidden, read);
      if (p_.has(ChainStage::middle)) tile.vector += borders(hidden, rows);
    } else {
      tile.bytes += chain_bytes(hidden * read * p_.columns_in, p_.x), ++tile.loads;
    }
    if (p_.has(ChainStage::middle)) {
      tile.vector += units_.window(hidden, rows);
      tile.vector += units_.behind(ChainStage::middle, hidden, rows);
    }
    if (p_.has(ChainStage::last))
      tile.behind = units_.array(ChainStage::last, rows, hidden);
    else
      tile.bytes += chain_bytes(hidden * rows * p_.columns, p_.stage(ChainStage::middle).result);
    return tile;
  }

  /// Cycles per tile if two tiles are in flight: the loads of one overlap the computation of the other.
  double period(const Tile& tile, double rate) const {
    const double way = units_.way() + tile.before.done + tile.vector.done + tile.behind.done + tile.bytes / rate;
    return std::max({tile.before.busy + tile.behind.busy, tile.vector.busy, way / 2,
                     tile.bytes / rate + tile.loads * units_.alone()});
  }

  Block look(const ChainPlan& plan, std::int64_t block, double rate) const {
    const std::int64_t start = block * plan.rows, rows = std::min(plan.rows, p_.rows - start);
    const std::int64_t read = rows_read(start, rows), tiles = ceil_div(p_.hidden, plan.hidden);
    const std::int64_t rest = p_.hidden - (tiles - 1) * plan.hidden;
    const Tile full = tile_of(plan, plan.hidden, rows, read);
    const Tile last = rest == plan.hidden ? full : tile_of(plan, rest, rows, read);
    Block all;
    double queue = 0;  // cycles of the loads
    const auto add = [&](const Tile& tile, double times) {
      all.array += times * (tile.before.busy + tile.behind.busy);
      all.vector += times * tile.vector.busy;
      all.bytes += times * tile.bytes;
      queue += times * (tile.bytes / rate + tile.loads * units_.alone());
    };
    add(full, static_cast<double>(tiles - 1));
    add(last, 1);
    // The next block's first product follows this block's last product.
    all.cycles =
        static_cast<double>(tiles - 1) * period(full, rate) + full.before.done + last.vector.done + last.behind.done;
    double alone = 0, loads = 0;  // bytes and loads per block, not per tile
    for (const ChainStage stage : {ChainStage::first, ChainStage::middle, ChainStage::last})
      load(stage, p_.hidden, plan.holds(stage), plan.holds_leaves(), alone, loads);
    if (p_.has(ChainStage::first))
      alone += chain_bytes(p_.in * std::min(p_.x_rows, p_.first_row.span(read)) * p_.x_columns, p_.x), ++loads;
    if (p_.has(ChainStage::last)) {
      const ChainUnits::Cycles behind = units_.behind(ChainStage::last, p_.out, rows);
      all.vector += behind.busy;
      all.cycles += std::max(0.0, behind.busy - full.before.busy);
      loads += static_cast<double>(p_.stage(ChainStage::last).leaves.size());
      alone += units_.leaf_bytes(ChainStage::last, p_.out, rows) +
               chain_bytes(p_.out * rows * p_.columns, p_.stage(ChainStage::last).result);
      if (plan.ends < 2) all.cycles += behind.done;
    }
    queue += alone / rate + loads * units_.alone();
    if (plan.ends < 2 && alone > 0) all.cycles += units_.way() + alone / rate + loads * units_.alone();
    all.bytes += alone;
    all.cycles = std::max({all.cycles, all.array, all.vector, queue});
    return all;
  }

  const ChainProblem& p_;
  const Share& machine_;
  ChainUnits units_;
};

/// Sizes of equal parts, as multiples of `unit`, from `most` down to one unit. For long extents, each size is at least
/// a thirtieth smaller than the previous one.
std::set<std::int64_t> part_sizes(std::int64_t extent, std::int64_t unit, std::int64_t most) {
  std::set<std::int64_t> sizes;
  const std::int64_t units = ceil_div(extent, unit);
  for (std::int64_t size = std::min(units, std::max<std::int64_t>(1, most / unit)); size > 0;) {
    sizes.insert(std::min(extent, size * unit));
    const std::int64_t next = std::min(size - 1, size - size / 30);
    size = next > 0 ? ceil_div(units, ceil_div(units, next)) : 0;  // equal parts
  }
  return sizes;
}

}  // namespace

std::optional<ChainPlan> plan_chain(const ChainProblem& problem, const Share& machine) {
  constexpr double about = 1.01;  // estimates within this factor count as equal
  const ChainPricing pricing(problem, machine);
  const std::int64_t unit = std::max<std::int64_t>(
      {1, machine.core.array.rows, machine.core.array.columns * std::max<std::int64_t>(1, machine.core.array.count)});
  std::vector<ChainPlan> plans;
  const std::int64_t most = machine.core.scratchpad.bytes;  // assumes one byte per element
  for (const std::int64_t rows : part_sizes(problem.rows, 1, most))
    for (const std::int64_t hidden : part_sizes(problem.hidden, std::min(unit, problem.hidden), most))
      for (const std::int64_t ends : {2, 1})
        for (const ChainHeld held : {ChainHeld::none, ChainHeld::small, ChainHeld::all}) {
          ChainPlan plan{rows, hidden, ends, held, {}};
          pricing.add_buffers(plan);
          if (!pricing.reads(plan) || !pricing.fits(plan)) break;  // the other choices need more space
          pricing.price(plan);
          plans.push_back(std::move(plan));
        }
  if (plans.empty()) return std::nullopt;
  double least = INFINITY;
  for (const ChainPlan& plan : plans) least = std::min(least, plan.cycles);
  std::erase_if(plans, [&](const ChainPlan& plan) { return plan.cycles > about * least; });
  return *std::ranges::min_element(plans, {}, [](const ChainPlan& plan) { return std::pair(plan.bytes, plan.cycles); });
}

ChainApart chain_apart(const ChainProblem& problem, const Share& machine, const std::array<bool, chain_stages>& moved) {
  const ChainUnits units(problem, machine);
  const auto cores = static_cast<double>(std::max<std::int64_t>(1, machine.core.count));
  const auto lead = static_cast<double>(problem.lead);
  ChainApart apart;
  double before = chain_bytes(
      (problem.has(ChainStage::first) ? problem.in : problem.hidden) * problem.x_rows * problem.x_columns, problem.x);
  for (std::size_t i = 0; i < chain_stages; ++i) {
    const auto stage = static_cast<ChainStage>(i);
    if (!problem.has(stage)) continue;
    const bool first = stage == ChainStage::first, last = stage == ChainStage::last;
    const std::int64_t rows = first ? problem.rows_in : problem.rows, channels = last ? problem.out : problem.hidden;
    const double result =
        chain_bytes(channels * rows * (first ? problem.columns_in : problem.columns), problem.stage(stage).result);
    double bytes = lead * (before + (moved[i] ? result : 0) + units.leaf_bytes(stage, channels, rows)) +
                   units.weight_bytes(stage, problem.hidden);
    before = moved[i] ? result : 0;
    double vector = units.behind(stage, channels, rows).busy, array = 0;
    if (stage == ChainStage::middle)
      vector += units.window(problem.hidden, rows).busy;
    else
      array =
          std::min(units.array(stage, rows, problem.hidden).busy, units.array(stage, rows, problem.hidden, true).busy);
    apart.cycles += std::max(lead * std::max(array, vector) / cores, bytes / cores / units.rate(cores)) + units.way() +
                    static_cast<double>(machine.core.kernel_launch_cycles);
    apart.bytes += bytes;
  }
  return apart;
}

}  // namespace tilesim::mapping
