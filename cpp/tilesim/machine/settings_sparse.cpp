// Settings of multipliers that skip zeros, in the place of an array's rows and columns.
#include <algorithm>
#include <array>
#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings.hpp"
#include "tilesim/machine/settings_text.hpp"

namespace tilesim {

namespace {

constexpr std::array<std::string_view, 3> flows{"inner", "outer", "row"};
using SparseMember = std::int64_t SparseSpec::*;

Setting of_sparse(const char* key, std::int64_t low, std::string description, SparseMember member) {
  constexpr std::int64_t high = 1 << 16;
  return {std::string("core.array.sparse.") + key,
          SettingUnit::count,
          static_cast<double>(low),
          static_cast<double>(high),
          std::move(description),
          {},
          [member](const Machine& m) { return Json(m.core.array.sparse.*member); },
          [member, low](Machine& m, const Json& json) {
            const std::int64_t value = json.as_int();
            check_range(json, static_cast<double>(value), static_cast<double>(low), static_cast<double>(high),
                        SettingUnit::count);
            m.core.array.sparse.*member = value;
          },
          true};
}

[[noreturn]] void sparse_fault(const char* what, const char* place, std::string value, std::string allowed) {
  throw UserError({what, place, std::move(value), std::move(allowed), {}});
}

}  // namespace

SparseFlow sparse_flow_named(std::string_view text) {
  const auto found = std::find(flows.begin(), flows.end(), text);
  if (found != flows.end()) return static_cast<SparseFlow>(found - flows.begin());
  const std::vector<std::string> known(flows.begin(), flows.end());
  throw UserError({"unknown dataflow", "dataflow", "'" + std::string(text) + "'", join(known), nearest(text, known)});
}

std::string_view flow_name(SparseFlow flow) { return flows[static_cast<std::size_t>(flow)]; }

std::vector<Setting> sparse_settings() {
  std::vector<Setting> all;
  all.push_back(of_sparse("multipliers", 0, "multipliers that skip zeros, instead of rows and columns; 0: none",
                          &SparseSpec::multipliers));
  all.push_back(of_sparse("read_ports", 1,
                          "words read per cycle; inner: each port serves a block of adjacent multipliers",
                          &SparseSpec::read_ports));
  all.push_back(of_sparse("write_ports", 1, "sums written per cycle", &SparseSpec::write_ports));
  all.push_back(
      {"core.array.sparse.dataflow",
       SettingUnit::text,
       0,
       0,
       "inner: stationary vectors, streamed ones; outer: columns by rows; row: rows of b by elements of a",
       {flows.begin(), flows.end()},
       [](const Machine& m) { return Json(std::string(flow_name(m.core.array.sparse.dataflow))); },
       [](Machine& m, const Json& json) { m.core.array.sparse.dataflow = sparse_flow_named(json.as_string()); },
       true});
  all.push_back(
      of_sparse("lanes_a", 0, "outer: lanes for elements of a column of a; 0: any pairs", &SparseSpec::lanes_a));
  all.push_back(of_sparse("lanes_b", 0, "outer: lanes for elements of a row of b; 0: any pairs", &SparseSpec::lanes_b));
  all.push_back(of_sparse("tile_m", 0, "outer: rows of results that are summed in place; 0: sums are merged",
                          &SparseSpec::tile_m));
  all.push_back(of_sparse("tile_n", 0, "outer: columns of results that are summed in place; 0: sums are merged",
                          &SparseSpec::tile_n));
  all.push_back(of_sparse("accumulators", 0, "sums that fit on the core; more spill to memory and return; 0: all fit",
                          &SparseSpec::accumulators));
  all.push_back(of_sparse("segment", 0,
                          "row: elements of b fetched at once, one cycle each even if all are zero; 0: none",
                          &SparseSpec::segment));
  return all;
}

void SparseSpec::check() const {
  const std::array<std::pair<const char*, std::int64_t>, 3> positive{
      {{"multipliers", multipliers}, {"read_ports", read_ports}, {"write_ports", write_ports}}};
  for (const auto& [key, value] : positive)
    if (value < 1) sparse_fault("a setting of a sparse core is out of range", key, std::to_string(value), "at least 1");
  const std::array<std::pair<const char*, std::int64_t>, 6> others{{{"lanes_a", lanes_a},
                                                                    {"lanes_b", lanes_b},
                                                                    {"tile_m", tile_m},
                                                                    {"tile_n", tile_n},
                                                                    {"accumulators", accumulators},
                                                                    {"segment", segment}}};
  for (const auto& [key, value] : others)
    if (value < 0) sparse_fault("a setting of a sparse core is out of range", key, std::to_string(value), "at least 0");
  constexpr std::int64_t most = 1 << 16;
  if (dataflow == SparseFlow::inner &&
      (multipliers < 2 || multipliers > most || !std::has_single_bit(static_cast<std::uint64_t>(multipliers))))
    sparse_fault("the adder tree of a sparse core needs a power of two", "multipliers", std::to_string(multipliers),
                 "2, 4, 8 .. " + std::to_string(most));
  if (dataflow == SparseFlow::inner && multipliers % read_ports != 0)
    sparse_fault("every read port of a sparse core must serve the same number of multipliers", "read_ports",
                 std::to_string(read_ports), "a divisor of " + std::to_string(multipliers));
  if ((lanes_a == 0) != (lanes_b == 0) || (lanes_a > 0 && lanes_a * lanes_b != multipliers))
    sparse_fault("the lanes of an outer product differ from its multipliers", "lanes_a, lanes_b",
                 std::to_string(lanes_a) + ", " + std::to_string(lanes_b),
                 "0, 0 or a product of " + std::to_string(multipliers));
  if ((tile_m == 0) != (tile_n == 0))
    sparse_fault("a tile of sums needs both extents", "tile_m, tile_n",
                 std::to_string(tile_m) + ", " + std::to_string(tile_n), "both 0, or both at least 1");
}

void check_sparse(const Machine& machine, const std::string& place) {
  const auto look = [&](const CoreSpec& core, const std::string& at) {
    if (!core.array.sparse.present() || core.array.count == 0) return;
    try {
      core.array.sparse.check();
    } catch (const UserError& error) {
      const UserError::Parts& parts = error.parts();
      throw UserError({parts.what, at + "core.array.sparse." + parts.place, parts.value, parts.allowed, {}});
    }
  };
  look(machine.core, place.empty() ? place : place + ": ");
  for (const CoreSort& sort : machine.sorts) look(sort.core, "cores." + sort.name + ".");
}

}  // namespace tilesim
