#include "tilesim/isa/state/marks.hpp"

#include <string>

#include "tilesim/isa/state/hart.hpp"
#include "tilesim/isa/state/npu.hpp"

namespace tilesim::isa {

namespace {

constexpr std::size_t deepest = 64, most_regions = 1 << 16;

[[noreturn]] void unbalanced(const Op& op, const std::string& text) { throw Trap{Cause::illegal, op.bits, text}; }

}  // namespace

Counters& Counters::operator+=(const Counters& more) {
  instructions += more.instructions, vector_instructions += more.vector_instructions;
  element_operations += more.element_operations, bytes_moved += more.bytes_moved, cycles += more.cycles;
  operations += more.operations, bytes_loaded += more.bytes_loaded, bytes_stored += more.bytes_stored;
  return *this;
}

Counters Counters::operator-(const Counters& less) const {
  return {instructions - less.instructions,
          vector_instructions - less.vector_instructions,
          element_operations - less.element_operations,
          bytes_moved - less.bytes_moved,
          cycles - less.cycles,
          operations - less.operations,
          bytes_loaded - less.bytes_loaded,
          bytes_stored - less.bytes_stored};
}

/// Counters so far; without the last issued instruction unless `last`.
Counters Marks::now(const Hart& hart, bool last) const {
  Counters all;
  all.instructions = hart.instret - (last ? 0 : 1);
  all.vector_instructions = hart.vector_instructions, all.element_operations = hart.element_operations;
  if (hart.npu != nullptr) all.bytes_moved = hart.npu->moves.bytes;
  if (source != nullptr) source->count(all, last);
  return all;
}

void Marks::begin(Hart& hart, const Op& op, std::uint16_t number) {
  if (open_.size() == deepest) unbalanced(op, "more than 64 regions lie within each other");
  const std::int32_t within = open_.empty() ? -1 : open_.back().region;
  std::size_t place = 0;
  while (place < regions_.size() && (regions_[place].number != number || regions_[place].within != within)) ++place;
  if (place == most_regions) unbalanced(op, "more than 65,536 regions within different ones");
  if (place == regions_.size()) regions_.push_back({number, within, 0, false, {}});
  ++regions_[place].times;
  open_.push_back({static_cast<std::int32_t>(place), now(hart, true)});
}

void Marks::end(Hart& hart, const Op& op, std::uint16_t number) {
  if (open_.empty()) unbalanced(op, "region " + std::to_string(number) + " ends, but no region is open");
  Region& region = regions_[static_cast<std::size_t>(open_.back().region)];
  if (region.number != number)
    unbalanced(op, "region " + std::to_string(number) + " ends, but " + std::to_string(region.number) + " began last");
  region.in += now(hart, false) - open_.back().since;
  open_.pop_back();
}

std::vector<Marks::Region> Marks::regions(const Hart& hart) const {
  std::vector<Region> all = regions_;
  for (const Open& open : open_) {
    Region& region = all[static_cast<std::size_t>(open.region)];
    region.open = true;
    region.in += now(hart, true) - open.since;
  }
  return all;
}

}  // namespace tilesim::isa
