// Counts events that consume energy, and adds the machine's energy table; the report multiplies both.
#include "tilesim/engine/results/results.hpp"

namespace tilesim::engine {

namespace {

/// Counts with their energy table.
struct Book {
  const Programs& programs;
  Result& result;
  std::vector<EnergyRate> table = {};

  /// Adds a count, split by kernel; the remainder belongs to no kernel or to running kernels.
  template <class Number>
  void count(const Count& total, const Number& number) {
    std::vector<Caused> caused;
    for (const ProgramRow& program : programs)
      for (const KernelRow& kernel : program.kernels)
        caused.push_back({kernel.kernel, static_cast<double>(number(kernel.counters))});
    add_counts(result.counts, total, caused);
  }
  /// Sets the energy of an item in femtojoules; 0: not given. `part`: row whose energy includes this item.
  void rate(const char* item, std::int64_t femtojoules, const char* part = "") {
    table.push_back({item, static_cast<double>(femtojoules), femtojoules != 0, true, part});
  }
};

void add_computes(const RunState& run, Book& book) {
  const EnergySpec& energy = run.chip.machine.energy;
  double cells = 0;
  for (const Unit& unit : run.units.all()) cells += unit.array_multiply_adds;
  const double useful = book.result.multiply_adds;
  book.count({"arrays", "multiply-adds", {}, {}, useful}, [](const KernelCounters& k) { return k.multiply_adds; });
  book.count({"arrays", "padded multiply-adds", {}, {}, cells - useful},
             [](const KernelCounters& k) { return k.array_multiply_adds - k.multiply_adds; });
  book.count({"vector unit", "vector operations", {}, {}, book.result.vector_operations},
             [](const KernelCounters& k) { return k.vector_operations; });
  book.rate("multiply-adds", energy.mac);  // cells that multiply zeros count as free
  book.rate("vector operations", energy.vector_op);
}

/// Counts the bytes that cores request from a level: those of elements, and padding to bursts and layouts.
void add_asked(const RunState& run, Book& book, const char* part, const std::string& item, const char* level) {
  const Totals& totals = run.totals;
  const auto asked = static_cast<double>(totals.read_bytes + totals.written_bytes);
  const auto padding = static_cast<double>(totals.padding_bytes);
  book.count({part, item, level, {}, asked - padding},
             [](const KernelCounters& k) { return k.load_bytes + k.store_bytes - k.padding_bytes; });
  book.count({part, "padded " + item, level, {}, padding}, [](const KernelCounters& k) { return k.padding_bytes; });
}

void add_memory(const RunState& run, Book& book) {
  Result& result = book.result;
  const bool cached = !run.memory.caches().empty();
  if (cached) {
    const std::int64_t below = result.memory_read_bytes + result.memory_written_bytes;
    add_asked(run, book, "cache", "cache bytes", "cache");
    book.count({"memory", "memory bytes", "DRAM", {}, static_cast<double>(below)},
               [](const KernelCounters& k) { return k.below_bytes; });
  } else {
    add_asked(run, book, "memory", "memory bytes", "DRAM");
  }
  // The energies of a DRAM part count its commands. The machine's energy per byte would count the same events again.
  const std::vector<MemorySystem::Energy> commands = run.memory.port().energy();
  for (const MemorySystem::Energy& one : commands) {
    result.counts.push_back({"memory", one.part, "DRAM", {}, static_cast<double>(one.count)});
    book.table.push_back({one.part, static_cast<double>(one.each)});
  }
  if (!commands.empty()) return;
  book.rate("memory bytes", run.chip.machine.energy.memory_byte);
  book.rate("padded memory bytes", run.chip.machine.energy.memory_byte, "memory bytes");
}

}  // namespace

void add_energy(const RunState& run, const Programs& programs, Result& result) {
  const EnergySpec& energy = run.chip.machine.energy;
  Book book{programs, result};
  add_computes(run, book);
  constexpr const char* dma = "scratchpad bytes (DMA side)";
  std::int64_t scratchpad = 0;
  for (const Unit& unit : run.units.all())
    if (unit.kind == UnitKind::load || unit.kind == UnitKind::store) scratchpad += unit.bytes;
  scratchpad += run.totals.on_chip_bytes;  // one read and one write
  book.count({"scratchpad", dma, "scratchpad", {}, static_cast<double>(scratchpad)},
             [](const KernelCounters& k) { return k.load_bytes + k.store_bytes + 2 * k.on_chip_bytes; });
  book.rate(dma, energy.scratchpad_byte);
  add_memory(run, book);
  book.count({"network", "network bytes", {}, {}, static_cast<double>(result.network_bytes)},
             [](const KernelCounters& k) { return k.load_bytes + k.store_bytes + k.send_bytes; });
  book.rate("network bytes", energy.network_byte);
  result.counts.push_back({"static", "static (ps)", {}, {}, result.seconds() * 1e12});
  const auto microwatts = static_cast<double>(energy.static_microwatts);
  book.table.push_back({"static (ps)", microwatts * 1e-3, microwatts != 0, false});
  result.energy = energy_of(result.counts, book.table);
}

}  // namespace tilesim::engine
