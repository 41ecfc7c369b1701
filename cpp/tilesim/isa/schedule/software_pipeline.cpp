#include "tilesim/isa/schedule/software_pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::isa {

namespace {

constexpr unsigned first_value = 32;

/// Converts ticks to 1 / `parts` of a cycle, the most instructions that one kind of pipe can start per cycle.
std::int64_t parts_up(Ticks t, std::int64_t parts) { return (t * parts + cycle - 1) / cycle; }

}  // namespace

unsigned SoftwarePipeline::value(Scope scope) {
  values_.push_back({scope, INT64_MAX, -1, {}});
  return first_value + static_cast<unsigned>(values_.size() - 1);
}

void SoftwarePipeline::begin(Section section) {
  section_ = section;
  recorded_.clear();
  code_.record(&recorded_);
}

/// Finds values and the mask register that an instruction reads and writes.
void SoftwarePipeline::uses(const Written& written, std::vector<unsigned>& reads, std::vector<unsigned>& writes,
                            bool& reads_mask, bool& writes_mask) const {
  const InstructionInfo& info = *written.info;
  std::size_t next = 0;
  for (const OperandPart& part : set_.parts(set_.id(info))) {
    if (part.word == nullptr) continue;
    if (part.word->word == "v0") reads_mask = true;
    if (part.word->slices.empty()) continue;
    const bool given = next < written.operands.size();
    const std::int64_t value = given ? written.operands[next] : part.word->standard;
    ++next;
    if (part.word->sort == Sort::masked && value == 0) reads_mask = true;
    if (part.word->sort != Sort::v) continue;
    const bool destination = (part.word->slots & slot_rd) != 0 && !info.is(is_store);
    if (value == 0) (destination ? writes_mask : reads_mask) = true;
    if (value < static_cast<std::int64_t>(first_value)) continue;
    const auto id = static_cast<unsigned>(value) - first_value;
    if (destination) writes.push_back(id);
    if (!destination || info.is(reads_vd)) reads.push_back(id);
  }
}

/// Bundles instructions: scalar ones with the next vector instruction, pointer steps with the previous one, mask
/// writers with all readers of the mask.
void SoftwarePipeline::end() {
  code_.record(nullptr);
  std::vector<std::size_t> mask_until(recorded_.size(), 0);
  std::size_t writer = SIZE_MAX;
  for (std::size_t i = 0; i < recorded_.size(); ++i) {
    if (!recorded_[i].info->is(is_vector)) continue;
    std::vector<unsigned> reads, writes;
    bool reads_mask = false, writes_mask = false;
    uses(recorded_[i], reads, writes, reads_mask, writes_mask);
    if (reads_mask && writer != SIZE_MAX) mask_until[writer] = i;
    if (writes_mask) writer = mask_until[i] = i;
  }
  std::vector<Written> open;
  std::size_t until = 0;
  bool vector = false;
  for (std::size_t i = 0; i < recorded_.size(); ++i) {
    const Written& one = recorded_[i];
    const auto destination = one.operands.empty() ? 0 : one.operands[0];
    const bool steps = !one.info->is(is_vector) && one.operands.size() == 3 && one.operands[1] == destination &&
                       destination != t1 && destination != t2;
    if (steps && !vector && !bundles_.empty()) {
      std::vector<Written>& before = bundles_.back().all;
      before.insert(before.end(), open.begin(), open.end());
      before.push_back(one);
      open.clear();
      continue;
    }
    open.push_back(one);
    vector |= one.info->is(is_vector);
    until = std::max(until, mask_until[i]);
    if (vector && i >= until && one.info->is(is_vector)) close(open, section_), vector = false;
  }
  require(open.empty(), "a section of a kernel ends with scalar instructions");
}

void SoftwarePipeline::close(std::vector<Written>& open, const Section& section) {
  Bundle bundle;
  bundle.all = std::move(open);
  open.clear();
  bundle.section = section;
  for (const Written& one : bundle.all) {
    bool mask = false;
    if (one.info->is(is_vector)) uses(one, bundle.reads, bundle.writes, mask, mask);
  }
  take_times(bundle);
  bundles_.push_back(std::move(bundle));
}

/// Sets the time in its pipe and the latency; instructions of a bundle wait for each other.
void SoftwarePipeline::take_times(Bundle& bundle) {
  bool first = true;
  for (const Written& one : bundle.all) {
    if (!one.info->is(is_vector)) continue;
    const std::uint16_t id = set_.id(*one.info);
    set_vtype(state_, static_cast<std::uint64_t>(one.type), static_cast<std::uint64_t>(space_.elements));
    Op op{};
    op.id = id, op.rm = 1;
    const InstructionPlan plan = make_plan(core_, *one.info, timings_[id], op, state_);
    Ticks written = plan.result;
    for (unsigned i = 0; i < plan.footprints; ++i)
      if (plan.footprint[i].writes) written = plan.footprint[i].written;
    if (first) {
      bundle.pipe = timings_[id].pipe, bundle.held = std::max<std::int64_t>(1, parts_up(plan.held, parts_));
      bundle.latency = std::max<std::int64_t>(1, parts_up(written, parts_));
    } else {
      bundle.held = std::max(bundle.held, bundle.latency) + parts_up(plan.held, parts_);
      bundle.latency += parts_up(written, parts_);
      bundle.pipe = std::min<std::size_t>(bundle.pipe, timings_[id].pipe);
    }
    first = false;
  }
}

namespace {

bool apart(const Section& a, const Section& b) {
  return (a.with & b.without) != 0 || (a.without & b.with) != 0 || (a.total >= 0 && b.total >= 0 && a.total != b.total);
}

}  // namespace

/// Finds the dependences within an iteration, with their least distances.
void SoftwarePipeline::find_edges() {
  edges_.clear();
  const auto has = [](const std::vector<unsigned>& of, unsigned value) {
    return std::find(of.begin(), of.end(), value) != of.end();
  };
  for (std::size_t to = 0; to < bundles_.size(); ++to)
    for (std::size_t from = 0; from < to; ++from) {
      const Bundle &a = bundles_[from], &b = bundles_[to];
      // bundles that never run in the same iteration only keep their order
      const std::int64_t least = apart(a.section, b.section) ? 0 : 1;
      std::int64_t distance = -1;
      for (const unsigned value : a.writes) {
        // a shorter consumer waits for the producer's last part
        if (has(b.reads, value))
          distance = std::max(distance, least * (a.latency + std::max<std::int64_t>(0, a.held - b.held)));
        if (has(b.writes, value)) distance = std::max(distance, least);
      }
      for (const unsigned value : a.reads)
        if (has(b.writes, value)) distance = std::max(distance, least);
      if (distance >= 0) edges_.push_back({from, to, distance});
    }
}

/// The share of iterations in which the section runs.
double SoftwarePipeline::share(const Section& section) const {
  double part = 1;
  const auto steps = static_cast<double>(space_.steps), block = static_cast<double>(space_.block);
  if (section.with & (Section::first_step | Section::last_step)) part /= steps;
  if (section.with & (Section::first_group | Section::last_group)) part /= block;
  if (section.with & Section::fresh) part *= static_cast<double>(space_.totals) / steps;
  if (section.without & Section::fresh) part *= 1 - static_cast<double>(space_.totals) / steps;
  if (section.without & Section::last_step && space_.steps == 1) part = 0;
  if (section.with & Section::ragged)
    part *= static_cast<double>(std::max<std::int64_t>(0, space_.steps - space_.ragged_from)) / steps;
  if (section.total >= 0) part /= static_cast<double>(space_.totals);
  return part;
}

/// Lower bound of the interval between iterations, by the load of the pipes.
std::int64_t SoftwarePipeline::least_interval() const {
  std::vector<double> held(pipe_kinds + core_.units.size(), 0);
  for (const Bundle& bundle : bundles_) held[bundle.pipe] += share(bundle.section) * static_cast<double>(bundle.held);
  double most = 1;
  for (std::size_t pipe = 0; pipe < held.size(); ++pipe) {
    const double pipes = pipe < pipe_kinds ? core_.pipes[pipe] : core_.units[pipe - pipe_kinds].pipes;
    most = std::max(most, held[pipe] / std::max(1.0, pipes));
  }
  return static_cast<std::int64_t>(std::ceil(most - 1e-9));
}

/// Schedules bundles when their pipes are free; those that nothing waits for start late.
void SoftwarePipeline::place(std::int64_t interval) {
  std::int64_t length = 0;
  for (Bundle& bundle : bundles_) bundle.time = 0;
  for (const Edge& edge : edges_)  // sorted by their ends
    bundles_[edge.to].time = std::max(bundles_[edge.to].time, bundles_[edge.from].time + edge.distance);
  for (const Bundle& bundle : bundles_) length = std::max(length, bundle.time + bundle.held);
  for (Bundle& bundle : bundles_) bundle.late = length - bundle.held;
  for (auto edge = edges_.rbegin(); edge != edges_.rend(); ++edge)
    bundles_[edge->from].late = std::min(bundles_[edge->from].late, bundles_[edge->to].late - edge->distance);
  std::vector<std::vector<std::int64_t>> taken(pipe_kinds + core_.units.size(),
                                               std::vector<std::int64_t>(static_cast<std::size_t>(interval), 0));
  std::vector<bool> placed(bundles_.size(), false);
  for (std::size_t i = 0; i < bundles_.size(); ++i) {
    Bundle& bundle = bundles_[i];
    std::int64_t earliest = 0;
    bool waits = false;
    for (const Edge& edge : edges_)
      if (edge.to == i)
        earliest = std::max(earliest, bundles_[edge.from].time + edge.distance), waits |= placed[edge.from];
    if (!waits) earliest = std::max(earliest, bundle.late - 1);
    placed[i] = true;
    bundle.time = earliest;
    const std::int64_t pipes = bundle.pipe < pipe_kinds ? core_.pipes[bundle.pipe] : 1;
    if (share(bundle.section) < 0.5) continue;
    std::vector<std::int64_t>& table = taken[bundle.pipe];
    const std::int64_t whole = bundle.held / interval, rest = bundle.held % interval;
    for (std::int64_t tried = 0; tried < interval; ++tried) {
      bool free = true;
      for (std::int64_t c = 0; free && c < rest; ++c)
        free = table[static_cast<std::size_t>((earliest + tried + c) % interval)] + whole <
               std::max<std::int64_t>(1, pipes);
      if (!free) continue;
      bundle.time = earliest + tried;
      break;
    }
    for (std::int64_t c = 0; c < interval; ++c)
      table[static_cast<std::size_t>((bundle.time + c) % interval)] += whole + (c < rest ? 1 : 0);
  }
}

SoftwarePipeline::IterationPosition SoftwarePipeline::position_of(std::int64_t iteration) const {
  IterationPosition at{};
  at.iteration = iteration;
  const std::int64_t whole = space_.block * space_.steps;
  at.block = iteration / whole;
  at.groups = std::min(space_.block, space_.groups - at.block * space_.block);
  const std::int64_t within = iteration - at.block * whole;
  at.step = within / at.groups, at.group = within % at.groups;
  return at;
}

bool SoftwarePipeline::stands(const Section& section, const IterationPosition& at) const {
  unsigned facts = 0;
  const auto fact = [&](bool holds, Section::Fact which) { facts |= holds ? unsigned{which} : 0U; };
  fact(at.step == 0, Section::first_step), fact(at.step == space_.steps - 1, Section::last_step);
  fact(at.group == 0, Section::first_group), fact(at.group == at.groups - 1, Section::last_group);
  fact(at.step < space_.totals, Section::fresh), fact(at.step >= space_.ragged_from, Section::ragged);
  if ((facts & section.with) != section.with || (facts & section.without) != 0) return false;
  return section.total < 0 || at.step % space_.totals == section.total;
}

/// Key of an iteration: iterations with equal keys have the same instructions.
std::int64_t SoftwarePipeline::sort_of(const IterationPosition& at) const {
  std::int64_t sort = 1;
  std::uint8_t seen = 0;
  bool totals = false, groups = false, steps = false;
  for (const Bundle& bundle : bundles_) {
    seen |= bundle.section.with | bundle.section.without;
    totals |= bundle.section.total >= 0;
  }
  for (const Value& value : values_) groups |= value.scope == Scope::group, steps |= value.scope == Scope::step;
  for (const auto fact : {Section::first_step, Section::last_step, Section::first_group, Section::last_group,
                          Section::fresh, Section::ragged})
    if (seen & fact) sort = 2 * sort + (stands({fact, 0, -1}, at) ? 1 : 0);
  sort = sort * most_turns + at.iteration % turns_;
  if (totals) sort = sort * space_.totals + at.step % space_.totals;
  if (groups) sort = sort * turns_of_groups_ + (at.block * space_.block + at.group) % turns_of_groups_;
  if (steps) sort = sort * turns_of_steps_ + (at.block * space_.steps + at.step) % turns_of_steps_;
  return 2 * sort + (at.block * space_.block + at.group == space_.groups - 1 ? 1 : 0);
}

unsigned SoftwarePipeline::reg(unsigned id, const IterationPosition& at) const {
  const Value& value = values_[id];
  const std::int64_t turn = value.scope == Scope::iteration ? at.iteration % turns_
                            : value.scope == Scope::group   ? (at.block * space_.block + at.group) % turns_of_groups_
                                                            : (at.block * space_.steps + at.step) % turns_of_steps_;
  return value.registers[static_cast<std::size_t>(turn)];
}

void SoftwarePipeline::write_bundle(const Bundle& bundle, const IterationPosition& at) {
  const bool last = at.block * space_.block + at.group == space_.groups - 1;
  for (const Written& one : bundle.all) {
    std::vector<std::int64_t> operands = one.operands;
    std::size_t next = 0;
    for (const OperandPart& part : set_.parts(set_.id(*one.info))) {
      if (part.word == nullptr || part.word->slices.empty()) continue;
      if (next < operands.size() && part.word->sort == Sort::v &&
          operands[next] >= static_cast<std::int64_t>(first_value))
        operands[next] = reg(static_cast<unsigned>(operands[next]) - first_value, at);
      ++next;
    }
    code_.put(one, operands, last ? space_.last_elements : space_.elements);
  }
}

/// Finds the shortest interval for which registers suffice: in steps of an eighth, then by bisection.
void SoftwarePipeline::find_interval(unsigned first) {
  std::int64_t length = 0;
  for (const Bundle& bundle : bundles_) length += bundle.held + bundle.latency;
  const auto suffices = [&](std::int64_t interval) {
    place(interval);
    return give_registers(interval, first);
  };
  const std::int64_t least = least_interval();
  std::int64_t short_of = least - 1;
  for (interval_ = least; !suffices(interval_); interval_ += std::max<std::int64_t>(1, interval_ / 8)) {
    if (interval_ > length) throw OutOfRegisters{};
    short_of = interval_;
  }
  bool placed = true;  // the schedule is that of `interval_`
  while (interval_ - short_of > 1) {
    const std::int64_t middle = (short_of + interval_) / 2;
    placed = suffices(middle);
    (placed ? interval_ : short_of) = middle;
  }
  if (!placed) suffices(interval_);
}

void SoftwarePipeline::write(unsigned first) {
  find_edges();
  find_interval(first);
  std::int64_t stages = 1;
  for (const Bundle& bundle : bundles_) stages = std::max(stages, bundle.time / interval_ + 1);
  std::vector<std::size_t> order(bundles_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::int64_t x = bundles_[a].time, y = bundles_[b].time;
    return x % interval_ != y % interval_ ? x % interval_ < y % interval_ : x > y;
  });
  std::map<std::vector<std::int64_t>, std::size_t> known;
  std::vector<std::size_t> pieces;
  std::vector<std::int64_t> sorts(static_cast<std::size_t>(space_.count()));
  for (std::int64_t i = 0; i < space_.count(); ++i) sorts[static_cast<std::size_t>(i)] = sort_of(position_of(i));
  std::vector<std::int64_t> key(static_cast<std::size_t>(stages));
  for (std::int64_t window = 0; window < space_.count() + stages - 1; ++window) {
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      const std::int64_t i = window - stage;
      key[static_cast<std::size_t>(stage)] = i >= 0 && i < space_.count() ? sorts[static_cast<std::size_t>(i)] : 0;
    }
    const auto [piece, added] = known.try_emplace(key, known.size());
    pieces.push_back(piece->second);
    if (!added) continue;
    code_.begin_piece();
    for (const std::size_t b : order) {
      const std::int64_t i = window - bundles_[b].time / interval_;
      if (i < 0 || i >= space_.count()) continue;
      const IterationPosition at = position_of(i);
      if (stands(bundles_[b].section, at)) write_bundle(bundles_[b], at);
    }
    code_.end_piece();
  }
  code_.join(pieces);
}

}  // namespace tilesim::isa
