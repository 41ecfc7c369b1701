#include "tilesim/isa/pipeline/pipeline.hpp"

#include <algorithm>

#include "tilesim/isa/state/transfer.hpp"

namespace tilesim::isa {

namespace {

constexpr std::size_t cached_plans = 1024;
constexpr std::array<const char*, states> names{"busy", "starved", "operands", "registers", "order",  "queue",
                                                "port", "branch",  "array",    "transfer",  "memory", "divider"};

constexpr std::size_t at(State s) { return static_cast<std::size_t>(s); }
constexpr Ticks whole(Ticks t) { return (t + cycle - 1) & ~(cycle - 1); }

std::uint8_t source_of(const Op& op, unsigned slot) { return slot == 1 ? op.rs1 : slot == 2 ? op.rs2 : op.rs3; }

}  // namespace

const char* state_name(State state) { return names[at(state)]; }

PipelineTable::PipelineTable(std::shared_ptr<const InstructionSet> of, CoreTiming timing)
    : set(std::move(of)), core(std::move(timing)), fixed(static_timings(*set, core)), plans(cached_plans) {}

Pipeline::Pipeline(std::shared_ptr<const InstructionSet> set, CoreTiming core)
    : Pipeline(std::make_shared<PipelineTable>(std::move(set), std::move(core))) {}

Pipeline::Pipeline(std::shared_ptr<PipelineTable> table) : table_(std::move(table)), own_(table_->core) {
  make_queues();
}

Pipeline::Pipeline(std::shared_ptr<PipelineTable> table, CoreUnits& shared)
    : table_(std::move(table)), shared_(&shared) {
  make_queues();
}

void Pipeline::make_queues() {
  queues_.resize(core().pipes.size());
  for (Queue& queue : queues_) queue.entries = core().queue;
  for (const CustomUnit& unit : core().units) queues_.emplace_back().entries = unit.queue;
  memory_ = MemoryOrder(core().queue + 1);
}

/// Stops the front end until the given time.
void Pipeline::wait(Ticks until, State why) {
  until = whole(until);
  if (until <= now_) return;
  const Ticks issuing = used_ != 0 ? cycle : 0;
  front_[at(State::busy)] += issuing;
  front_[at(why)] += until - now_ - issuing;
  now_ = until, used_ = 0, dispatched_ = 0, accesses_ = 0;
}

void Pipeline::take_slot() {
  if (used_ == core().width) wait(now_ + cycle, State::order);
  ++used_;
}

void Pipeline::follow(const Op& op) {
  control_ = false;
  const bool taken = op.pc != after_;
  const bool wrong = conditional_ && taken != backward_;
  if (taken && core().bubble != 0)
    for (auto& kind : of_core().pipes)
      for (Pipe& pipe : kind)
        if (pipe.free > now_) pipe.free += core().bubble, pipe.in[at(State::branch)] += core().bubble;
  const Ticks cost = wrong ? core().scalar.mispredicted : taken ? core().scalar.taken : 0;
  if (taken || wrong) wait(now_ + cost, State::branch);
}

bool Pipeline::reach(const Op& op) {
  if (control_) follow(op);
  if (op.id >= table_->fixed.size()) return false;  // an unknown instruction traps
  ++instructions_;
  const StaticTiming& fixed = table_->fixed[op.id];
  Ticks needed = 0;
  for (unsigned i = 0; i < fixed.sources; ++i)
    needed = std::max(needed, ready_[fixed.bases[i] + source_of(op, fixed.slots[i])]);
  const bool writes = fixed.destination != 255 && op.rd < 33;
  // results are written in order; a vector instruction waits for the earlier result before it issues
  if (writes)
    needed =
        std::max(needed, ready_[fixed.destination + op.rd] - (fixed.kind == StaticTiming::vector ? 0 : fixed.latency));
  if (needed > now_) wait(needed, State::operands);
  if (fixed.kind == StaticTiming::vector) return await_place(fixed), true;
  if (fixed.move != MoveWork::none) await_transfer(op, fixed);
  if (fixed.divider != 0 && divided_[fixed.divider - 1] > now_) wait(divided_[fixed.divider - 1], State::divider);
  if ((fixed.loads || fixed.stores) && hart_ != nullptr) await_memory(op, fixed);
  take_slot();
  if (fixed.divider != 0) divided_[fixed.divider - 1] = now_ + fixed.interval;
  if (fixed.move == MoveWork::start) transfer(op);
  if (fixed.loads || fixed.stores) {
    if (accesses_ == core().memory_ports) wait(now_ + cycle, State::port), used_ = 1;
    ++accesses_;
  }
  const Ticks done = done_ = now_ + fixed.latency;
  if (writes && !(fixed.destination == 0 && op.rd == no_register)) ready_[fixed.destination + op.rd] = done;
  end_ = std::max(end_, done);
  std::vector<ArrayClock>& arrays = of_core().arrays;
  if (fixed.work == ArrayWork::target && op.rs3 < arrays.size()) arrays[op.rs3].keeps_results(op.rs1 != 0);
  if (fixed.kind == StaticTiming::scalar) return false;
  if (fixed.kind == StaticTiming::vset) return vset_ready_ = now_ + core().scalar.vset, false;
  control_ = true, conditional_ = fixed.kind == StaticTiming::branch, backward_ = op.imm < 0,
  after_ = op.pc + op.length;
  return false;
}

/// Makes a scalar access wait for vector accesses to the same bytes.
void Pipeline::await_memory(const Op& op, const StaticTiming& fixed) {
  const std::uint64_t from = hart_->x[op.rs1] + static_cast<std::uint64_t>(op.imm);
  const Touched access{from, from + (std::uint64_t{1} << fixed.width), now_, 0};
  if (!memory_.quiet(now_)) wait(memory_.before(access, !fixed.stores, false, now_), State::operands);
  if (fixed.stores) memory_.add_scalar_store({access.from, access.to, now_, fixed.latency});
}

/// Makes the front end wait for an entry of a DMA queue, or for the end of a ticket's transfer.
void Pipeline::await_transfer(const Op& op, const StaticTiming& fixed) {
  if (fixed.move == MoveWork::start) return wait(of_core().moves.place(op.rs3), State::queue);
  const std::uint64_t ticket = hart_ != nullptr ? hart_->x[op.rs1] : 0;
  if (fixed.move == MoveWork::wait) wait(tickets_.until(ticket, op.rs3), State::transfer);
  tickets_.ask(now_);
}

void Pipeline::transfer(const Op& op) {
  std::uint64_t bytes = 0;
  const bool known = hart_ != nullptr && hart_->npu != nullptr;
  try {
    if (known) bytes = bytes_in_tensor(*hart_->memory, op, read_descriptor(*hart_->memory, op, hart_->x[op.rs1]));
  } catch (const Trap&) {
    return;  // the instruction itself traps too
  }
  const Ticks over = of_core().moves.start(op.rs3, now_ + cycle, bytes);
  tickets_.add(over, op.rs3, known ? hart_->npu->moves.tickets : 0);
  end_ = std::max(end_, over);
}

/// Makes the front end wait until a vector instruction can enter its queue.
void Pipeline::await_place(const StaticTiming& fixed) {
  const Queue& queue = queue_of(fixed);
  if (vset_ready_ > now_) wait(vset_ready_, State::operands);
  if (queue.starts[queue.next] > now_) wait(queue.starts[queue.next], State::queue);
  if (dispatched_ == core().dispatch) wait(now_ + cycle, State::order);
  take_slot();
  ++dispatched_;
}

void Pipeline::recorded(const Op& op, const VectorState& v) {
  if (waits_) [[unlikely]]
    was_ = front_;
  const Ticks before = now_;
  plan_ = nullptr;
  time(op, v);
  const Issue what{op, v, table_->fixed[op.id], plan_, times_, was_, front_, before, now_, done_, over()};
  for (Recorder* recorder : recorders_) recorder->issued(what);
}

void Pipeline::trapped(const Op& op) {
  if (op.id >= table_->fixed.size()) return;
  for (Recorder* recorder : recorders_) recorder->trapped(op);
}

const InstructionPlan& Pipeline::plan_for(const Op& op, const StaticTiming& fixed, const VectorState& v) {
  const std::uint64_t key = (std::uint64_t{op.id} << 48) ^ (std::uint64_t{op.rm == 0} << 47) ^
                            (v.key & 0x3FFF) * (std::uint64_t{1} << 32) ^ (v.vl + 1);
  InstructionPlan& plan = table_->plans[(key ^ key >> 32 ^ key >> 45) % cached_plans];
  if (plan.key != key) [[unlikely]] {
    plan = make_plan(core(), set().info(op.id), fixed, op, v);
    plan.key = key;
  }
  return plan;
}

/// The latest time per lane of a group's registers, minus the delay of each register relative to the first.
inline Lanes Pipeline::latest(unsigned base, const Footprint& f, const Lanes& first, const Lanes& last) const {
  Lanes found, less = first;
  for (unsigned k = 0; k + 1U < f.registers; ++k) {
    found.raise(registers_[(base + k) & 31], less);
    for (Ticks& lane : less.in) lane += f.each;
  }
  found.raise(registers_[(base + f.registers - 1U) & 31], last);
  return found;
}

Pipeline::Bounds Pipeline::bounds(const InstructionPlan& plan, const Op& op) const {
  Bounds found;
  for (unsigned i = 0; i < plan.footprints; ++i) {
    const Footprint& f = plan.footprint[i];
    const unsigned base = f.register_in(op);
    const Lanes& first = registers_[base & 31];
    if (f.reads) {
      const Lanes read = latest(base, f, f.read, f.read_last);
      found.operands = std::max({found.operands, read.in[0], read.in[1]});
      found.first_operands = std::max(found.first_operands, f.one_beat() ? first.in[1] : first.in[0]);
    }
    if (!f.writes) continue;
    const Lanes write = latest(base, f, f.write, f.write_last);
    found.registers = std::max({found.registers, write.in[0], write.in[1], write.in[2], write.in[3]});
    const unsigned beat = f.one_beat() ? 1 : 0;
    found.first_registers =
        std::max({found.first_registers, first.in[beat] - f.write.in[0], first.in[2 + beat] - f.write.in[2]});
  }
  return found;
}

void Pipeline::record(const InstructionPlan& plan, const Op& op, Ticks start) {
  for (unsigned i = 0; i < plan.footprints; ++i) {
    const Footprint& f = plan.footprint[i];
    const unsigned base = f.register_in(op);
    Ticks offset = start;
    for (unsigned k = 0; k < f.registers; ++k, offset += f.each) {
      std::array<Ticks, 4>& r = registers_[(base + k) & 31].in;
      const Ticks within = k + 1U == f.registers ? f.last_within : f.within;
      if (f.writes) {
        r[0] = offset + f.written, r[1] = r[0] + within;
      } else {
        r[2] = std::max(r[2], offset), r[3] = std::max(r[3], offset + within);
      }
    }
  }
}

/// Among pipes free at the instruction's earliest start: the last one, which fewest classes can use. Otherwise the pipe
/// that is free first.
std::size_t Pipeline::choose(unsigned unit, unsigned allowed) const {
  const std::vector<Pipe>& all = own_.pipes[unit];
  if (all.size() == 1) return 0;
  const Ticks from = std::max({times_.arrived, times_.order, times_.operands, times_.registers});
  const auto free = [&](std::size_t i) { return std::max(all[i].free, from); };
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size() && i < allowed; ++i)
    if (free(i) < free(best) || (free(i) == free(best) && unit < pipe_kinds)) best = i;
  return best;
}

inline CoreUnits::PipeSlot Pipeline::begin(const Op& op, const StaticTiming& fixed, const InstructionPlan& plan,
                                           const VectorState& v, const Bounds& bound) {
  CoreUnits& units = of_core();
  const std::size_t place = fixed.work == ArrayWork::none ? choose(fixed.pipe, plan.pipes) : op.rs3;
  Pipe& pipe = units.pipes[fixed.pipe][place];
  Ticks start = times_.free = pipe.free;
  const auto until = [&](Ticks then, State why) {
    if (then > start) pipe.in[at(why)] += then - start, start = then;
  };
  until(times_.arrived, State::starved);
  until(times_.order, State::order);
  until(times_.operands, State::operands);
  until(times_.registers, State::registers);
  if (fixed.work != ArrayWork::none) {
    ArrayClock& array = units.arrays[op.rs3];
    const std::int64_t rows = array_rows(fixed.work, v);
    const auto dtype = static_cast<unsigned>(op.imm);
    until(array.earliest(fixed.work, rows, plan.held, dtype), State::array);
    array.start(fixed.work, rows, start, plan.held, dtype);
    end_ = std::max(end_, array.over());
  }
  pipe.in[at(State::busy)] += plan.held;
  const Ticks late = std::max<Ticks>(0, bound.all() - start);
  pipe.in[at(bound.operands >= bound.registers ? State::operands : State::registers)] += late;
  pipe.free = start + plan.held + late;
  return {place, start};
}

CoreUnits::PipeSlot Pipeline::begin_shared(const StaticTiming& fixed, const InstructionPlan& plan,
                                           const Bounds& bound) {
  const Ticks from = std::max({times_.arrived, times_.order, times_.operands, times_.registers});
  const auto late = [&](Ticks start) { return std::max<Ticks>(0, bound.all() - start); };
  CoreUnits::PipeSlot place = shared_->soonest(fixed.pipe, plan.pipes, from, plan.held + late(from));
  if (late(from) > 0 && place.start > from)  // between reservations: no beat may wait
    place = shared_->soonest(fixed.pipe, plan.pipes, std::max(from, bound.all()), plan.held);
  times_.free = place.start;
  shared_->book(fixed.pipe, place, plan.held + late(place.start));
  return place;
}

void Pipeline::take(const Op& op, const VectorState& v) {
  const StaticTiming& fixed = table_->fixed[op.id];
  const InstructionPlan& plan = plan_for(op, fixed, v);
  if (fixed.work != ArrayWork::none && op.rs3 >= of_core().arrays.size())
    throw UserError({"the core has no such array", {}, std::to_string(op.rs3), "", {}});
  Queue& queue = queue_of(fixed);
  Bounds bound = bounds(plan, op);
  // array instructions are not interrupted: no beat waits in between
  if (fixed.work != ArrayWork::none) bound.first_operands = bound.operands, bound.first_registers = bound.registers;
  times_.arrived = now_ + core().delay, times_.order = queue.last;
  times_.operands = bound.first_operands, times_.registers = bound.first_registers;
  Touched touched;
  if (hart_ != nullptr && fixed.accesses != Accesses::none) {
    touched = touched_by(fixed.accesses, hart_->x[op.rs1], hart_->x[op.rs2], v.vl, plan);
    if (touched.any()) times_.operands = std::max(times_.operands, memory_.before(touched, fixed.loads, true, now_));
  }
  // one sequencer owns each array
  const bool others = shared_ != nullptr && fixed.work == ArrayWork::none;
  const CoreUnits::PipeSlot place = others ? begin_shared(fixed, plan, bound) : begin(op, fixed, plan, v, bound);
  const Ticks start = place.start, late = std::max<Ticks>(0, bound.all() - start);
  left_ = start + plan.held + late;
  if (touched.any()) touched.start = start, touched.held += late, memory_.add(touched, fixed.loads);
  queue.starts[queue.next] = start, queue.last = start;
  if (++queue.next == queue.entries) queue.next = 0;
  late > 0 ? record_late(plan, op, start) : record(plan, op, start);
  const Ticks done = start + plan.result + late;
  if (!recorders_.empty()) [[unlikely]] {
    plan_ = &plan, done_ = done;
    times_.kind = fixed.pipe, times_.pipe = static_cast<std::uint8_t>(place.pipe);
    times_.start = start, times_.end = left_;
  }
  if (fixed.destination != 255 && op.rd < 33) ready_[fixed.destination + op.rd] = done;
  ended_ = std::max(done, left_);
  end_ = std::max(end_, ended_);
}

/// Number of rows that an instruction pushes or takes; a partial last row counts.
std::int64_t Pipeline::array_rows(ArrayWork work, const VectorState& v) const {
  const std::int64_t width = work == ArrayWork::push ? core().array.rows : core().array.columns;
  return (static_cast<std::int64_t>(v.vl) + width - 1) / width;
}

std::int64_t Pipeline::drain() const { return whole(over()) / cycle; }

std::string Pipeline::unit_called(std::size_t unit, std::size_t pipe) const {
  const std::string name =
      unit < pipe_kinds ? pipe_name(static_cast<PipeKind>(unit)) : core().units[unit - pipe_kinds].name;
  return of_core().pipes[unit].size() > 1 ? name + std::to_string(pipe) : name;
}

std::vector<UnitTimes> Pipeline::units() const {
  const Ticks end = drain() * cycle;
  const std::vector<std::vector<Pipe>>& pipes = of_core().pipes;
  const std::vector<ArrayClock>& arrays = of_core().arrays;
  const MoveQueues& moves = of_core().moves;
  std::vector<UnitTimes> all;
  const auto add = [&](std::string name, StateTimes in, State rest) {
    Ticks sum = 0;
    for (const Ticks t : in) sum += t;
    in[at(rest)] += end - sum;
    all.push_back({std::move(name), in});
  };
  StateTimes front = front_;
  if (used_ != 0) front[at(State::busy)] += cycle;
  add("front", front, State::operands);
  for (std::size_t kind = 0; kind < pipes.size(); ++kind)
    for (std::size_t i = 0; i < pipes[kind].size(); ++i) add(unit_called(kind, i), pipes[kind][i].in, State::starved);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    StateTimes in{};
    in[at(State::busy)] = arrays[i].busy();
    add("array" + std::to_string(i), in, State::starved);
  }
  for (std::size_t i = 0; i < moves.queues().size(); ++i) {
    const MoveQueues::Queue& queue = moves.queues()[i];
    StateTimes in{};
    in[at(State::busy)] = queue.busy, in[at(State::memory)] = queue.memory_until(end);
    add("dma" + std::to_string(i), in, State::starved);
  }
  return all;
}

}  // namespace tilesim::isa
