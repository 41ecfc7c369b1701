#include "tilesim/engine/memory/traffic.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/program/memory_plan.hpp"
#include "tilesim/program/reshaped.hpp"

namespace tilesim::engine {

namespace {
constexpr std::int64_t page = 4096;
constexpr std::size_t max_dims = 16;

/// Address of each tensor in the memory plan; empty if no tensors share bytes.
std::map<const program::Tensor*, std::int64_t> planned_addresses(const program::CompiledProgram& program,
                                                                 std::int64_t& end) {
  std::map<const program::Tensor*, std::int64_t> addresses;
  const auto& tensors = program.program().tensors;
  const bool some = std::ranges::any_of(
      tensors, [](const program::Tensor& tensor) { return tensor.role == program::Role::temporary; });
  const program::MemoryPlan plan = some ? program::plan_memory(program.program(), page) : program::MemoryPlan{};
  if (!some || !plan.shared) return addresses;
  for (const program::MemoryPlan::Allocation& place : plan.allocations)
    if (place.level == program::Level::memory) addresses[place.tensor] = place.address;
  end = plan.peak_bytes;
  return addresses;
}

}  // namespace

MemoryMap::MemoryMap(const program::CompiledProgram& program, bool shared) {
  std::int64_t next = 0;
  std::map<const program::Tensor*, std::int64_t> planned;
  if (shared) planned = planned_addresses(program, next);
  for (const program::CompiledTensor& tensor : program.tensors) {
    MappedTensor entry;
    entry.element_bits = bits(tensor.dtype);
    const int rank = static_cast<int>(tensor.shape.size());
    entry.order = tensor.tensor->minor_to_major;
    if (entry.order.empty())
      for (int axis = rank - 1; axis >= 0; --axis) entry.order.push_back(axis);
    entry.tile = rank >= 2 ? tensor.tensor->tile : Shape{};
    entry.padded = tensor.shape;
    if (entry.tile.size() == 2) {
      auto& minor = entry.padded[static_cast<std::size_t>(entry.order[0])];
      auto& second = entry.padded[static_cast<std::size_t>(entry.order[1])];
      minor = round_up(minor, entry.tile[1]);
      second = round_up(second, entry.tile[0]);
    }
    entry.strides.assign(static_cast<std::size_t>(rank), 1);
    std::int64_t stride = 1;
    for (int axis : entry.order) {
      entry.strides[static_cast<std::size_t>(axis)] = stride;
      stride *= std::max<std::int64_t>(1, entry.padded[static_cast<std::size_t>(axis)]);
    }
    const int own = static_cast<int>(entries.size());
    if (tensor.storage == own) {
      entry.bytes = round_up((stride * entry.element_bits + 7) / 8, page);
      const auto place = planned.find(tensor.tensor);
      entry.base = place == planned.end() ? next : place->second;
      if (place == planned.end()) next += entry.bytes;
    } else {
      entry.base = entries[static_cast<std::size_t>(tensor.storage)].base;
    }
    entries.push_back(std::move(entry));
  }
  end = next;
}

namespace {

struct Range { std::int64_t low, high; };

/// Region of each axis within the tensor, as an interval; empty if high < low.
bool axis_ranges(const program::CompiledTensor& tensor, const program::Cursor& cursor,
                 const program::CompiledTransfer& t, std::array<Range, max_dims>& ranges) {
  const std::size_t rank = t.at.size();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t at = cursor.value(t.at[axis]);
    ranges[axis] = {at, at};
  }
  for (const auto& dim : t.dims) {
    const std::int64_t extent = cursor.value(dim.extent);
    if (extent <= 0) return false;
    if (dim.axis < 0 || dim.through >= 0) continue;
    const std::int64_t reach = cursor.value(dim.step) * (extent - 1);
    (reach >= 0 ? ranges[static_cast<std::size_t>(dim.axis)].high : ranges[static_cast<std::size_t>(dim.axis)].low) +=
        reach;
  }
  for (std::size_t axis = 0; axis < rank; ++axis) {
    ranges[axis].low = std::max<std::int64_t>(ranges[axis].low, 0);
    ranges[axis].high = std::min(ranges[axis].high, tensor.shape[axis] - 1);
    if (ranges[axis].high < ranges[axis].low) return false;
  }
  return true;
}

/// Adds a dim of runs; adjacent runs become one.
void add_runs(Pattern& pattern, std::int64_t& run_bits, std::int64_t stride_bits, std::int64_t extent) {
  if (extent == 1) return;
  if (pattern.dims == 0 && stride_bits == run_bits) {
    run_bits *= extent;
    return;
  }
  const auto at = static_cast<std::size_t>(pattern.dims++);
  pattern.stride_bits[at] = stride_bits;
  pattern.extent[at] = extent;
}

/// Runs of a padded layout, which is stored tile by tile. If the region's rows begin or end inside tiles of several
/// rows, each row of a tile counts as an equal share, from the tile's beginning.
void tile_runs(Pattern& pattern, const MemoryMap::MappedTensor& entry, const std::array<std::int64_t, max_dims>& lows,
               const std::array<std::int64_t, max_dims>& extents, std::int64_t bytes) {
  const auto minor = static_cast<std::size_t>(entry.order[0]), second = static_cast<std::size_t>(entry.order[1]);
  const std::int64_t height = entry.tile[0], lanes = entry.tile[1], row_bits = lanes * entry.element_bits;
  const std::int64_t tile_bits = height * row_bits, across = extents[minor] / lanes;
  const std::int64_t down_bits = entry.strides[second] * height * entry.element_bits;
  const std::int64_t within = lows[second] % height, rows = extents[second];
  pattern.first_bits = lows[second] / height * down_bits + lows[minor] / lanes * tile_bits;
  std::int64_t run_bits = across * tile_bits, tiles = ceil_div(within + rows, height);
  if (tiles == 1 && rows < height) {
    pattern.first_bits += within * row_bits;
    run_bits = rows * row_bits;
    add_runs(pattern, run_bits, tile_bits, across);
  } else {
    add_runs(pattern, run_bits, down_bits, tiles);
  }
  std::int64_t runs = 1;
  for (std::size_t i = 2; i < entry.order.size(); ++i) {
    const auto axis = static_cast<std::size_t>(entry.order[i]);
    pattern.first_bits += lows[axis] * entry.strides[axis] * entry.element_bits;
    add_runs(pattern, run_bits, entry.strides[axis] * entry.element_bits, extents[axis]);
  }
  for (int d = 0; d < pattern.dims; ++d) runs *= pattern.extent[static_cast<std::size_t>(d)];
  pattern.run_bytes = std::max<std::int64_t>(1, ceil_div(bytes, runs));
  pattern.known = true;
}

/// Number of requested elements along an axis within the range.
std::int64_t asked(const program::Cursor& cursor, const program::CompiledTransfer& t, int axis, const Range& range) {
  std::int64_t step = 1;
  int dims = 0;
  for (const auto& dim : t.dims)
    if (dim.axis == axis) ++dims, step = std::abs(cursor.value(dim.step));
  return dims == 1 && step > 1 ? (range.high - range.low) / step + 1 : range.high - range.low + 1;
}

/// Padded layouts: full rows of lanes; full tiles if the region starts at a tile and ends with the tensor.
Moved tiled(const MemoryMap::MappedTensor& entry, std::int64_t base, const Shape& shape, const program::Cursor& cursor,
            const program::CompiledTransfer& t, const std::array<Range, max_dims>& ranges, Pattern* pattern) {
  Moved moved;
  std::int64_t elements = 1, offset = 0, useful = 1;
  const std::size_t rank = t.at.size();
  std::array<std::int64_t, max_dims> lows{}, extents{};
  moved.elements = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    Range r = ranges[axis];
    moved.elements *= r.high - r.low + 1;
    useful *= asked(cursor, t, static_cast<int>(axis), r);
    if (static_cast<int>(axis) == entry.order[0]) {
      const std::int64_t lanes = entry.tile[1];
      r.low = r.low / lanes * lanes;
      r.high = (r.high / lanes + 1) * lanes - 1;
    } else if (static_cast<int>(axis) == entry.order[1] && r.low % entry.tile[0] == 0 && r.high == shape[axis] - 1) {
      r.high = round_up(r.high + 1, entry.tile[0]) - 1;
    }
    lows[axis] = r.low;
    extents[axis] = r.high - r.low + 1;
    elements *= r.high - r.low + 1;
    offset += r.low * entry.strides[axis];
  }
  moved.bytes = (elements * entry.element_bits + 7) / 8;
  moved.padding = moved.bytes - (useful * entry.element_bits + 7) / 8;
  moved.address = base + entry.base + offset * entry.element_bits / 8;
  if (pattern) tile_runs(*pattern, entry, lows, extents, moved.bytes);
  return moved;
}

struct Walk { std::int64_t stride, extent; };

/// Rows selected by data, as element offsets from the region's start in row 0.
using Named = std::optional<std::vector<std::int64_t>>;

[[noreturn]] void outside(const program::CompiledProgram& program, const program::Cursor& cursor, int table, int axis,
                          int indices, std::int64_t position, std::int64_t index) {
  const program::CompiledTensor &own = program.tensors[at(table)], &names = program.tensors[at(indices)];
  throw UserError(
      {"an index lies outside its table",
       cursor.where() + ", element " + std::to_string(position) + " of " + names.name,
       std::to_string(index),
       "0 to " + std::to_string(own.shape[at(axis)] - 1) + ", along axis " + std::to_string(axis) + " of " + own.name,
       {}});
}

/// Rows selected by data; empty if some are unknown. Rows outside a tensor with a fill value move nothing.
Named named_rows(const program::CompiledProgram& program, const program::Cursor& cursor,
                 const program::CompiledTransfer& t, const MemoryMap::MappedTensor& entry,
                 const std::array<Range, max_dims>& ranges, const NamedRows& given) {
  const int table = cursor.tensor(t.tensor);
  std::vector<std::int64_t> rows{0};
  for (const auto& dim : t.dims) {
    if (dim.through < 0) continue;
    const int indices = cursor.tensor(dim.through);
    const std::span<const std::int64_t> values = given.values(indices);
    if (values.empty()) return std::nullopt;
    std::int64_t first = 0;
    for (std::size_t a = 0; a < dim.through_at.size(); ++a)
      first += cursor.value(dim.through_at[a]) * program.tensors[at(indices)].strides[a];
    const std::int64_t extent = cursor.value(dim.extent), step = cursor.value(dim.step);
    const Range range = ranges[at(dim.axis)];
    const std::int64_t size = program.tensors[at(table)].shape[at(dim.axis)];
    std::vector<std::int64_t> further;
    for (const std::int64_t before : rows)
      for (std::int64_t k = 0; k < extent; ++k) {
        const std::int64_t position = first + k * step;
        if (position < 0 || position >= std::ssize(values)) return std::nullopt;
        const std::int64_t index = values[at(position)];
        const bool fits = range.low + index >= 0 && range.high + index < size;
        if (!fits && !t.has_fill) outside(program, cursor, table, dim.axis, indices, position, index);
        if (fits || (range.low + index < size && range.high + index >= 0))
          further.push_back(before + std::max(index, -range.low) * entry.strides[at(dim.axis)]);
      }
    rows = std::move(further);
  }
  return rows;
}

/// Adds runs of rows along the second minor axis of a padded layout: a piece per tile. Returns false for other axes.
bool tiled_rows(Pattern& pattern, const MemoryMap::MappedTensor& entry, const program::CompiledTransfer& t,
                const std::array<Range, max_dims>& ranges, const std::vector<std::int64_t>& rows) {
  if (entry.tile.size() != 2) return false;
  const int minor = entry.order[0], second = entry.order[1];
  for (const auto& dim : t.dims)
    if (dim.axis >= 0 && dim.axis != minor && (dim.axis != second || dim.through < 0)) return false;
  const std::int64_t height = entry.tile[0], lanes = entry.tile[1], bits = entry.element_bits;
  std::int64_t before = 0;
  for (std::size_t axis = 0; axis < t.at.size(); ++axis)
    if (static_cast<int>(axis) != minor && static_cast<int>(axis) != second)
      before += ranges[axis].low * entry.strides[axis];
  pattern.first_bits = before * bits;
  pattern.run_bytes = round_up(lanes * bits / 8, pattern.burst);
  for (const std::int64_t elements : rows) {
    const std::int64_t row = ranges[at(second)].low + elements / entry.strides[at(second)];
    const std::int64_t start = row / height * height * entry.strides[at(second)] + row % height * lanes;
    for (std::int64_t tile = ranges[at(minor)].low / lanes; tile <= ranges[at(minor)].high / lanes; ++tile)
      pattern.rows_bits.push_back((start + tile * height * lanes) * bits);
  }
  return true;
}

/// Dense layouts: contiguous runs, each in full bursts.
Moved dense(const MemoryMap::MappedTensor& entry, std::int64_t base, const program::Cursor& cursor,
            const program::CompiledTransfer& t, const std::array<Range, max_dims>& ranges, std::int64_t burst,
            Pattern* pattern, const Named& rows) {
  std::array<Walk, max_dims> walks;
  std::array<int, max_dims> dims_on_axis{};
  for (const auto& dim : t.dims)
    if (dim.axis >= 0) ++dims_on_axis[static_cast<std::size_t>(dim.axis)];
  std::size_t count = 0;
  std::int64_t offset = 0, indirect = 1;
  for (std::size_t axis = 0; axis < t.at.size(); ++axis) offset += ranges[axis].low * entry.strides[axis];
  for (const auto& dim : t.dims) {
    if (dim.axis < 0) continue;
    const auto axis = static_cast<std::size_t>(dim.axis);
    std::int64_t extent = cursor.value(dim.extent);
    if (dim.through >= 0) {
      indirect *= extent;
      continue;
    }
    const std::int64_t step = std::abs(cursor.value(dim.step));
    if (step == 0) continue;
    if (dims_on_axis[axis] == 1) extent = (ranges[axis].high - ranges[axis].low) / step + 1;  // clipped to the tensor
    if (extent > 1 && count < max_dims) walks[count++] = {step * entry.strides[axis], extent};
  }
  std::sort(walks.begin(), walks.begin() + static_cast<std::ptrdiff_t>(count),
            [](const Walk& a, const Walk& b) { return a.stride < b.stride; });
  std::int64_t run = 1;
  std::size_t next = 0;
  for (; next < count && walks[next].stride == run; ++next) run *= walks[next].extent;
  std::int64_t runs = rows ? std::ssize(*rows) : indirect;
  bool aligned = true;
  const auto skewed = [&](std::int64_t elements) { return elements * entry.element_bits / 8 % burst != 0; };
  if (rows) aligned = std::none_of(rows->begin(), rows->end(), skewed);
  for (; next < count; ++next) {
    if (pattern) {
      const auto at = static_cast<std::size_t>(pattern->dims++);
      pattern->stride_bits[at] = walks[next].stride * entry.element_bits;
      pattern->extent[at] = walks[next].extent;
    }
    runs *= walks[next].extent;
    aligned &= !skewed(walks[next].stride);
  }
  Moved moved;
  moved.elements = run * runs;
  moved.address = base + entry.base + offset * entry.element_bits / 8;
  const std::int64_t bytes = (run * entry.element_bits + 7) / 8;
  const std::int64_t skew =
      aligned || runs == 1 ? moved.address % burst : (burst - 1) / 2;  // unequal alignments: mean skew
  moved.bytes = runs * round_up(skew + bytes, burst);
  moved.padding = moved.bytes - runs * bytes;
  if (pattern) {
    pattern->first_bits = offset * entry.element_bits;
    pattern->run_bytes = round_up(skew + bytes, burst);
    pattern->known = indirect == 1;
    if (rows) {
      pattern->known = true;
      if (pattern->dims == 0 && tiled_rows(*pattern, entry, t, ranges, *rows)) {
        moved.bytes = pattern->run_bytes * std::ssize(pattern->rows_bits);
        moved.padding = moved.bytes - runs * bytes;
      } else {
        for (const std::int64_t row : *rows) pattern->rows_bits.push_back(row * entry.element_bits);
      }
      pattern->rows_bytes = moved.bytes;
    }
  }
  return moved;
}

/// The box of an alias's transfer in the axes of its owner. `spanned`: number of elements in that box.
program::Box in_axes_of(const program::CompiledTensor& owner, const program::CompiledTensor& tensor,
                        std::span<const Range> ranges, std::int64_t& spanned) {
  program::Box box;
  for (const Range& range : ranges.first(tensor.shape.size()))
    box.low.push_back(range.low), box.high.push_back(range.high);
  if (owner.shape == tensor.shape) return box;
  box = program::reshaped(box, tensor.shape, owner.shape).box;
  spanned = 1;
  for (std::size_t axis = 0; axis < box.low.size(); ++axis) spanned *= box.high[axis] - box.low[axis] + 1;
  return box;
}

}  // namespace

Moved moved_bytes(const program::CompiledProgram& program, const MemoryMap& map, std::int64_t base,
                  const program::Cursor& cursor, const program::CompiledTransfer& transfer, std::int64_t burst_bytes,
                  Pattern* pattern, const NamedRows* given) {
  const auto id = static_cast<std::size_t>(cursor.tensor(transfer.tensor));
  const program::CompiledTensor& tensor = program.tensors[id];
  const MemoryMap::MappedTensor& entry = map.entries[id];
  require(transfer.at.size() <= max_dims && transfer.at.size() == tensor.shape.size(),
          "a transfer has too many axes or not those of its tensor");
  std::array<Range, max_dims> ranges;
  if (!axis_ranges(tensor, cursor, transfer, ranges)) return {};
  const bool indirect =
      std::any_of(transfer.dims.begin(), transfer.dims.end(), [](const auto& dim) { return dim.through >= 0; });
  if (pattern) pattern->base = base + entry.base, pattern->burst = burst_bytes;
  if (entry.tile.size() == 2 && !indirect) return tiled(entry, base, tensor.shape, cursor, transfer, ranges, pattern);
  const Named rows = indirect && given ? named_rows(program, cursor, transfer, entry, ranges, *given) : std::nullopt;
  Moved moved = dense(entry, base, cursor, transfer, ranges, burst_bytes, pattern, rows);
  if (pattern && indirect) pattern->known = rows.has_value();
  for (const auto& dim : transfer.dims) {  // the transfer also reads row indices
    if (dim.through < 0) continue;
    const DType dtype = program.tensors[static_cast<std::size_t>(cursor.tensor(dim.through))].dtype;
    const std::int64_t indices = packed_bytes(dtype, cursor.value(dim.extent));
    moved.index_bytes += round_up(indices, burst_bytes);
    moved.padding += round_up(indices, burst_bytes) - indices;
    if (pattern) pattern->indices = base + map.entries[at(cursor.tensor(dim.through))].base;
  }
  moved.bytes += moved.index_bytes;
  return moved;
}

OnChip on_chip_bytes(const program::CompiledProgram& program, const program::Cursor& cursor,
                     const program::CompiledTransfer& transfer, std::int64_t core) {
  const program::CompiledTensor& tensor = program.tensors[static_cast<std::size_t>(cursor.tensor(transfer.tensor))];
  std::array<Range, max_dims> ranges;
  if (!axis_ranges(tensor, cursor, transfer, ranges)) return {};
  std::int64_t elements = 1, spanned = 1;
  for (std::size_t axis = 0; axis < transfer.at.size(); ++axis) {
    elements *= asked(cursor, transfer, static_cast<int>(axis), ranges[axis]);
    spanned *= ranges[axis].high - ranges[axis].low + 1;
  }
  OnChip moved{packed_bytes(tensor.dtype, elements), {}};
  const program::CompiledTensor& owner = program.tensors[static_cast<std::size_t>(tensor.storage)];
  if (owner.tensor->parts.empty()) return moved;
  const program::Box box = in_axes_of(owner, tensor, ranges, spanned);
  for (const program::HeldPart& part : owner.tensor->parts) {
    if (part.core == core) continue;
    std::int64_t common = 1;
    for (std::size_t axis = 0; axis < part.low.size(); ++axis)
      common *= std::max<std::int64_t>(
          0, std::min(part.high[axis], box.high[axis]) - std::max(part.low[axis], box.low[axis]) + 1);
    if (common > 0)  // in proportion if the transfer takes only some elements of the range
      moved.held.emplace_back(part.core, packed_bytes(tensor.dtype, ceil_div(common * elements, spanned)));
  }
  // Cores that read the same begin with different owners: the next higher number first, cyclically.
  const auto next =
      std::find_if(moved.held.begin(), moved.held.end(), [&](const auto& one) { return one.first > core; });
  std::rotate(moved.held.begin(), next, moved.held.end());
  return moved;
}

}  // namespace tilesim::engine
