// The Result of an estimate or simulation. Engine and closed form return the same type.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/base/json/json.hpp"
#include "tilesim/report/energy.hpp"

namespace tilesim {

/// States of a unit, in order of priority: at each instant the first that applies counts. Their cycles add up to the
/// total.
enum class UnitState : std::uint8_t { busy, wait_load, wait_store, wait_dependency, wait_port, idle };
inline constexpr int unit_state_count = 6;
std::string_view name(UnitState state);

/// Use of a unit over the whole run, in cycles of the core clock.
struct UnitUse {
  std::string unit;  ///< "core0.array0", "core0.vector", "core0.load0", "memory.channel3"
  std::string kind;  ///< array | vector | cross_lane | load | store | send | channel | region_link | other
  std::int64_t core = 0;
  std::int64_t cycles[unit_state_count] = {};  ///< per UnitState
  std::int64_t operations = 0;
  std::int64_t bytes = 0;  ///< bytes moved (load, store, channel, link, send)
  double work = 0;         ///< multiply-adds (array) or element operations (vector)
};

/// Use of the machine by a kernel (outermost named scope), in cycles of the core clock.
struct OperationUse {
  std::string name;                    ///< kernel
  std::vector<std::string> operation;  ///< names of the graph operations that it computes
  std::int64_t count = 0;              ///< executions (calls, loop trips)
  std::int64_t start = 0, finish = 0;  ///< in core cycles: start of the first, finish of the last execution
  std::int64_t cycles = 0;             ///< sum of finish - start over executions, including overlap with other kernels
  std::int64_t exclusive = 0;          ///< share of the total time attributed to it; the shares add up to the total
  std::int64_t load_bytes = 0, store_bytes = 0;  ///< bytes in full bursts
  double multiply_adds = 0, vector_operations = 0;
  std::int64_t array_busy = 0, vector_busy = 0, memory_busy = 0,
               launch = 0;  ///< sum of busy cycles: busiest array, vector unit, memory
  std::string bound;        ///< "compute" | "vector" | "memory" | "network" | "dma" | "launch" | "latency"
  double bound_share = 0;   ///< busy share of the limiting part within the kernel's time
};

/// One busy interval of a timeline. Intervals are recorded on request, up to a stated number.
struct Interval {
  std::int32_t unit;
  std::int32_t label;
  std::int64_t start, finish;
};

/// A job among several, in cycles of the core clock. `finish` below zero: not finished.
struct JobUse {
  std::string program;
  std::vector<std::int64_t> cores;
  std::int64_t arrival = 0, start = 0, finish = -1;
};

struct Result {
  std::string program, machine, source = "engine";  ///< source: engine | closed form
  std::int64_t cycles = 0;                          ///< of the core clock
  std::int64_t hertz = 1;
  std::int64_t tile_operations = 0, events = 0;
  std::int64_t memory_read_bytes = 0, memory_written_bytes = 0, network_bytes = 0;
  /// Memory of several regions: bytes between cores and their own region, and other regions; 0 for one region.
  std::int64_t memory_local_bytes = 0, memory_remote_bytes = 0;
  /// With banks or routers, bytes of channels differ from those read and written: bytes of the channels = read +
  /// written + padding - merged - forwarded.
  std::int64_t memory_merged_bytes = 0;     ///< bytes of writes merged into a waiting burst
  std::int64_t memory_forwarded_bytes = 0;  ///< bytes of reads served by a waiting write
  std::int64_t memory_padding_bytes = 0;    ///< bytes of full bursts beyond the requests
  std::int64_t on_chip_bytes = 0;           ///< moved between tiles and resident values in the scratchpad
  double multiply_adds = 0, vector_operations = 0;
  std::string bottleneck;  ///< "compute" | "vector" | "memory" | "network" | "dma" | "launch" | "latency"
  double bottleneck_share = 0;
  std::vector<UnitUse> units;
  std::vector<OperationUse> operations;
  std::vector<JobUse> jobs;   ///< if there are several
  std::vector<Count> counts;  ///< by operation: events that consume energy, and wasted bytes and work
  std::vector<EnergyPart> energy;
  std::vector<std::string> approximations;      ///< how components were modelled, and features left out
  std::map<std::string, std::string> fidelity;  ///< part -> level
  std::map<std::string, std::string> hashes;    ///< program, machine
  std::map<std::string, std::string> versions;  ///< versions of the software used; empty: not stated
  /// Tensors whose values loops or addresses read -> "given", "computed from ...", "default: ...".
  std::map<std::string, std::string> data_sources;
  std::map<std::string, std::string> options;  ///< options of the call that the user gave
  std::vector<std::string> labels;             ///< labels of intervals
  std::vector<Interval> intervals;
  std::int64_t intervals_dropped = 0;
  std::string lowering;  ///< "native" or "best"; empty: unknown
  std::string setting;   ///< dtype, batch and sizes of the model; empty: unknown
  Json bounds;           ///< lower bounds of the workload; null: unknown
  Json memory;           ///< bytes of each channel over time, commands of each bank; null: not recorded
  Json cache;            ///< counts of the cache before the channels, in total and per tensor; null: none
  Json network;          ///< links, endpoints and packets of a network of routers; null: none
  Json live;             ///< at level "live": times of kernels that share a core, by compute; null: another level
  Json configuration;    ///< the resolved machine

  double seconds() const { return static_cast<double>(cycles) / static_cast<double>(hertz); }
  Json to_json() const;  ///< schema "tilesim.result", version 2; version 1 is read too
  static Result from_json(const Json& json);
  /// Hash over all integers that timing determines (without versions, textual settings and file names). It is equal on
  /// all hosts and builds.
  std::string timing_hash() const;
};

}  // namespace tilesim
