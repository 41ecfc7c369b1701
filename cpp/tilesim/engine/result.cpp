// Assembles the Result of a simulation.
#include <algorithm>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/engine/simulator.hpp"

namespace tilesim::engine {

namespace {

struct Share {
  const char* name;
  double value;
};

/// The part with the largest share; "latency" when nothing is busy half of the time.
Share largest(std::initializer_list<Share> shares) {
  Share best{"latency", 0};
  for (const Share& share : shares)
    if (share.value > best.value) best = share;
  return best.value < 0.5 ? Share{"latency", best.value} : best;
}

double ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

OperationUse operation(const KernelCounters& k, const program::Scope& scope, double bytes_per_cycle,
                       std::int64_t memory_bytes, std::int64_t cores, std::int64_t network_busy) {
  OperationUse use;
  use.name = scope.kernel;
  use.operation = scope.operation;
  use.count = k.count;
  use.start = k.start;
  use.finish = k.finish;
  use.cycles = k.cycles;
  use.exclusive = k.exclusive;
  use.load_bytes = k.load_bytes;
  use.store_bytes = k.store_bytes;
  use.multiply_adds = k.multiply_adds;
  use.vector_operations = k.vector_operations;
  use.array_busy = k.array_busy / cores;  // mean over the cores
  use.vector_busy = k.vector_busy / cores;
  use.launch = k.launch;
  use.memory_busy = bytes_per_cycle > 0
                        ? static_cast<std::int64_t>(std::ceil(static_cast<double>(memory_bytes) / bytes_per_cycle))
                        : 0;
  const std::int64_t whole = std::max<std::int64_t>(1, k.cycles);
  const Share bound = largest({{"compute", ratio(use.array_busy, whole)},
                               {"vector", ratio(use.vector_busy, whole)},
                               {"memory", ratio(use.memory_busy, whole)},
                               {"network", ratio(network_busy, whole)},
                               {"launch", ratio(use.launch, whole)}});
  use.bound = bound.name;
  use.bound_share = std::min(1.0, bound.value);
  return use;
}

void add_energy(Result& result, const Machine& machine, const std::vector<MemorySystem::Energy>& commands) {
  const EnergySpec& table = machine.energy;
  std::int64_t scratchpad = 0;
  for (const UnitUse& unit : result.units)
    if (unit.kind == "load" || unit.kind == "store") scratchpad += unit.bytes;
  const auto add = [&](const char* part, double count, std::int64_t each) {
    const auto whole = static_cast<std::int64_t>(count);
    result.energy.push_back({part, whole, whole * each, each != 0});
  };
  add("multiply-adds", result.multiply_adds, table.mac);
  add("vector operations", result.vector_operations, table.vector_op);
  add("scratchpad bytes (DMA side)", static_cast<double>(scratchpad), table.scratchpad_byte);
  // A part's own energies count its commands; the machine's energy per byte would count them again.
  for (const MemorySystem::Energy& one : commands)
    result.energy.push_back({one.part, one.count, one.count * one.each, true});
  if (commands.empty())
    add("memory bytes", static_cast<double>(result.memory_read_bytes + result.memory_written_bytes), table.memory_byte);
  add("network bytes", static_cast<double>(result.network_bytes), table.network_byte);
  const double picoseconds = result.seconds() * 1e12;
  result.energy.push_back({"static (ps)", static_cast<std::int64_t>(picoseconds),
                           static_cast<std::int64_t>(picoseconds * static_cast<double>(table.static_microwatts) * 1e-3),
                           table.static_microwatts != 0});
}

}  // namespace

Result Simulator::result() const {
  Result result;
  result.machine = machine_.name;
  result.program = jobs_.empty() ? "" : jobs_[0]->job.program->program().name;
  result.cycles = finish_;
  result.hertz = machine_.core.clock.hertz;
  result.tile_operations = tile_operations_;
  result.events = event_count_;
  result.memory_read_bytes = read_bytes_;
  result.memory_written_bytes = written_bytes_;
  result.network_bytes = network_bytes_;
  const double achieved = static_cast<double>(machine_.memory.bytes_per_second) * machine_.memory.efficiency /
                          static_cast<double>(result.hertz);
  const bool ideal = machine_.memory.kind == "ideal";
  std::int64_t array_busy = 0, vector_busy = 0, launch = 0;
  for (const UnitCounters& unit : units_) {
    UnitUse use;
    use.unit = unit.name;
    use.kind = unit.kind;
    use.core = unit.core;
    std::int64_t counted = 0;
    for (std::size_t i = 0; i < unit.cycles.size(); ++i) counted += use.cycles[i] = unit.cycles[i];
    use.cycles[static_cast<std::size_t>(UnitState::idle)] += finish_ - counted;
    require(use.cycles[static_cast<std::size_t>(UnitState::idle)] >= 0 || machine_.core_at(unit.core).contexts > 1,
            "the states of a unit exceed the total time");
    use.operations = unit.operations;
    use.bytes = unit.bytes;
    use.work = unit.work;
    const std::int64_t own = unit.cycles[static_cast<std::size_t>(UnitState::busy)];
    if (unit.kind == "array") result.multiply_adds += unit.work, array_busy = std::max(array_busy, own);
    if (unit.kind == "vector") result.vector_operations += unit.work, vector_busy = std::max(vector_busy, own);
    result.units.push_back(use);
  }
  std::sort(result.units.begin(), result.units.end(),
            [](const UnitUse& a, const UnitUse& b) { return a.unit < b.unit; });
  std::int64_t memory_busy = 0;
  const auto channels = routed_ ? routed_->memory().channels(machine_.core.clock) : memory_->channels();
  for (std::size_t i = 0; i < channels.size(); ++i) {
    UnitUse use;
    use.unit = "memory.channel" + std::to_string(i);
    use.kind = "channel";
    use.cycles[static_cast<std::size_t>(UnitState::busy)] = std::min(channels[i].busy, finish_);
    use.cycles[static_cast<std::size_t>(UnitState::idle)] = finish_ - use.cycles[0];
    use.bytes = channels[i].bytes;
    result.memory_merged_bytes += channels[i].merged;
    result.memory_forwarded_bytes += channels[i].forwarded;
    result.memory_padding_bytes += channels[i].padding;
    memory_busy = std::max(memory_busy, use.cycles[0]);
    result.units.push_back(use);
  }
  if (routed_) result.memory_padding_bytes += routed_->padding();
  const std::size_t before_caches = result.units.size();
  add_cache(result);
  std::int64_t cache_busy = 0;
  for (std::size_t i = before_caches; i < result.units.size(); ++i)
    cache_busy = std::max(cache_busy, result.units[i].cycles[0]);
  std::int64_t longest_link = network_busy();
  const auto region_links = routed_ ? routed_->links() : memory_->links();
  for (const MemorySystem::Link& link : region_links) {
    (link.from == link.to ? result.memory_local_bytes : result.memory_remote_bytes) += link.bytes;
    if (link.from == link.to || (routed_ && routed_->topology().router_regions.empty())) continue;
    UnitUse use;
    use.unit = "link.region" + std::to_string(link.from) + "to" + std::to_string(link.to);
    use.kind = "region_link";
    use.cycles[static_cast<std::size_t>(UnitState::busy)] = std::min(link.busy, finish_);
    use.cycles[static_cast<std::size_t>(UnitState::idle)] = finish_ - use.cycles[0];
    use.bytes = link.bytes + link.sent;
    longest_link = std::max(longest_link, use.cycles[0]);
    result.units.push_back(use);
  }
  for (const auto& job : jobs_) {
    const program::CompiledProgram& program = *job->job.program;
    if (jobs_.size() > 1)
      result.jobs.push_back({program.program().name, job->job.cores, job->job.arrival_cycles, job->start,
                             job->finished ? job->finish : -1});
    for (std::size_t i = 0; i < job->kernels.size(); ++i) {
      const KernelCounters& k = job->kernels[i];
      if (k.count == 0) continue;
      result.operations.push_back(operation(k, *program.scopes[i].scope, ideal ? 0 : achieved,
                                            tensors_ ? k.below_bytes : k.load_bytes + k.store_bytes,
                                            program.program().cores, network_busy(k, *job)));
      launch += job->kernels[i].launch;
    }
    for (const std::string& note : program.program().notes) result.approximations.push_back(note);
  }
  const Share bound = largest({{"compute", ratio(array_busy, finish_)},
                               {"vector", ratio(vector_busy, finish_)},
                               {"memory", ratio(memory_busy, finish_)},
                               {"cache", ratio(cache_busy, finish_)},
                               {"network", ratio(longest_link, finish_)},
                               {"launch", ratio(launch, finish_)}});
  result.bottleneck = bound.name;
  result.bottleneck_share = std::min(1.0, bound.value);
  add_energy(result, machine_, routed_ ? routed_->memory().energy() : memory_->energy());
  add_fidelity(result);
  for (const std::unique_ptr<CoreKind>& kind : kinds_) {
    const auto found = options_.sort_latencies.find(kind->name);
    LatencyBook* book = found != options_.sort_latencies.end() ? found->second.get() : options_.latencies.get();
    if (book == nullptr) continue;
    book->memory_hits = kind->latencies().hits();
    book->memory_misses = kind->latencies().misses();
  }
  if (const std::string assumed = assumed_values(); !assumed.empty())
    result.approximations.push_back("loops or addresses depend on values that were not given, taken as " + assumed +
                                    ": pass tensors= to say otherwise");
  for (std::size_t i = 0; i < jobs_.size(); ++i)
    for (const auto& [name, source] : data_sources(*jobs_[i]))
      result.data_sources[(jobs_.size() > 1 ? "job " + std::to_string(i) + ": " : "") + name] = source;
  add_views(result);
  if (!jobs_.empty()) result.hashes["program"] = hash_text(jobs_[0]->job.program->program().to_json().dump());
  result.hashes["machine"] = machine_.hash();
  result.intervals = intervals_;
  result.labels = labels_;
  result.intervals_dropped = dropped_;
  result.configuration = machine_.to_json();
  if (options_.timeline) {  // intervals name units by their place in the sorted list
    std::vector<std::int32_t> place(units_.size());
    for (std::size_t i = 0; i < units_.size(); ++i)
      for (std::size_t j = 0; j < result.units.size(); ++j)
        if (result.units[j].unit == units_[i].name) place[i] = static_cast<std::int32_t>(j);
    for (Interval& interval : result.intervals) interval.unit = place[static_cast<std::size_t>(interval.unit)];
  }
  return result;
}

}  // namespace tilesim::engine
