#include "tilesim/engine/jobs/jobs.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::engine {

Jobs::Jobs(const Chip& chip, OffChip& memory, Agenda& agenda, Units& units, Timeline& timeline)
    : chip_(chip), memory_(memory), agenda_(agenda), units_(units), timeline_(timeline), admission_(chip) {}

void Jobs::check_cores(const Job& job) const {
  const program::Program& program = job.program->program();
  if (static_cast<std::int64_t>(job.cores.size()) != program.cores)
    throw UserError({"a job names the wrong number of cores",
                     program.name,
                     std::to_string(job.cores.size()),
                     std::to_string(program.cores),
                     {}});
  const std::int64_t count = chip_.machine.core.count;
  for (const std::int64_t core : job.cores)
    if (core < 0 || core >= count)
      throw UserError({"the program needs a core that is missing in the machine",
                       program.name,
                       std::to_string(core),
                       "0 to " + std::to_string(count - 1) + " of " + chip_.machine.name,
                       {}});
}

void Jobs::check_queues(const LoadedProgram& loaded, const CoreKind& kind) const {
  for (const std::int32_t number : loaded.sorts) {
    const UnitSort& sort = units_.named(number);
    std::int64_t count = 0;
    const char* stem = nullptr;
    if (sort.kind == UnitKind::load) count = kind.core.dma.load_queues, stem = "load";
    if (sort.kind == UnitKind::store) count = kind.core.dma.store_queues, stem = "store";
    if (sort.kind == UnitKind::array) count = kind.core.array.count, stem = "mma";
    if (stem && (sort.number < 0 || sort.number >= count))
      throw UserError({"the program uses a queue that is missing in the machine", loaded.program->program().name,
                       "'" + sort.queue + "'",
                       std::string(stem) + "0 to " + stem + std::to_string(count - 1) + " of " + chip_.machine.name,
                       "Compile the graph for this machine"});
  }
}

LoadedProgram& Jobs::load(std::shared_ptr<const program::CompiledProgram> program) {
  if (!first_) {
    first_ = program;
    agenda_.subject = program->program().name;
  }
  std::unique_ptr<LoadedProgram>& loaded = loaded_[program.get()];
  if (!loaded) loaded = std::make_unique<LoadedProgram>(std::move(program), chip_, units_, timeline_);
  return *loaded;
}

int Jobs::submit(Job job) {
  require(job.program != nullptr, "a job has no program");
  if (job.cores.empty())
    for (std::int64_t i = 0; i < job.program->program().cores; ++i) job.cores.push_back(i);
  check_cores(job);
  auto state = std::make_unique<JobState>();
  for (const std::int64_t core : job.cores)
    state->contexts.push_back(contexts_of(*job.program, chip_.kind(core), core));
  LoadedProgram& loaded = load(job.program);
  for (const std::int64_t core : job.cores) check_queues(loaded, chip_.kind(core));
  state->loaded = &loaded;
  state->id = rows_.add(loaded, job, chip_.kind(job.cores.front()));
  state->job = std::move(job);
  ++loaded.jobs;
  admission_.add(*state);
  const int id = state->id;
  agenda_.push(EventKind::admit, std::max(agenda_.now(), state->job.arrival_cycles), 0, 255);
  live_.emplace(id, std::move(state));
  return id;
}

void Jobs::admit() {
  while (JobState* const job = admission_.next(agenda_.now())) start(*job);
}

void Jobs::start(JobState& job) {
  const program::CompiledProgram& program = *job.job.program;
  job.started = true;
  rows_[job.id].start = agenda_.now();
  job.place = memory_.place(job.loaded->tensors);
  job.reader = std::make_unique<ArrayReader>(program, job.job.tensors);
  for (const auto& [name, size] : program.counters)
    job.counters.emplace_back(static_cast<std::size_t>(size * program.program().cores), 0);
  job.kernels.start(program.scopes.size(), agenda_.now());
  for (std::int64_t core = 0; core < program.program().cores; ++core)
    for (std::int64_t context = 0; context < program.program().contexts; ++context) start_stream(job, core, context);
}

void Jobs::start_stream(JobState& job, std::int64_t core, std::int64_t context) {
  auto stream = std::make_unique<Stream>(*job.job.program, core, context, job.reader.get());
  stream->physical_core = job.job.cores[at(core)];
  stream->kind = &chip_.kind(stream->physical_core);
  stream->job = &job;
  stream->cursor.poll_with(chip_.options.cancel);
  stream->queues.reserve(job.loaded->sorts.size());
  for (const std::int32_t sort : job.loaded->sorts)
    stream->queues.emplace_back(at(stream->kind->core.dma.queue_entries), units_.find(stream->physical_core, sort));
  if (const ComputePort* computes = chip_.options.computes.get())
    for (Queue& queue : stream->queues) {
      const Unit& unit = units_[queue.unit];
      queue.answered_later = computes->takes(unit.core, unit.kind);
    }
  streams_.add(*stream);
  ++job.streams_left;
  agenda_.push(EventKind::stream, agenda_.now(), stream->number, 0);
  job.streams.push_back(std::move(stream));
}

void Jobs::finish(Stream& stream) {
  if (stream.finished) return;
  stream.finished = true;
  finish_ = std::max(finish_, agenda_.now());
  JobState& job = *stream.job;
  if (--job.streams_left > 0) return;
  job.kernels.finish(agenda_.now());
  rows_.end(job, agenda_.now());
  memory_.forget(job.loaded->tensors, job.place);
  for (const std::unique_ptr<Stream>& own : job.streams) {
    for (const Queue& queue : own->queues) memory_.drop(queue.in_flight);
    streams_.remove(*own);
  }
  admission_.leave(job);
  const auto found = live_.find(job.id);
  ended_.push_back(std::move(found->second));
  live_.erase(found);
  admit();
}

void Jobs::clear() {
  for (std::unique_ptr<JobState>& job : ended_) {
    LoadedProgram& loaded = *job->loaded;
    job.reset();
    // Keep the program's data if its owner may submit it again; else only its row stays.
    if (--loaded.jobs == 0 && loaded.program.use_count() == 1) loaded_.erase(loaded.program.get());
  }
  ended_.clear();
}

}  // namespace tilesim::engine
