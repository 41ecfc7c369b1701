#include "tilesim/isa/pipeline/plan.hpp"

#include <algorithm>
#include <bit>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
Ticks log2_of(std::int64_t n) { return n <= 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(n - 1)); }

/// Bits per element and number of elements of an operand.
struct Extent { std::int64_t bits = 0, elements = 0; };

Extent extent_of(const Group& group, const VectorState& v, std::int64_t elements, unsigned fields) {
  const std::int64_t sew = std::int64_t{1} << v.type.sew;
  switch (group.kind) {
    case Group::none:
      return {};
    case Group::group:
      return {group.scale >= 0 ? sew << group.scale : std::max<std::int64_t>(1, sew >> -group.scale),
              elements * fields};
    case Group::fixed:
      return {std::int64_t{1} << group.scale, elements * fields};
    case Group::mask:
      return {1, elements};
    case Group::element:
      return {group.scale >= 0 ? sew << group.scale : sew, 1};
    case Group::whole:
      return {8, (std::int64_t{v.vlen} / 8) << group.scale};
  }
  return {};
}

class InstructionPlanner {
 public:
  InstructionPlanner(const CoreTiming& core, const InstructionInfo& info, const StaticTiming& fixed, const Op& op,
                     const VectorState& v)
      : core_(core),
        info_(info),
        class_(fixed.custom ? *fixed.custom : core.timing_of(fixed.timing_class)),
        fixed_(fixed),
        masked_(op.rm == 0 && info.is(is_vector)),
        v_(v) {
    const bool by_vl = core.by_vl && class_.by_vl;
    elements_ = static_cast<std::int64_t>(by_vl ? v.vl : v.vlmax);
  }

  InstructionPlan make() {
    const GroupRule& rule = info_.groups;
    const bool ignores = info_.is(ignores_vtype);
    if (ignores) masked_ = false;
    const unsigned fields = rule.fields;
    Extent d = extent_of(rule.vd, v_, elements_, fields), a = extent_of(rule.vs2, v_, elements_, 1),
           b = extent_of(rule.vs1, v_, elements_, 1);
    // a reduction counts elements of its result's width
    const std::int64_t wide = rule.vd.kind == Group::element ? std::max(d.bits, a.bits) : a.bits;
    // indices of another width do not limit the rate
    const bool indices = rule.vs1.kind == Group::fixed && !fixed_.loads && !fixed_.stores;
    beats_ = std::max({beats(d), beats({wide, a.elements}), indices ? 0 : beats(b), std::int64_t{1}});
    bytes_ = up(std::max({d.bits * d.elements, wide * a.elements, indices ? 0 : b.bits * b.elements}), 8);
    bits_ = std::max({d.bits > 1 ? d.bits : 0, wide > 1 ? wide : 0, std::int64_t{1}});
    hold();
    const bool stores = info_.is(is_store);
    // vslideup does not read vd, but leaves part of it unwritten
    const bool keeps = info_.is(reads_vd) && fixed_.timing_class != TimingClass::slide_up;
    add(Field::rd, d, stores || keeps || class_.merges, !stores);
    add(Field::rs2, a, true, false), add(Field::rs1, b, true, false);
    if (masked_) add(Field::mask, {1, elements_}, true, false);
    // a stated latency counts from the start of the last beat
    const bool stated = info_.custom && info_.custom->latency && !class_.at_end;
    if (plan_.at_end || d.elements == 0) plan_.result = plan_.held - (stated ? step_ : 0) + class_.latency;
    pipes();
    work();
    return plan_;
  }

 private:
  std::int64_t beats(const Extent& e) const { return e.elements == 0 ? 0 : up(e.bits * e.elements, core_.dlen); }

  void hold() {
    const std::int64_t registers = std::max<std::int64_t>(1, up(beats_ * core_.dlen, core_.vlen));
    const bool memory = fixed_.loads || fixed_.stores;
    const auto sew = static_cast<std::size_t>(v_.type.sew - 3) & 3;
    Ticks beat = class_.cost[sew] + class_.bits * (std::int64_t{1} << v_.type.sew);
    if (memory && class_.element == 0) beat = std::max(beat, core_.port_beat);
    const Ticks extra = class_.start + class_.each * beats_ * core_.dlen / core_.vlen +
                        class_.element * elements_ * info_.groups.fields + class_.square * registers * registers +
                        up(class_.passing * bytes_, 1024 * cycle) * cycle;
    Ticks passing = joined(beat);
    if (memory && class_.element == 0 && core_.port_beat > cycle)  // a partial last beat takes less time
      passing = std::min(passing, std::max(class_.cost[sew] * beats_, up(bytes_, core_.port_bytes) * cycle));
    plan_.held = std::max({class_.minimum, passing + extra, cycle / 4});
    plan_.at_end = class_.at_end || !core_.chaining;
    const bool plain = class_.element == 0 && class_.square == 0 && !class_.at_end;
    step_ = plain && beat > 0 ? beat : plan_.held / beats_;
  }

  /// Ticks for all beats with the tree that joins their elements: at full width, or at a fraction of the width if a
  /// smaller tree outweighs more beats. Applies also to classes that take elements one by one but save time per beat.
  Ticks joined(Ticks beat) const {
    Ticks least = INT64_MAX;
    for (std::int64_t width = core_.dlen;; width /= 2) {
      const std::int64_t beats = width == core_.dlen ? beats_ : std::max<std::int64_t>(1, up(8 * bytes_, width));
      const std::int64_t per_beat = std::max<std::int64_t>(1, width / bits_);
      const Ticks tree = class_.tree * log2_of(std::min(per_beat, tree_elements()));
      least = std::min(least, beat * beats + tree + class_.fold * log2_of(beats));
      if ((class_.tree == 0 && beat >= 0) || width <= core_.join || width <= bits_) return least;
    }
  }

  /// Number of elements that the tree of a reduction joins.
  std::int64_t tree_elements() const { return class_.fold != 0 ? std::max<std::int64_t>(elements_, 1) : INT64_MAX; }

  void add(Field field, const Extent& e, bool reads, bool writes) {
    if (e.elements == 0) return;
    Footprint f;
    f.field = field, f.reads = reads, f.writes = writes;
    const std::int64_t total = e.bits * e.elements, count = std::max<std::int64_t>(1, beats(e));
    f.registers = static_cast<std::uint8_t>(std::clamp<std::int64_t>(up(total, v_.vlen), 1, 8));
    const Ticks latency = class_.latency + (fixed_.loads ? core_.load_latency : 0);
    const Ticks each = beats_ * step_ / count;  // ticks between beats of this operand
    f.whole = writes && (plan_.at_end || (field == Field::rd && info_.is(scalar_destination)));
    if (writes && plan_.at_end) {
      f.written = plan_.held + latency;
      if (!class_.at_end) f.written = (beats_ - 1) * step_ + latency;
    } else if (field != Field::rd || !info_.is(scalar_destination)) {
      const std::int64_t in_one = std::max<std::int64_t>(1, v_.vlen / core_.dlen);
      f.each = each * v_.vlen / core_.dlen;
      f.within = (std::min(in_one, count) - 1) * each;
      f.last_within = (count - 1) * each - (f.registers - 1) * f.each;
      f.last_within = std::max<Ticks>(0, f.last_within);
      f.written = latency + std::max<Ticks>(0, each - step_);
    } else {
      f.written = latency;
    }
    if (writes) plan_.result = f.written + (f.registers - 1) * f.each + f.last_within;
    lanes(f);
    plan_.footprint[plan_.footprints++] = f;
  }

  /// Values are read beat by beat; a younger write follows these reads and the older write's start or end.
  void lanes(Footprint& f) const {
    const Ticks older = core_.write_order == WriteOrder::waits ? 0 : f.written;
    const auto at = [&](Ticks offset, Ticks within, Lanes& read, Lanes& write) {
      read.in = {offset, offset + within, 0, 0};
      write.in = {offset + older, offset + within + older, offset + f.written, offset + within + f.written};
    };
    at(0, f.within, f.read, f.write);
    at((f.registers - 1) * f.each, f.last_within, f.read_last, f.write_last);
  }

  void pipes() {
    unsigned count = class_.pipes;
    const bool mask = masked_ || info_.groups.vd.kind == Group::mask;
    if (mask && up(elements_, core_.dlen) <= 1) count = std::min(count, core_.mask_pipes);
    plan_.pipes = static_cast<std::uint8_t>(std::clamp(count, 1U, 255U));
  }

  void work() {
    const auto vl = static_cast<std::int64_t>(v_.vl);
    plan_.operations = static_cast<std::uint32_t>(vl * fixed_.operations);
    if (!fixed_.loads && !fixed_.stores) return;
    const Extent data = extent_of(info_.groups.vd, v_, vl, info_.groups.fields);
    plan_.bytes = static_cast<std::uint32_t>(up(data.bits * data.elements, 8));
  }

  const CoreTiming& core_;
  const InstructionInfo& info_;
  const ClassTiming& class_;
  const StaticTiming& fixed_;
  bool masked_;
  const VectorState& v_;
  std::int64_t elements_ = 0, beats_ = 1, bits_ = 8, bytes_ = 1;
  Ticks step_ = cycle;
  InstructionPlan plan_;
};

void scalar_registers(const InstructionSet& set, std::uint16_t id, bool vector, StaticTiming& to) {
  for (const OperandPart& part : set.parts(id)) {
    if (part.word == nullptr) continue;
    const Sort sort = part.word->sort;
    const bool x = sort == Sort::x || (sort == Sort::fixed && !vector), f = sort == Sort::f;
    if (!x && !f) continue;
    const std::uint8_t base = f ? 33 : 0, slots = part.word->slots;
    for (std::uint8_t i = 0; i < 3; ++i)
      if ((slots & (slot_rs1 << i)) != 0 && to.sources < 3)
        to.slots[to.sources] = static_cast<std::uint8_t>(i + 1), to.bases[to.sources++] = base;
    if ((slots & slot_rd) != 0) to.destination = base;
  }
}

bool descends(TimingClass c, TimingClass from) {
  for (; c != from; c = class_parent(c))
    if (class_parent(c) == c) return false;
  return true;
}

/// Operations per element; 0 if the class only moves elements.
std::uint8_t vector_operations(TimingClass c) {
  for (const TimingClass moves : {TimingClass::memory, TimingClass::move, TimingClass::permutation,
                                  TimingClass::mask_logic, TimingClass::to_scalar, TimingClass::from_scalar})
    if (descends(c, moves)) return 0;
  const bool two = c == TimingClass::multiply_add || c == TimingClass::widening_multiply_add ||
                   c == TimingClass::float_fused || c == TimingClass::float_widening_fused;
  return two ? 2 : 1;
}

/// log2 of the bytes, by the last letters of a scalar mnemonic: c.ldsp, flh, amoadd.w, fadd.s.
std::uint8_t width_of(const std::string& name) {
  std::string word = name.starts_with("c.") ? name.substr(2) : name;
  if (word.ends_with("sp")) word.resize(word.size() - 2);
  if (word.ends_with("u")) word.pop_back();
  switch (word.back()) {
    case 'b':
      return 0;
    case 'h':
      return 1;
    case 'd':
      return 3;
    default:
      return 2;
  }
}

std::uint8_t scalar_operations(const std::string& timing) {
  if (timing == "float-fused") return 2;
  return timing == "float-add" || timing == "float-multiply" || timing == "float-divide" ? 1 : 0;
}

PipeKind pipe_of(Unit unit) {
  switch (unit) {
    case Unit::load:
      return PipeKind::load;
    case Unit::store:
      return PipeKind::store;
    case Unit::special:
      return PipeKind::special;
    case Unit::cross_lane:
      return PipeKind::cross_lane;
    case Unit::matrix:
      return PipeKind::matrix;
    default:
      return PipeKind::arithmetic;
  }
}

/// The timing that an instruction states, with its class as default.
std::shared_ptr<const ClassTiming> custom_timing(const CustomTiming& stated, const ClassTiming& of) {
  ClassTiming own = of;
  if (stated.per_register || stated.whole) {
    own = {};
    own.cost.fill(0);
    own.latency = of.latency;
    if (stated.per_register) own.each = ticks(*stated.per_register);
    if (stated.whole) own.start = ticks(*stated.whole);
  }
  if (stated.latency) own.latency = ticks(*stated.latency);
  return std::make_shared<const ClassTiming>(own);
}

/// The unit that replaces pipes which the core lacks; by default the arithmetic pipes.
std::uint8_t instead_of(const CoreTiming& core, Unit kind) {
  for (std::size_t i = 0; i < core.units.size(); ++i)
    if (core.units[i].name == unit_name(kind)) return static_cast<std::uint8_t>(pipe_kinds + i);
  return static_cast<std::uint8_t>(PipeKind::arithmetic);
}

/// Index of the instruction's unit, after the kinds of pipes.
std::uint8_t custom_unit(const CoreTiming& core, const InstructionInfo& info) {
  for (std::size_t i = 0; i < core.units.size(); ++i)
    if (core.units[i].name == info.custom->unit) return static_cast<std::uint8_t>(pipe_kinds + i);
  std::vector<std::string> known;
  for (const CustomUnit& unit : core.units) known.push_back(unit.name);
  throw UserError({"'" + info.name + "' runs on a unit that the core '" + core.name + "' does not have",
                   {},
                   info.custom->unit,
                   known.empty() ? "no separate unit" : join(known),
                   nearest(info.custom->unit, known)});
}

ArrayWork work_of(const InstructionInfo& info) {
  return info.timing == "array-push"      ? ArrayWork::push
         : info.timing == "array-weights" ? ArrayWork::weights
         : info.timing == "array-pop"     ? ArrayWork::pop
         : info.timing == "array-target"  ? ArrayWork::target
                                          : ArrayWork::none;
}

MoveWork move_of(const InstructionInfo& info) {
  return info.timing == "move-start"  ? MoveWork::start
         : info.timing == "move-wait" ? MoveWork::wait
         : info.timing == "move-done" ? MoveWork::done
                                      : MoveWork::none;
}

}  // namespace

namespace {

/// vlse32.v and vssseg2e8.v step by a scalar register; vluxei8.v and similar ones use a vector of indices.
Accesses accesses_of(const InstructionInfo& info) {
  if (!info.is(is_load) && !info.is(is_store)) return Accesses::none;
  const std::string_view name = info.name;
  if (name.find("xei") != std::string_view::npos || name.find("xseg") != std::string_view::npos) return Accesses::none;
  const bool apart =
      name.starts_with("vlse") || name.starts_with("vsse") || name.starts_with("vlsseg") || name.starts_with("vssseg");
  return apart && !name.starts_with("vlseg") && !name.starts_with("vsseg") ? Accesses::apart : Accesses::row;
}

}  // namespace

std::vector<StaticTiming> static_timings(const InstructionSet& set, const CoreTiming& core) {
  std::vector<StaticTiming> all;
  for (const InstructionInfo& info : set.all()) {
    StaticTiming one;
    // a scalar instruction with a unit enters a queue like vector instructions
    const bool queued = info.custom && (info.unit != Unit::scalar || !info.custom->unit.empty());
    const bool vector = (info.is(is_vector) && !info.is(sets_vl)) || queued;
    scalar_registers(set, set.id(info), vector, one);
    one.kind = vector               ? StaticTiming::vector
               : info.is(sets_vl)   ? StaticTiming::vset
               : info.is(is_branch) ? StaticTiming::branch
               : info.is(is_jump)   ? StaticTiming::jump
                                    : StaticTiming::scalar;
    one.loads = info.is(is_load), one.stores = info.is(is_store);
    if (vector) {
      one.timing_class = class_of(info);
      one.operations = info.is(is_vector) ? vector_operations(one.timing_class) : 0;
      one.pipe = static_cast<std::uint8_t>(pipe_of(info.unit));
      one.accesses = accesses_of(info);
      one.work = work_of(info);
      if (one.work == ArrayWork::pop) one.pipe = static_cast<std::uint8_t>(PipeKind::results);
      if (core.reduces_across && one.timing_class >= TimingClass::reduction &&
          one.timing_class <= TimingClass::float_sum_ordered_widening)
        one.pipe = static_cast<std::uint8_t>(PipeKind::cross_lane);
      if (core.pipes[one.pipe] == 0) one.pipe = instead_of(core, info.unit);
      if (info.custom) one.custom = custom_timing(*info.custom, core.timing_of(one.timing_class));
      if (info.custom && !info.custom->unit.empty()) one.pipe = custom_unit(core, info);
    } else {
      one.work = work_of(info), one.move = move_of(info);
      const std::uint8_t sort = scalar_class(info.timing);
      one.latency = core.scalar.latency[sort];
      one.divider = core.scalar.divider_of(sort);
      if (one.divider != 0) one.interval = core.scalar.interval[one.divider - 1];
      if (info.custom && info.custom->latency) one.latency = ticks(*info.custom->latency);
      one.operations = scalar_operations(info.timing);
      one.width = width_of(info.name);
    }
    all.push_back(one);
  }
  return all;
}

InstructionPlan make_plan(const CoreTiming& core, const InstructionInfo& info, const StaticTiming& fixed, const Op& op,
                          const VectorState& v) {
  return InstructionPlanner(core, info, fixed, op, v).make();
}

}  // namespace tilesim::isa
