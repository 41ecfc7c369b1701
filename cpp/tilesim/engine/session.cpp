#include "tilesim/engine/engine.hpp"

#include <algorithm>

#include "tilesim/engine/replay/replay.hpp"
#include "tilesim/engine/simulator.hpp"

namespace tilesim {

struct Session::State {
  State(const Machine& machine, SimulateOptions options) : simulator(machine, std::move(options)) {}
  engine::Simulator simulator;
};

Session::Session(const Machine& machine, SimulateOptions options)
    : state_(std::make_unique<State>(machine, std::move(options))) {}
Session::~Session() = default;
int Session::submit(Job job) { return state_->simulator.submit(std::move(job)); }
bool Session::run_until(std::int64_t core_cycles) { return state_->simulator.run_until(core_cycles); }
void Session::run() { state_->simulator.run_until(INT64_MAX); }
std::int64_t Session::now() const { return state_->simulator.now(); }
std::optional<std::int64_t> Session::finished(int job) const { return state_->simulator.finished(job); }
Result Session::result() const { return state_->simulator.result(); }

namespace {

Result simulate_whole(const program::Program& program, const Machine& machine, const SimulateOptions& options,
                      const std::vector<std::int64_t>& cores) {
  if (options.cancel && options.cancel->counted)  // the caller reads progress
    options.cancel->begin(static_cast<double>(program::Executions(program, nullptr, true).all()) *
                          static_cast<double>(program.cores * program.contexts));
  Session session(machine, options);
  Job job;
  job.program = std::make_shared<const program::CompiledProgram>(&program);
  job.tensors = options.tensors;
  job.cores = cores;
  session.submit(std::move(job));
  session.run();
  Result result = session.result();
  result.jobs.clear();  // a single program has no jobs to report
  return result;
}

/// Whether to search a program for steady loops: it must be long. With bank memory, long sequences of equal layers are
/// especially slow. A program that executes each statement only a few times has no useful loops.
bool is_long(const program::Program& program, const Machine& machine, const SimulateOptions& options) {
  constexpr std::int64_t few_statements = 100000, executions = 100;  // `executions`: per statement of larger programs
  if (!options.replay_beyond || options.timeline) return false;
  if (options.memory.value_or(machine.memory.kind) == "bank") {
    std::int64_t bytes = 0;
    for (const auto& [count, name] : program::footprint(program))
      bytes += std::min(count, engine::replay::most_bank_bytes);
    if (bytes > engine::replay::most_bank_bytes) return true;
  }
  const program::Contents contents = program::contents(program);
  return contents.operations > *options.replay_beyond / (program.cores * program.contexts) &&
         (contents.statements < few_statements || contents.operations / executions > contents.statements);
}

}  // namespace

Result simulate(const program::Program& program, const Machine& machine, const SimulateOptions& options,
                std::vector<std::int64_t> cores) {
  const auto run = [&](const program::Program& one) { return simulate_whole(one, machine, options, cores); };
  const double streams = static_cast<double>(program.cores * program.contexts);
  const double all =
      options.expected ? streams * static_cast<double>(program::Executions(program, nullptr, true).all()) : 0;
  const auto expected = [&](double operations) {
    constexpr double most = 9e18;
    if (options.expected)
      options.expected(static_cast<std::int64_t>(std::min(most, operations)),
                       static_cast<std::int64_t>(std::min(most, all)));
  };
  const auto whole = [&](const program::Program& one) {
    expected(all);
    return run(one);
  };
  if (!is_long(program, machine, options)) return whole(program);
  const CacheSpec& cache = machine.memory.cache;
  if ((cache.bytes() > 0 && !cache.software) || !options.resident.empty()) {
    Result result = whole(program);
    result.approximations.push_back(
        "nothing is replayed: with a cache every trip of a loop differs, so all were simulated");
    return result;
  }
  const std::int64_t around = machine.memory.interleave_bytes * machine.memory.channels;
  const engine::replay::Places places{std::max<std::int64_t>(1, machine.memory.burst_bytes),
                                      std::max<std::int64_t>(1, around)};
  const std::int64_t limit = std::max<std::int64_t>(1, *options.replay_beyond / (program.cores * program.contexts));
  const auto told = [&](double operations) { expected(streams * operations); };
  if (auto result = engine::replay::replayed(program, limit, places, run, told)) return std::move(*result);
  return whole(program);
}

}  // namespace tilesim
