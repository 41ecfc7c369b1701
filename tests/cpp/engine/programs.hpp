// Small programs and a machine whose times can be told by hand: 1 GHz everywhere, a byte per cycle off chip.
#pragma once

#include <string>

#include "tilesim/engine/engine.hpp"

namespace tilesim::test {

inline Machine plain_machine(std::int64_t cores = 1) {
  Machine machine;
  machine.name = "plain";
  machine.core.count = cores;
  machine.core.clock = machine.network.clock = {1000000000};
  machine.core.array.rates = {{DType::f32, 1.0}};
  machine.core.dma.bytes_per_cycle = machine.network.port_bytes_per_cycle = 4096;
  machine.network.latency_cycles = 10;
  machine.memory.channels = 1;
  machine.memory.bytes_per_second = 1000000000;
  machine.memory.latency_ps = 100000;  // 100 cycles
  machine.memory.burst_bytes = 64;
  return machine;
}

inline program::Program parse(const std::string& body, const std::string& rest = "") {
  return program::Program::from_json(Json::parse(R"({"schema": "tilesim.program", "version": 1, "name": "test", )" +
                                                 rest + R"("do": [)" + body + "]}"));
}

inline std::string opaque(const std::string& unit, std::int64_t cycles) {
  return R"({"opaque": {"target": ")" + unit + R"(", "cycles": )" + std::to_string(cycles) +
         R"(, "reads": [], "writes": []}, "queue": ")" + unit + R"("})";
}

/// `trips` times: unit "first" fills a buffer of a ring, unit "second" uses it.
inline program::Program pipeline(std::int64_t trips, std::int64_t first, std::int64_t second, std::int64_t depth) {
  return parse(R"({"for": "i", "extent": )" + std::to_string(trips) + R"(, "do": [
        {"acquire": "s", "queues": ["first"]}, )" +
                   opaque("first", first) + R"(, {"commit": "s", "queue": "first"},
        {"wait": "s", "queue": "second"}, )" +
                   opaque("second", second) + R"(, {"release": "s", "queue": "second"}]})",
               R"("tensors": [], "slots": [{"name": "s", "dtype": "f32", "elements": 1, "depth": )" +
                   std::to_string(depth) + R"(, "consumers": ["second"]}], )");
}

/// One transfer of `elements` f32 in `queue` ("load0" or "store0").
inline program::Program transfer(std::int64_t elements, const std::string& queue, std::int64_t times = 1) {
  const bool load = queue.compare(0, 4, "load") == 0;
  const std::string size = std::to_string(elements);
  const std::string use = load ? R"({"commit": "s", "queue": "load0"}, {"wait": "s", "queue": "vector"},
                                    {"release": "s", "queue": "vector"})"
                               : R"({"release": "s", "queue": "store0"})";
  return parse(R"({"for": "i", "extent": )" + std::to_string(times) + R"(, "do": [{"acquire": "s", "queues": [")" +
                   queue + R"("]}, {")" + (load ? "load" : "store") +
                   R"(": {"tensor": "x", "at": [0], "slot": "s", "dims": [{"extent": )" + size +
                   R"(, "axis": 0, "stride": 1}]}, "queue": ")" + queue + R"("}, )" + use + "]}",
               R"("tensors": [{"name": "x", "dtype": "f32", "shape": [)" + size + R"(], "role": ")" +
                   (load ? "input" : "output") + R"("}], "slots": [{"name": "s", "dtype": "f32", "elements": )" + size +
                   R"(, "depth": 2, "consumers": [")" + (load ? "vector" : "store0") + R"("]}], )");
}

inline Job job_of(const program::Program& program, std::vector<std::int64_t> cores = {}, std::int64_t arrival = 0,
                  std::int64_t priority = 0) {
  Job job;
  job.program = std::make_shared<const program::CompiledProgram>(program);
  job.cores = std::move(cores);
  job.arrival_cycles = arrival;
  job.priority = priority;
  return job;
}

inline const UnitUse& unit(const Result& result, const std::string& name) {
  for (const UnitUse& use : result.units)
    if (use.unit == name) return use;
  throw InternalError("no unit " + name);
}

}  // namespace tilesim::test
