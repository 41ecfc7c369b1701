#include "tilesim/report/turns.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tilesim/base/units.hpp"

namespace tilesim {

namespace {

constexpr std::int64_t second = 1'000'000'000'000;  ///< in picoseconds
constexpr auto idle = static_cast<std::size_t>(UnitState::idle), busy = static_cast<std::size_t>(UnitState::busy);

std::int64_t cycles_of(std::int64_t picoseconds, std::int64_t hertz) {
  return static_cast<std::int64_t>((static_cast<Int128>(picoseconds) * hertz + second - 1) / second);
}

std::int64_t total(const UnitUse& use) {
  return std::accumulate(std::begin(use.cycles), std::end(use.cycles), std::int64_t{0});
}

}  // namespace

UnitUse& Turns::unit(const UnitUse& like) {
  const auto [known, fresh] = units_.try_emplace(like.unit, sum_.units.size());
  if (fresh) {
    UnitUse use;
    use.unit = like.unit;
    use.kind = like.kind;
    use.core = like.core;
    sum_.units.push_back(std::move(use));
  }
  return sum_.units[known->second];
}

void Turns::add_unit(const UnitUse& use, std::int64_t during) {
  UnitUse& known = unit(use);
  known.cycles[idle] += sum_.cycles - total(known);
  for (int state = 0; state < unit_state_count; ++state) known.cycles[state] += use.cycles[state];
  known.cycles[idle] += during - total(use);
  known.operations += use.operations;
  known.bytes += use.bytes;
  known.work += use.work;
}

/// Adds an operation; rows of the same name in several parts are summed.
void Turns::add_operation(OperationUse use) {
  const auto [place, fresh] = operations_.try_emplace(use.name, sum_.operations.size());
  if (fresh) {
    sum_.operations.push_back(std::move(use));
    return;
  }
  OperationUse& known = sum_.operations[place->second];
  for (const auto field : {&OperationUse::count, &OperationUse::cycles, &OperationUse::exclusive,
                           &OperationUse::load_bytes, &OperationUse::store_bytes, &OperationUse::array_busy,
                           &OperationUse::vector_busy, &OperationUse::memory_busy, &OperationUse::launch})
    known.*field += use.*field;
  known.multiply_adds += use.multiply_adds;
  known.vector_operations += use.vector_operations;
  known.finish = use.finish;
}

void Turns::add_interval(const std::string& unit, const std::string& label, std::int64_t start, std::int64_t finish) {
  const auto [place, fresh] = labels_.try_emplace(label, sum_.labels.size());
  if (fresh) sum_.labels.push_back(label);
  sum_.intervals.push_back(
      {static_cast<std::int32_t>(units_.at(unit)), static_cast<std::int32_t>(place->second), start, finish});
}

void Turns::add_energy(const Result& part) {
  for (const EnergyPart& one : part.energy) {
    const auto [place, fresh] = energy_.try_emplace(one.part, sum_.energy.size());
    if (fresh) sum_.energy.push_back({one.part, 0, 0, one.known});
    sum_.energy[place->second].count += one.count;
    sum_.energy[place->second].femtojoules += one.femtojoules;
  }
}

void Turns::part(const Result& part) {
  for (const auto field : {&Result::tile_operations, &Result::events, &Result::memory_read_bytes,
                           &Result::memory_written_bytes, &Result::network_bytes, &Result::memory_local_bytes,
                           &Result::memory_remote_bytes, &Result::memory_merged_bytes, &Result::memory_forwarded_bytes,
                           &Result::memory_padding_bytes, &Result::on_chip_bytes, &Result::intervals_dropped})
    sum_.*field += part.*field;
  sum_.multiply_adds += part.multiply_adds;
  sum_.vector_operations += part.vector_operations;
  for (const UnitUse& use : part.units) add_unit(use, part.cycles);
  for (OperationUse use : part.operations) {
    use.start += sum_.cycles;
    use.finish += sum_.cycles;
    add_operation(std::move(use));
  }
  add_energy(part);
  for (const Count& count : part.counts) counts_.add(count);
  for (const Interval& one : part.intervals)
    add_interval(part.units.at(static_cast<std::size_t>(one.unit)).unit,
                 part.labels.at(static_cast<std::size_t>(one.label)), one.start + sum_.cycles,
                 one.finish + sum_.cycles);
  const auto bound = std::nearbyint(static_cast<double>(part.cycles) * part.bottleneck_share);
  if (part.bottleneck == "network") network_ += static_cast<std::int64_t>(bound);
  if (part.bottleneck == "dma") dma_ += static_cast<std::int64_t>(bound);
  for (const std::string& note : part.approximations)
    if (std::ranges::find(sum_.approximations, note) == sum_.approximations.end()) sum_.approximations.push_back(note);
  if (!begun_) sum_.fidelity = part.fidelity, sum_.hashes = part.hashes;
  begun_ = true;
  sum_.cycles += part.cycles;
}

void Turns::elsewhere(const Elsewhere& what) {
  const std::int64_t cycles = cycles_of(what.picoseconds, sum_.hertz), start = sum_.cycles;
  UnitUse use;
  use.unit = use.kind = what.unit;
  use.cycles[busy] = cycles;
  use.operations = 1;
  use.bytes = what.load_bytes + what.store_bytes;
  use.work = what.work;
  add_unit(use, cycles);
  (what.unit == "host" ? host_ : link_) += cycles;
  OperationUse row;
  row.name = what.name;
  if (!what.operation.empty()) row.operation = {what.operation};
  row.count = 1;
  row.start = start;
  row.finish = start + cycles;
  row.cycles = row.exclusive = cycles;
  row.load_bytes = what.load_bytes;
  row.store_bytes = what.store_bytes;
  row.bound = what.unit;
  row.bound_share = 1;
  add_operation(std::move(row));
  const std::string memory = what.unit == "host" ? "host memory" : "link";
  const auto bytes = static_cast<double>(what.load_bytes + what.store_bytes);
  const auto took = static_cast<double>(what.picoseconds);
  for (const Count& count : {Count{what.unit, what.unit + " operations", {}, what.name, what.work},
                             Count{what.unit, what.unit + " bytes", memory, what.name, bytes},
                             Count{what.unit, what.unit + " (ps)", {}, what.name, took}})
    if (count.number != 0) counts_.add(count);
  if (record_) add_interval(what.unit, what.name, start, start + cycles);
  sum_.cycles += cycles;
}

/// Sets the bottleneck: the part that is busy longest, if it is busy for half of the time.
void Turns::name_bottleneck() {
  const auto longest = [&](const char* kind) {
    std::int64_t most = 0;
    for (const UnitUse& use : sum_.units)
      if (use.kind == kind) most = std::max(most, use.cycles[busy]);
    return most;
  };
  std::int64_t launch = 0;
  for (const OperationUse& use : sum_.operations) launch += use.launch;
  struct BoundCandidate {
    const char* name;
    std::int64_t cycles;
  };
  const BoundCandidate parts[] = {{"compute", longest("array")},
                                  {"vector", longest("vector")},
                                  {"memory", longest("channel")},
                                  {"network", network_},
                                  {"dma", dma_},
                                  {"launch", launch},
                                  {"host", host_},
                                  {"link", link_}};
  const BoundCandidate& most = *std::ranges::max_element(parts, {}, &BoundCandidate::cycles);
  const double share =
      sum_.cycles > 0 ? std::min(1.0, static_cast<double>(most.cycles) / static_cast<double>(sum_.cycles)) : 0;
  sum_.bottleneck = share >= 0.5 ? most.name : "latency";
  sum_.bottleneck_share = share;
}

Result Turns::finish() {
  for (UnitUse& use : sum_.units) use.cycles[idle] += sum_.cycles - total(use);
  name_bottleneck();
  sum_.counts = counts_.take();
  const EnergyRate unknown[] = {{"host (ps)", 0, false}, {"link bytes", 0, false}};
  for (EnergyPart& part : energy_of(sum_.counts, unknown)) sum_.energy.push_back(std::move(part));
  return std::move(sum_);
}

}  // namespace tilesim
