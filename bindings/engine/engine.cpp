// Simulation: one call, or a session with several jobs.
#include "tilesim/engine/engine.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "engine/dram.hpp"
#include "tilesim/isa/latency/latency.hpp"

namespace py = pybind11;
using namespace tilesim;

namespace {

std::map<std::string, Array> arrays_of(const py::dict& tensors) {
  std::map<std::string, Array> arrays;
  for (const auto& [key, value] : tensors)
    arrays[key.cast<std::string>()] = bindings::array_from_python(value, key.cast<std::string>());
  return arrays;
}

/// Books of latencies while a simulation runs without the GIL.
class Books {
 public:
  std::shared_ptr<LatencyBook> opened(const std::shared_ptr<LatencyBook>& given) {
    for (const auto& [cached, own] : opened_)
      if (cached == given) return own;
    auto own = std::make_shared<LatencyBook>(given->source());
    for (const auto& [compute, latency] : given->entries()) own->put(compute, latency, latency.limit);
    opened_.emplace_back(given, own);
    return own;
  }
  /// Gives back what was learnt.
  void close() {
    for (const auto& [given, own] : opened_) {
      for (const auto& [compute, latency] : own->entries())
        if (!given->entries().contains(compute)) given->put(compute, latency, latency.limit);
      given->hits += own->hits;
      given->misses += own->misses;
      given->memory_hits = own->memory_hits;
      given->memory_misses = own->memory_misses;
      given->refused = own->refused, given->counts = own->counts;
    }
  }

 private:
  std::vector<std::pair<std::shared_ptr<LatencyBook>, std::shared_ptr<LatencyBook>>> opened_;
};

Result simulate_program(const program::Program& program, const Machine& machine,
                        const std::optional<std::string>& memory, bool timeline, const py::dict& tensors,
                        std::uint64_t shuffle_seed, bool extra_statistic, const std::optional<engine::dram::Part>& dram,
                        const std::optional<std::string>& network, const std::optional<engine::noc::Topology>& topology,
                        const std::map<std::string, std::string>& placement,
                        const std::optional<std::shared_ptr<LatencyBook>>& latencies,
                        const std::vector<std::int64_t>& cores, const std::vector<std::string>& resident,
                        const std::map<std::string, std::shared_ptr<LatencyBook>>& sort_latencies,
                        const std::optional<std::int64_t>& replay_beyond, const py::object& counted, bool kernels,
                        bool live, const py::object& expected) {
  SimulateOptions options;
  Books books;  // the engine's own copies: others may read and fill the given ones meanwhile
  if (latencies && *latencies) options.latencies = books.opened(*latencies);
  for (const auto& [sort, book] : sort_latencies) options.sort_latencies[sort] = books.opened(book);
  if (dram) options.dram = std::make_shared<const engine::dram::Part>(*dram);
  if (topology) options.topology = std::make_shared<const engine::noc::Topology>(*topology);
  options.network = network;
  options.memory = memory;
  options.timeline = timeline;
  options.placement = placement;
  options.resident = resident;
  options.shuffle_seed = shuffle_seed;
  options.extra_statistic = extra_statistic;
  options.replay_beyond = replay_beyond;
  options.live = live;
  if (kernels) options.kernels = [](const Machine& of) { return std::make_unique<isa::InstructionLatency>(of); };
  options.tensors = arrays_of(tensors);
  if (!expected.is_none())
    options.expected = [&expected](std::int64_t simulated, std::int64_t all) {
      const py::gil_scoped_acquire gil;
      expected(simulated, all);
    };
  Result result = bindings::cancellable(
      [&](CancelToken& token) {
        options.cancel = &token;
        return simulate(program, machine, options, cores);
      },
      py::none(), counted);
  books.close();
  return result;
}

/// A session whose runs answer Ctrl-C, and can go on after it.
class InterruptibleSession {
 public:
  InterruptibleSession(const Machine& machine, SimulateOptions options) : session_(machine, with(options, relay_)) {}

  /// Runs `call(session)` with the GIL, for what is quick.
  template <class Call>
  auto ask(const Call& call) {
    const bindings::Exclusive own(busy_, "a session");
    return call(session_);
  }

  /// The program as the engine reads it: made once for all jobs of it, unless many others came in between.
  std::shared_ptr<const program::CompiledProgram> compiled(const program::Program& program) {
    for (const CachedProgram& cached : cached_)
      if (cached.program == &program) return cached.compiled;
    if (cached_.size() == most_cached_) cached_.erase(cached_.begin());
    cached_.push_back({&program, py::cast(program, py::return_value_policy::reference),
                       std::make_shared<const program::CompiledProgram>(program)});
    return cached_.back().compiled;
  }

  template <class Call>
  auto run(Call call) {
    const bindings::Exclusive own(busy_, "a session");
    return bindings::cancellable([&](CancelToken& token) {
      relay_->check = [&token] {
        token.poll();
        return false;
      };
      return call(session_);
    });
  }

 private:
  struct CachedProgram {
    const program::Program* program;
    py::object kept;  ///< so that no other comes to its address
    std::shared_ptr<const program::CompiledProgram> compiled;
  };
  static constexpr std::size_t most_cached_ = 32;

  static SimulateOptions with(SimulateOptions& options, const std::unique_ptr<CancelToken>& relay) {
    options.cancel = relay.get();
    return options;
  }

  std::unique_ptr<CancelToken> relay_ = std::make_unique<CancelToken>();
  Session session_;
  std::vector<CachedProgram> cached_;
  bool busy_ = false;
};

}  // namespace

void init_noc(py::module_& module);        // noc.cpp
void init_latencies(py::module_& module);  // latencies.cpp

void init_engine(py::module_& module) {
  init_noc(module);
  init_dram(module);
  init_latencies(module);
  module.def("simulate", &simulate_program, py::arg("program"), py::arg("machine"), py::arg("memory") = py::none(),
             py::arg("timeline") = false, py::arg("tensors") = py::dict(), py::arg("shuffle_seed") = 0,
             py::arg("extra_statistic") = false, py::arg("dram") = py::none(), py::arg("network") = py::none(),
             py::arg("topology") = py::none(), py::arg("placement") = std::map<std::string, std::string>{},
             py::arg("latencies") = py::none(), py::arg("cores") = std::vector<std::int64_t>{},
             py::arg("resident") = std::vector<std::string>{},
             py::arg("sort_latencies") = std::map<std::string, std::shared_ptr<LatencyBook>>{},
             py::arg("replay_beyond") = py::none(), py::arg("counted") = py::none(), py::arg("kernels") = false,
             py::arg("live") = false, py::arg("expected") = py::none(),
             "Runs a program in simulated time, on the first cores or those given; with more tile operations than "
             "`replay_beyond`, from its steady loops. `counted` is called with the tile operations done and all, at "
             "most 20 times a second; `expected` before each run with those that it simulates, and all.");
  using Own = InterruptibleSession;
  py::class_<Own>(module, "Session", "A simulation in progress with several jobs.")
      .def(py::init([](const Machine& machine, const std::optional<std::string>& memory,
                       const std::optional<engine::dram::Part>& dram, const std::optional<std::string>& network,
                       const std::optional<engine::noc::Topology>& topology,
                       const std::map<std::string, std::string>& placement, bool timeline,
                       const std::vector<std::string>& resident, bool live) {
             SimulateOptions options;
             options.live = live;
             options.timeline = timeline;
             options.resident = resident;
             options.memory = memory;
             options.network = network;
             if (dram) options.dram = std::make_shared<const engine::dram::Part>(*dram);
             if (topology) options.topology = std::make_shared<const engine::noc::Topology>(*topology);
             options.placement = placement;
             return std::make_unique<Own>(machine, options);
           }),
           py::arg("machine"), py::arg("memory") = py::none(), py::arg("dram") = py::none(),
           py::arg("network") = py::none(), py::arg("topology") = py::none(),
           py::arg("placement") = std::map<std::string, std::string>{}, py::arg("timeline") = false,
           py::arg("resident") = std::vector<std::string>{}, py::arg("live") = false)
      .def(
          "submit",
          [](Own& own, const program::Program& program, std::vector<std::int64_t> cores, std::int64_t arrival,
             std::int64_t priority, const py::dict& tensors) {
            Job job;
            job.program = own.compiled(program);
            job.cores = std::move(cores);
            job.arrival_cycles = arrival;
            job.priority = priority;
            job.tensors = arrays_of(tensors);
            return own.ask([&](Session& session) { return session.submit(std::move(job)); });
          },
          py::arg("program"), py::arg("cores") = std::vector<std::int64_t>{}, py::arg("arrival") = 0,
          py::arg("priority") = 0, py::arg("tensors") = py::dict(),
          "Queues a program on physical cores, from core cycle `arrival` on; returns the job's id.")
      .def(
          "run_until",
          [](Own& own, std::int64_t cycles) {
            return own.run([cycles](Session& session) { return session.run_until(cycles); });
          },
          py::arg("cycles"), "Processes events up to a core cycle; False when nothing is left.")
      .def(
          "run", [](Own& own) { own.run([](Session& session) { session.run(); }); }, "Runs to the end.")
      .def_property_readonly(
          "now", [](Own& own) { return own.ask([](Session& session) { return session.now(); }); }, "Core cycles.")
      .def(
          "finished",
          [](Own& own, int job) { return own.ask([&](Session& session) { return session.finished(job); }); },
          py::arg("job"), "Core cycle of completion, or None.")
      .def(
          "result", [](Own& own) { return own.ask([](Session& session) { return session.result(); }); },
          "The Result so far.");
}
