// Builds the Result of a simulation from its state at the end.
#pragma once

#include "tilesim/engine/jobs/jobs.hpp"

namespace tilesim::engine {

/// The parts of a simulation that the Result reports.
struct RunState {
  const Chip& chip;
  const Totals& totals;
  const OffChip& memory;
  const Agenda& agenda;
  const Units& units;
  const Timeline& timeline;
  const Jobs& jobs;
};

Result result_of(const RunState& run);

/// Programs, with counters of the kernels of completed and running jobs.
using Programs = std::vector<ProgramRow>;
Programs programs_of(const Jobs& jobs);  // jobs.cpp

/// Busy core cycles of the busiest unit of each type; the largest number tells which type limits the run.
struct Busiest { std::int64_t array = 0, vector = 0, memory = 0, cache = 0, network = 0, dma = 0, launch = 0; };

// Each function adds fields and rows to the Result.
void add_units(const RunState& run, Result& result, Busiest& busiest);                           // units.cpp
void add_channels(const RunState& run, Result& result, Busiest& busiest);                        // units.cpp
void add_links(const RunState& run, Result& result, Busiest& busiest);                           // units.cpp
void add_intervals(const RunState& run, Result& result);                                         // units.cpp
void add_jobs(const RunState& run, const Programs& programs, Result& result, Busiest& busiest);  // jobs.cpp
void add_sources(const RunState& run, Result& result);                                           // jobs.cpp
void add_cache(const RunState& run, Result& result, Busiest& busiest);                           // cache.cpp
void add_cache_fidelity(const RunState& run, Result& result);                                    // cache.cpp
void add_energy(const RunState& run, const Programs& programs, Result& result);                  // energy.cpp
void add_fidelity(const RunState& run, Result& result);                                          // fidelity.cpp
void add_views(const RunState& run, Result& result);                                             // views.cpp

/// Core cycles in which the busiest port or link moved bytes, over the entire run.
std::int64_t network_busy(const RunState& run);  // bounds.cpp
/// The same for one kernel, derived from its bytes at the core ports of its program and, with routers, at channels.
std::int64_t network_busy(const RunState& run, const KernelCounters& kernel, const ProgramRow& program);

struct Share {
  const char* name;
  double value;
};
/// The largest share; "latency" if no share reaches one half.
Share largest(std::initializer_list<Share> shares);
double ratio(std::int64_t part, std::int64_t whole);

}  // namespace tilesim::engine
