#include "tilesim/engine/engine.hpp"
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

Result simulate(const program::Program& program, const Machine& machine, const SimulateOptions& options,
                std::vector<std::int64_t> cores) {
  Session session(machine, options);
  Job job;
  job.program = std::make_shared<const program::CompiledProgram>(&program);
  job.tensors = options.tensors;
  job.cores = std::move(cores);
  session.submit(std::move(job));
  session.run();
  return session.result();
}

}  // namespace tilesim
