#include "tilesim/engine/simulator.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/engine/values.hpp"
#include "tilesim/program/run/execute.hpp"
#include "tilesim/program/vector_work.hpp"

namespace tilesim::engine {

namespace {

bool later(const Event& x, const Event& y) { return x.time != y.time ? x.time > y.time : x.order > y.order; }

std::uint64_t order_of(EventKind kind, int stream, int port) {
  const bool delivery = kind == EventKind::commit || kind == EventKind::release || kind == EventKind::count ||
                        kind == EventKind::arrive || kind == EventKind::piece;
  return (delivery ? 0ULL : 1ULL) << 62 | static_cast<std::uint64_t>(stream) << 32 |
         static_cast<std::uint64_t>(port) << 8 | static_cast<std::uint64_t>(kind);
}

}  // namespace

void EventQueue::push(const Event& event) {
  heap_.push_back(event);
  std::push_heap(heap_.begin(), heap_.end(), later);
  if (shuffle == 0) return;
  // Test: throw the heap's inner arrangement about; (time, order) alone must decide.
  shuffle = shuffle * 6364136223846793005ULL + 1442695040888963407ULL;
  if (heap_.size() < 2 || shuffle >> 61) return;
  std::swap(heap_[(shuffle >> 33) % heap_.size()], heap_.back());
  std::make_heap(heap_.begin(), heap_.end(), later);
}

Event EventQueue::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  return event;
}

Simulator::Simulator(const Machine& machine, SimulateOptions options)
    : machine_(machine),
      options_(std::move(options)),
      send_ports_(machine),
      contexts_used_(static_cast<std::size_t>(machine.core.count), 0) {
  make_memory();
  kinds_ = core_kinds(machine_, options_.latencies.get(), options_.sort_latencies, kind_of_core_);
  events_.shuffle = options_.shuffle_seed;
}

int Simulator::submit(Job job) {
  require(job.program != nullptr, "a job has no program");
  const std::int64_t wanted = job.program->program().cores;
  if (job.cores.empty())
    for (std::int64_t i = 0; i < wanted; ++i) job.cores.push_back(i);
  if (static_cast<std::int64_t>(job.cores.size()) != wanted)
    throw UserError({"a job names the wrong number of cores",
                     job.program->program().name,
                     std::to_string(job.cores.size()),
                     std::to_string(wanted),
                     {}});
  for (std::int64_t core : job.cores)
    if (core < 0 || core >= machine_.core.count)
      throw UserError({"the program needs a core that the machine lacks",
                       job.program->program().name,
                       std::to_string(core),
                       "0 to " + std::to_string(machine_.core.count - 1),
                       {}});
  auto state = std::make_unique<JobState>();
  for (std::int64_t core : job.cores)
    state->contexts.push_back(contexts_of(*job.program, *kind_of_core_[static_cast<std::size_t>(core)], core));
  state->job = std::move(job);
  jobs_.push_back(std::move(state));
  push(EventKind::stream, std::max(now_, jobs_.back()->job.arrival_cycles), 0, 255, -1);
  return static_cast<int>(jobs_.size()) - 1;
}

void Simulator::start_jobs() {
  std::vector<int> waiting;
  for (int i = 0; i < static_cast<int>(jobs_.size()); ++i)
    if (!jobs_[static_cast<std::size_t>(i)]->started && jobs_[static_cast<std::size_t>(i)]->job.arrival_cycles <= now_)
      waiting.push_back(i);
  std::stable_sort(waiting.begin(), waiting.end(), [&](int x, int y) {
    const Job &a = jobs_[static_cast<std::size_t>(x)]->job, &b = jobs_[static_cast<std::size_t>(y)]->job;
    return a.arrival_cycles != b.arrival_cycles ? a.arrival_cycles < b.arrival_cycles : a.priority < b.priority;
  });
  std::vector<bool> wanted(contexts_used_.size(), false);  // an earlier job that waits keeps its cores from later ones
  for (int id : waiting) {
    JobState& job = *jobs_[static_cast<std::size_t>(id)];
    bool free = true;
    for (std::size_t i = 0; i < job.job.cores.size(); ++i) {
      const auto core = static_cast<std::size_t>(job.job.cores[i]);
      free &= contexts_used_[core] + job.contexts[i] <= kind_of_core_[core]->core.contexts && !wanted[core];
    }
    if (free)
      start(job, id);
    else
      for (std::int64_t core : job.job.cores) wanted[static_cast<std::size_t>(core)] = true;
  }
}

void Simulator::start(JobState& job, int id) {
  const program::CompiledProgram& program = *job.job.program;
  job.started = true;
  job.start = job.accounted = now_;
  job.map = std::make_unique<MemoryMap>(program, next_base_);
  next_base_ = job.map->end;
  place_tensors(job);
  if (tensors_) add_tensors(job);
  job.reader = std::make_unique<ArrayReader>(program, job.job.tensors);
  for (const auto& [name, size] : program.counters)
    job.counters.emplace_back(static_cast<std::size_t>(size * program.program().cores), 0);
  job.kernels.resize(program.scopes.size());
  job.slots_of.resize(program.scopes.size());
  for (std::size_t i = 0; i < program.slots.size(); ++i)
    if (program.slots[i].scope >= 0)
      job.slots_of[static_cast<std::size_t>(program.slots[i].scope)].push_back(static_cast<std::int32_t>(i));
  count_costs(job);
  for (std::size_t i = 0; i < job.job.cores.size(); ++i)
    contexts_used_[static_cast<std::size_t>(job.job.cores[i])] += job.contexts[i];
  for (std::int64_t virtual_core = 0; virtual_core < program.program().cores; ++virtual_core)
    for (std::int64_t context = 0; context < program.program().contexts; ++context) {
      auto stream = std::make_unique<Stream>(program, virtual_core, context, job.reader.get());
      stream->physical_core = job.job.cores[static_cast<std::size_t>(virtual_core)];
      stream->kind = kind_of_core_[static_cast<std::size_t>(stream->physical_core)];
      stream->job = id;
      stream->cursor.poll_with(options_.cancel);
      for (const std::string& queue : program.queues) {
        stream->queues.emplace_back(static_cast<std::size_t>(stream->kind->core.dma.queue_entries));
        stream->queues.back().unit = unit_of(*stream, queue);
      }
      for (const program::CompiledSlot& slot : program.slots) {
        SlotState& state = stream->slots.emplace_back();
        state.buffers.resize(static_cast<std::size_t>(slot.depth));
        state.dispatched.assign(static_cast<std::size_t>(slot.depth + 64), 0);
      }
      job.streams.push_back(static_cast<int>(streams_.size()));
      ++job.streams_left;
      streams_.push_back(std::move(stream));
      push(EventKind::stream, now_, static_cast<int>(streams_.size()) - 1, 0);
    }
}

void Simulator::count_costs(JobState& job) const {
  const program::CompiledProgram& program = *job.job.program;
  job.costs.resize(program.instructions().size());
  for (std::size_t i = 0; i < job.costs.size(); ++i) {
    const program::Instruction& instruction = program.instructions()[i];
    if (instruction.opcode != program::Opcode::vector) continue;
    const auto& op = std::get<program::VectorOp>(instruction.statement->action);
    StaticCost& cost = job.costs[i];
    const program::VectorWork work = program::work_of(op);
    cost.functions = work.functions;
    cost.lane_reductions = work.lane_reductions;
    cost.lane_scans = work.lane_scans;
    for (std::int32_t count : cost.functions) cost.functions_total += count;
  }
}

int Simulator::unit_of(const Stream& stream, const std::string& queue) {
  const auto numbered = [&](const char* stem) { return queue.compare(0, std::string(stem).size(), stem) == 0; };
  std::string kind = "other", unit = queue;
  if (numbered("load"))
    kind = "load";
  else if (numbered("store"))
    kind = "store";
  else if (numbered("mma"))
    kind = "array", unit = "array" + queue.substr(3);
  else if (queue == "vector" || queue == "cross_lane" || queue == "send")
    kind = queue;
  const auto limited = [&](const char* stem, std::int64_t count) {
    const std::string digits = queue.substr(std::string(stem).size());
    const bool number =
        !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos && digits.size() < 6;
    if (!number || std::stoll(digits) >= count)
      throw UserError({"the program uses a queue that the machine lacks",
                       stream.program->program().name,
                       "'" + queue + "'",
                       std::string(stem) + "0 to " + stem + std::to_string(count - 1),
                       {}});
  };
  if (kind == "load") limited("load", stream.kind->core.dma.load_queues);
  if (kind == "store") limited("store", stream.kind->core.dma.store_queues);
  if (kind == "array") limited("mma", stream.kind->core.array.count);
  const std::string name = "core" + std::to_string(stream.physical_core) + "." + unit;
  for (std::size_t i = 0; i < units_.size(); ++i)
    if (units_[i].name == name) return static_cast<int>(i);
  const KernelTime counts_as = unit == "array0"   ? KernelTime::array
                               : kind == "vector" ? KernelTime::vector
                                                  : KernelTime::none;
  units_.push_back({name, kind, stream.physical_core, counts_as, {}, 0, 0, 0});
  unit_states_.emplace_back();
  return static_cast<int>(units_.size()) - 1;
}

void Simulator::push(EventKind kind, std::int64_t time, int stream, int port, std::int64_t a, std::int64_t b,
                     std::int64_t c) {
  constexpr std::int64_t last_cycle = std::int64_t{1} << 61;
  if (time > last_cycle)
    throw UserError({"the simulated time is beyond what a cycle counter holds",
                     jobs_.empty() ? "" : jobs_[0]->job.program->program().name,
                     std::to_string(time) + " cycles",
                     "at most " + std::to_string(last_cycle),
                     {}});
  events_.push({time, order_of(kind, stream, port), stream, port, kind, a, b, c});
}

void Simulator::wake(int stream, int queue, std::int64_t time) {
  Queue& q = streams_[static_cast<std::size_t>(stream)]->queues[static_cast<std::size_t>(queue)];
  if (q.woken && time >= now_) {
    if (time > now_) push(EventKind::queue, time, stream, queue, 1);
    return;
  }
  if (time == now_) q.woken = true;
  push(EventKind::queue, time, stream, queue, time == now_ ? 0 : 1);
}

void Simulator::wake_mask(int stream, std::uint32_t& mask) {
  for (int queue = 0; mask != 0; ++queue)
    if (mask >> queue & 1) {
      mask &= ~(1U << queue);
      wake(stream, queue, now_);
    }
}

void Simulator::process(const Event& event) {
  switch (event.kind) {
    case EventKind::commit:
      commit(event.stream, event.port, event.a, event.b, event.c);
      break;
    case EventKind::release:
      release(event.stream, event.port, event.a, static_cast<int>(event.b));
      break;
    case EventKind::arrive:
      arrive(event.stream, event.port, event.a, event.b);
      break;
    case EventKind::count: {
      JobState& job = *jobs_[static_cast<std::size_t>(streams_[static_cast<std::size_t>(event.stream)]->job)];
      job.counters[static_cast<std::size_t>(event.port)][static_cast<std::size_t>(event.a)] += event.b;
      const auto found = job.counter_waiters.find({event.port, event.a});
      if (found == job.counter_waiters.end()) break;
      const auto waiters = std::move(found->second);
      job.counter_waiters.erase(found);
      for (const auto& [stream, queue] : waiters) wake(stream, queue, now_);
      break;
    }
    case EventKind::piece:
      piece(static_cast<std::int32_t>(event.a), event.b);
      break;
    case EventKind::chunk:
      chunk(event.stream, event.port);
      break;
    case EventKind::queue:
      if (event.a == 0)
        streams_[static_cast<std::size_t>(event.stream)]->queues[static_cast<std::size_t>(event.port)].woken = false;
      advance(event.stream, event.port);
      break;
    case EventKind::stream:
      if (event.a == -1)
        start_jobs();
      else
        dispatch(event.stream);
      break;
  }
}

bool Simulator::run_until(std::int64_t cycles) {
  while (advance_routed(cycles) && !events_.empty() && events_.top().time <= cycles) {
    // Before an event is taken out: a session that was interrupted can go on.
    if ((event_count_ & 0xFFF) == 0xFFF && options_.cancel) options_.cancel->poll();
    ++event_count_;
    const Event event = events_.pop();
    now_ = event.time;
    try {
      process(event);
    } catch (const Cancelled&) {  // only the cursor polls inside of an event: nothing has happened yet
      events_.push(event);
      --event_count_;
      throw;
    }
  }
  if (events_.empty() && (!routed_ || routed_->idle())) {
    for (const auto& job : jobs_)
      if (!job->finished) deadlock();
    return false;
  }
  now_ = std::max(now_, cycles);
  return true;
}

void Simulator::run() { run_until(INT64_MAX); }

std::optional<std::int64_t> Simulator::finished(int job) const {
  if (job < 0 || job >= static_cast<int>(jobs_.size()))
    throw UserError({"no such job", {}, std::to_string(job), {}, {}});
  const JobState& state = *jobs_[static_cast<std::size_t>(job)];
  return state.finished ? std::optional(state.finish) : std::nullopt;
}

void Simulator::finish_stream(int id) {
  Stream& stream = *streams_[static_cast<std::size_t>(id)];
  if (stream.finished) return;
  stream.finished = true;
  JobState& job = *jobs_[static_cast<std::size_t>(stream.job)];
  job.finish = std::max(job.finish, now_);
  finish_ = std::max(finish_, now_);
  if (--job.streams_left > 0) return;
  job.finished = true;
  for (const auto& [key, span] : job.spans)  // kernels that not every core runs
    if (span.start >= 0) account(job, key.first, span);
  job.spans.clear();
  if (job.last_kernel >= 0)
    job.kernels[static_cast<std::size_t>(job.last_kernel)].exclusive += job.finish - job.accounted;
  job.accounted = job.finish;
  for (std::size_t i = 0; i < job.job.cores.size(); ++i)
    contexts_used_[static_cast<std::size_t>(job.job.cores[i])] -= job.contexts[i];
  start_jobs();
}

void Simulator::deadlock() const {
  std::string text = "nothing can go on:";
  for (const auto& stream : streams_) {
    if (stream->finished) continue;
    for (std::size_t q = 0; q < stream->queues.size(); ++q) {
      const Queue& queue = stream->queues[q];
      if (queue.entries.empty()) continue;
      const Entry& head = queue.entries.front();
      text += " core " + std::to_string(stream->physical_core) + " queue " + stream->program->queues[q] + " waits";
      if (head.slot >= 0)
        text += " for slot " + stream->program->slots[static_cast<std::size_t>(head.slot)].name + " version " +
                std::to_string(head.version);
      if (head.counter >= 0)
        text += " for counter " + stream->program->counters[static_cast<std::size_t>(head.counter)].first;
      text += ";";
    }
  }
  // Where the program depends on tensors, the checker could not prove that it ends: then it is the program's mistake.
  for (const auto& job : jobs_)
    if (const auto* reader = dynamic_cast<const ArrayReader*>(job->reader.get()); reader && reader->used())
      throw program::RaceError({text, job->job.program->program().name, {}, {}, {}});
  throw InternalError(text);
}

}  // namespace tilesim::engine
