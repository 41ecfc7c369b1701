#include "tilesim/tile/around_array.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tilesim/base/shape.hpp"

namespace tilesim {

namespace {

constexpr std::int64_t sum_bytes = 4, most_registers = 4;  // bytes of a sum; registers of sums per instruction

/// Instructions of a kernel per register of rows, of sums, and of weights: all, and those of the vector unit.
struct Instructions { double all, vector; };
constexpr Instructions of_rows{5, 2}, of_sums{6, 2}, of_added_sums{8, 4}, of_weights{5, 2};

/// A register, its beats at a port, and the rows that it holds.
class Registers {
 public:
  explicit Registers(const Share& machine) : isa_(machine.core.isa) {
    const VectorSpec& vector = machine.core.vector;
    const std::int64_t bits = isa_.vlen > 0 ? isa_.vlen : 32 * vector.lanes * vector.sublanes;
    bytes_ = std::max<std::int64_t>(1, bits / 8);
  }
  std::int64_t rows(std::int64_t row_bytes, std::int64_t registers = 1) const {
    return std::max<std::int64_t>(1, registers * bytes_ / std::max<std::int64_t>(1, row_bytes));
  }
  double beats(std::int64_t bytes) const {
    return static_cast<double>(std::max<std::int64_t>(1, ceil_div(bytes, bytes_)));
  }
  double port_cycles(std::int64_t bytes) const {
    const std::int64_t port = isa_.port_bytes > 0 ? isa_.port_bytes : bytes_;
    return beats(bytes) * std::max(1.0, static_cast<double>(bytes_) / static_cast<double>(port));
  }

 private:
  const IsaSpec& isa_;
  std::int64_t bytes_ = 1;
};

std::int64_t row_bytes(std::int64_t elements, DType dtype) {
  return std::max<std::int64_t>(1, ceil_div(elements * bits(dtype), 8));
}

/// Sum of `each` over groups of `chunk` rows; the last group may be shorter.
template <class Each>
double over_chunks(std::int64_t rows, std::int64_t chunk, Each each) {
  const std::int64_t whole = rows / chunk, rest = rows % chunk;
  return static_cast<double>(whole) * each(chunk) + (rest > 0 ? each(rest) : 0.0);
}

/// The same if groups also end at the end of a run.
template <class Each>
double over_runs(std::int64_t rows, std::int64_t run, std::int64_t chunk, Each each) {
  return over_chunks(rows, run, [&](std::int64_t together) { return over_chunks(together, chunk, each); });
}

}  // namespace

double AroundArray::longest() const { return std::max({load, store, vector, issue}); }

const char* AroundArray::limit() const {
  const std::array<std::pair<double, const char*>, 4> all{
      {{load, "load port"}, {store, "store port"}, {vector, "vector"}, {issue, "issue"}}};
  return std::ranges::max_element(all, {}, [](const auto& unit) { return unit.first; })->second;
}

AroundArray around_array(const Share& machine, const Descriptor& d, bool adds, bool weights) {
  const ArraySpec& array = machine.core.array;
  const IsaSpec& isa = machine.core.isa;
  const Registers registers(machine);
  const bool by_vector = !sums_in_arrays(isa, machine.core.scratchpad);
  const std::int64_t moving = d.stationary_a ? d.n : d.m;
  const DType moving_type = d.stationary_a ? d.second : d.dtype, kept_type = d.stationary_a ? d.dtype : d.second;
  const std::int64_t row = row_bytes(array.rows, moving_type), sums = array.columns * sum_bytes,
                     kept = row_bytes(array.columns, kept_type);
  const std::int64_t chunk = std::min(registers.rows(row), registers.rows(sums, most_registers));
  const std::int64_t run = !d.stationary_a && d.run > 0 ? std::min(d.run, moving) : moving;
  const auto over_rows = [&](auto each) { return over_runs(moving, run, chunk, each); };
  const double chunks = over_rows([](std::int64_t) { return 1.0; });
  AroundArray cycles;
  Instructions issued{of_rows.all * chunks, of_rows.vector * chunks};
  const auto also = [&](const Instructions& each, double times) {
    issued.all += each.all * times, issued.vector += each.vector * times;
  };
  cycles.load = over_rows([&](std::int64_t rows) { return registers.port_cycles(rows * row); });
  if (weights) {
    const std::int64_t together = std::min(array.rows, registers.rows(kept));
    cycles.load +=
        over_chunks(array.rows, together, [&](std::int64_t rows) { return registers.port_cycles(rows * kept); });
    also(of_weights, static_cast<double>(ceil_div(array.rows, together)));
  }
  if (by_vector) {
    cycles.store = over_rows([&](std::int64_t rows) { return registers.port_cycles(rows * sums); });
    also(adds ? of_added_sums : of_sums, chunks);
  }
  if (by_vector && adds) {
    cycles.load += cycles.store;
    const double cost = is_float(d.dtype) ? machine.core.vector.multiply : machine.core.vector.simple;
    cycles.vector = cost / static_cast<double>(machine.core.vector.issue) *
                    over_rows([&](std::int64_t rows) { return registers.beats(rows * sums); });
  }
  cycles.load /= static_cast<double>(isa.loads), cycles.store /= static_cast<double>(isa.stores);
  cycles.issue =
      std::max(issued.all / static_cast<double>(isa.width), issued.vector / static_cast<double>(isa.dispatch));
  return cycles;
}

std::int64_t array_start(const Share& machine) {
  constexpr std::int64_t ways = 4;  // issue, dispatch, a beat, the queue
  return sums_in_arrays(machine.core.isa, machine.core.scratchpad) ? 0 : machine.core.isa.load_latency + ways;
}

std::int64_t array_end(const Share& machine, bool adds) {
  constexpr std::int64_t beats = 2;  // taken, stored
  if (sums_in_arrays(machine.core.isa, machine.core.scratchpad)) return 0;
  return beats + (adds ? machine.core.vector.latency : 0);
}

}  // namespace tilesim
