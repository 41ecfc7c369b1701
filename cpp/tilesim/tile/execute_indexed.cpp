// Executes permute, indexed and sort.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "tilesim/base/error.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim {

namespace {

/// Copies elements bitwise; reads all of them before it writes any.
void move_elements(const TileView& in, const TileView& out) {
  const auto bytes = static_cast<std::size_t>(host_bytes(in.dtype));
  std::vector<std::byte> all;
  for_each_offset(in.dims.data(), in.dims.size(), [&](std::int64_t offset) {
    const std::byte* at = in.data + offset * static_cast<std::int64_t>(bytes);
    all.insert(all.end(), at, at + bytes);
  });
  const std::byte* next = all.data();
  for_each_offset(out.dims.data(), out.dims.size(), [&](std::int64_t offset) {
    std::memcpy(out.data + offset * static_cast<std::int64_t>(bytes), next, bytes);
    next += bytes;
  });
}

/// Combines one row of a scatter with the existing row, or converts it.
void combine_row(const TileView& in, const TileView& out, const std::optional<Combiner>& combiner) {
  VectorCompute copy;
  copy.inputs = {in};
  for (const ViewDim& dim : in.dims) copy.extents.push_back(dim.extent);
  copy.nodes = {{.op = VectorNode::Op::input, .dtype = in.dtype}};
  VectorOutput output;
  output.view = out;
  output.accumulate = combiner.has_value();
  output.combiner = combiner.value_or(Combiner::add);
  copy.outputs = {output};
  execute(copy);
}

}  // namespace

void execute(const Permute& permute) {
  if (permute.in.dtype == permute.out.dtype) return move_elements(permute.in, permute.out);
  combine_row(permute.in, permute.out, {});
}

void execute(const Indexed& indexed) {
  const std::int64_t rows = indexed.index.dims.at(0).extent;
  const std::optional<Combiner> combiner = indexed.scatter ? indexed.combiner : std::nullopt;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t row = 0;
    read_run(indexed.index.data + i * indexed.index.dims[0].stride * host_bytes(indexed.index.dtype),
             indexed.index.dtype, 1, 1, &row);
    const TileView& picked = indexed.scatter ? indexed.out : indexed.in;
    if (row < 0 || row >= picked.dims[0].extent)
      throw UserError({"an index lies outside the tile",
                       "indexed",
                       std::to_string(row),
                       "0 to " + std::to_string(picked.dims[0].extent - 1),
                       {}});
    const auto slice = [](const TileView& view, std::int64_t at) {
      TileView result = view;
      result.data += at * view.dims[0].stride * host_bytes(view.dtype);
      result.dims.erase(result.dims.begin());
      return result;
    };
    const TileView from = slice(indexed.in, indexed.scatter ? i : row),
                   to = slice(indexed.out, indexed.scatter ? row : i);
    if (combiner || from.dtype != to.dtype)
      combine_row(from, to, combiner);
    else
      move_elements(from, to);
  }
}

namespace {

/// NaN is larger than every number and equals NaN, as in the reference.
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a != a || b != b) return a == a;
  return a < b;
}

std::vector<std::int64_t> starts(const TileView& view) {
  std::vector<std::int64_t> result;
  for_each_offset(view.dims.data(), view.dims.size() - 1, [&](std::int64_t offset) { result.push_back(offset); });
  return result;
}

template <class T>
void sort_rows(const Sort& sort) {
  const std::int64_t n = sort.in.dims.back().extent, k = sort.keys.dims.back().extent;
  const std::vector<std::int64_t> in_at = starts(sort.in), key_at = starts(sort.keys),
                                  place_at = starts(sort.positions);
  std::vector<T> row(static_cast<std::size_t>(n)), sorted(static_cast<std::size_t>(k));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  const auto at = [&](std::int64_t i) { return row[static_cast<std::size_t>(i)]; };
  // u64 is stored in a signed type: flipping the highest bit gives the unsigned order
  const auto turn = [&](T& key) {
    if constexpr (std::is_integral_v<T>)
      if (sort.in.dtype == DType::u64) key ^= std::numeric_limits<T>::min();
  };
  for (std::size_t r = 0; r < in_at.size(); ++r) {
    read_run(sort.in.data + in_at[r] * host_bytes(sort.in.dtype), sort.in.dtype, sort.in.dims.back().stride, n,
             row.data());
    for (T& key : row) turn(key);
    std::iota(order.begin(), order.end(), 0);
    const auto before = [&](std::int64_t a, std::int64_t b) {
      const bool first = sort.descending ? less(at(b), at(a)) : less(at(a), at(b));
      const bool second = sort.descending ? less(at(a), at(b)) : less(at(b), at(a));
      return first || (!second && a < b);
    };
    std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
    for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = at(order[i]);
    for (T& key : sorted) turn(key);
    write_run(sorted.data(), sort.keys.data + key_at[r] * host_bytes(sort.keys.dtype), sort.keys.dtype,
              sort.keys.dims.back().stride, k);
    write_run(order.data(), sort.positions.data + place_at[r] * host_bytes(sort.positions.dtype), sort.positions.dtype,
              sort.positions.dims.back().stride, k);
  }
}

}  // namespace

void execute(const Sort& sort) {
  if (sort.in.dtype == DType::f64)
    sort_rows<double>(sort);
  else if (is_float(sort.in.dtype))
    sort_rows<float>(sort);
  else
    sort_rows<std::int64_t>(sort);
}

}  // namespace tilesim
