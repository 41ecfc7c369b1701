// Adds jobs and their kernels to a Result, and the sources of values that they read.
#include <algorithm>
#include <cmath>

#include "tilesim/base/index.hpp"
#include "tilesim/engine/results/results.hpp"

namespace tilesim::engine {

namespace {

OperationUse operation(const RunState& run, const KernelRow& row, const ProgramRow& program) {
  const KernelCounters& k = row.counters;
  const MemorySpec& memory = run.chip.machine.memory;
  OperationUse use;
  use.name = row.kernel;
  use.operation = row.operation;
  use.count = k.count;
  use.start = k.start;
  use.finish = k.finish;
  use.cycles = k.cycles;
  use.exclusive = k.exclusive;
  use.load_bytes = k.load_bytes;
  use.store_bytes = k.store_bytes;
  use.multiply_adds = k.multiply_adds;
  use.vector_operations = k.vector_operations;
  use.array_busy = k.array_busy / program.cores;  // mean over cores
  use.vector_busy = k.vector_busy / program.cores;
  use.launch = k.launch;
  const double achieved = static_cast<double>(memory.bytes_per_second) * memory.efficiency /
                          static_cast<double>(run.chip.machine.core.clock.hertz);
  const std::int64_t bytes = run.memory.tensors() ? k.below_bytes : k.load_bytes + k.store_bytes;
  if (run.chip.memory != MemoryKind::ideal && achieved > 0)
    use.memory_busy = static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) / achieved));
  const std::int64_t whole = std::max<std::int64_t>(1, k.cycles);
  const Share bound = largest({{"compute", ratio(use.array_busy, whole)},
                               {"vector", ratio(use.vector_busy, whole)},
                               {"memory", ratio(use.memory_busy, whole)},
                               {"network", ratio(network_busy(run, k, program), whole)},
                               {"dma", ratio(k.dma_busy / 1000 / program.cores, whole)},
                               {"launch", ratio(use.launch, whole)}});
  use.bound = bound.name;
  use.bound_share = std::min(1.0, bound.value);
  return use;
}

}  // namespace

Programs programs_of(const Jobs& jobs) {
  Programs programs = jobs.rows().programs();
  for (const auto& [id, job] : jobs.live())
    if (job->started) programs[at(jobs.rows()[id].program)].add(*job->loaded, job->kernels.counters());
  return programs;
}

void add_jobs(const RunState& run, const Programs& programs, Result& result, Busiest& busiest) {
  const Rows& rows = run.jobs.rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const JobRow& row = rows[static_cast<int>(i)];
    result.jobs.push_back({rows.programs()[at(row.program)].name, rows.cores(row), row.arrival, row.start, row.finish});
  }
  for (const ProgramRow& program : programs) {
    for (const KernelRow& kernel : program.kernels) {
      result.operations.push_back(operation(run, kernel, program));
      busiest.launch += kernel.counters.launch;
    }
    result.approximations.insert(result.approximations.end(), program.notes.begin(), program.notes.end());
  }
}

void add_sources(const RunState& run, Result& result) {
  const Rows& rows = run.jobs.rows();
  const auto tell = [&](int id, const Rows::Sources& sources) {
    const std::string start = rows.size() > 1 ? "job " + std::to_string(id) + ": " : "";
    for (const auto& [name, source] : sources) result.data_sources[start + name] = source;
  };
  std::vector<std::string> assumed = rows.assumed();
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (const Rows::Sources* sources = rows.sources(rows[static_cast<int>(i)])) tell(static_cast<int>(i), *sources);
  for (const auto& [id, job] : run.jobs.live()) {
    if (!job->reader) continue;
    tell(id, job->reader->sources());
    if (std::string own = job->reader->assumed(); !own.empty()) assumed.push_back(std::move(own));
  }
  std::string text;
  for (const std::string& own : assumed) text += (text.empty() ? "" : "; ") + own;
  if (!text.empty())
    result.approximations.push_back("loops or addresses depend on missing values, assumed to be " + text +
                                    ": pass tensors= to set them");
}

}  // namespace tilesim::engine
