#include "tilesim/analytic/result.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tilesim::analytic {

namespace {

std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::nearbyint(x)); }

double term(const Cost& cost, std::string_view name) {
  for (const auto& [key, value] : cost.terms)
    if (key == name) return value;
  return 0;
}

/// Name of the unit that a term keeps busy.
std::string_view part_of(std::string_view bound, bool product) {
  if (bound == "load" || bound == "cast" || bound == "split" || bound == "layout") return "memory";
  if (bound == "rows" || bound == "none") return "latency";
  return bound == "compute" && !product ? "vector" : bound;
}

OperationUse use_of(const Cost& cost, double hertz, std::int64_t start) {
  const bool product = cost.kind == "contract" || cost.kind == "convolution" || cost.kind == "attention";
  const std::string_view bound = cost.bound();
  OperationUse use;
  use.name = cost.name;
  use.operation = {cost.name};
  use.count = 1;
  use.cycles = use.exclusive = rounded(cost.seconds * hertz);
  use.start = start;
  use.finish = start + use.cycles;
  use.load_bytes = rounded(cost.bytes);
  (product ? use.multiply_adds : use.vector_operations) = product ? cost.flops / 2 : cost.flops;
  (product ? use.array_busy : use.vector_busy) = rounded(term(cost, "compute") * hertz);
  use.memory_busy = rounded(term(cost, "memory") * hertz);
  use.launch = rounded(term(cost, "launch") * hertz);
  use.bound = part_of(bound, product);
  use.bound_share = std::min(1.0, term(cost, bound) / cost.seconds);
  return use;
}

/// Sets the bottleneck: the unit that is busy longest, if it is busy for at least half of the time.
void name_bottleneck(Result& result) {
  struct BusyUnit {
    std::string_view name;
    std::int64_t OperationUse::* busy;
  };
  static constexpr std::array<BusyUnit, 4> parts{{{"compute", &OperationUse::array_busy},
                                                  {"vector", &OperationUse::vector_busy},
                                                  {"memory", &OperationUse::memory_busy},
                                                  {"launch", &OperationUse::launch}}};
  std::int64_t most = -1;
  for (const BusyUnit& part : parts) {
    std::int64_t busy = 0;
    for (const OperationUse& use : result.operations) busy += use.*part.busy;
    if (busy <= most) continue;
    most = busy;
    result.bottleneck = part.name;
  }
  if (result.cycles > 0)
    result.bottleneck_share = std::min(1.0, static_cast<double>(most) / static_cast<double>(result.cycles));
  if (result.bottleneck_share < 0.5) result.bottleneck = "latency";
}

/// Adds counts as the engine does. Bytes are those that each operation moves.
void count(Result& result) {
  for (const OperationUse& use : result.operations) {
    const auto add = [&](const char* part, const char* item, const char* level, double number) {
      if (number != 0) result.counts.push_back({part, item, level, use.name, number});
    };
    add("arrays", "multiply-adds", "", use.multiply_adds);
    add("vector unit", "vector operations", "", use.vector_operations);
    add("memory", "memory bytes", "DRAM", static_cast<double>(use.load_bytes));
  }
  result.counts.push_back({"static", "static (ps)", {}, {}, result.seconds() * 1e12});
}

}  // namespace

Result result_of(const Costs& costs, const std::string& program, const std::string& device, std::int64_t hertz) {
  Result result;
  result.program = program;
  result.machine = device;
  result.source = "closed form";
  result.hertz = hertz;
  for (const Cost& cost : costs.rows) {
    if (!(cost.seconds > 0)) continue;
    const OperationUse& use = result.operations.emplace_back(use_of(cost, static_cast<double>(hertz), result.cycles));
    result.cycles = use.finish;
    result.memory_read_bytes += use.load_bytes;
    result.multiply_adds += use.multiply_adds;
    result.vector_operations += use.vector_operations;
  }
  count(result);
  name_bottleneck(result);
  result.approximations = {"closed form, operation after operation"};
  result.approximations.insert(result.approximations.end(), costs.notes.begin(), costs.notes.end());
  result.fidelity = {{"operations", "closed form"}};
  return result;
}

}  // namespace tilesim::analytic
