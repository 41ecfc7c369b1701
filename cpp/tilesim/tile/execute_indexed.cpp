// Meaning of permute, indexed and sort.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim {

void execute(const Permute& permute) {
  VectorCompute copy;
  for (const ViewDim& dim : permute.in.dims) copy.extents.push_back(dim.extent);
  copy.inputs = {permute.in};
  copy.nodes = {{.op = VectorNode::Op::input, .dtype = permute.in.dtype}};
  VectorOutput output;
  output.view = permute.out;
  copy.outputs = {output};
  execute(copy);
}

void execute(const Indexed& indexed) {
  const std::int64_t rows = indexed.index.dims.at(0).extent;
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
    VectorCompute copy;
    copy.inputs = {slice(indexed.in, indexed.scatter ? i : row)};
    for (const ViewDim& dim : copy.inputs[0].dims) copy.extents.push_back(dim.extent);
    copy.nodes = {{.op = VectorNode::Op::input, .dtype = indexed.in.dtype}};
    VectorOutput output;
    output.view = slice(indexed.out, indexed.scatter ? row : i);
    output.accumulate = indexed.scatter && indexed.combiner.has_value();
    output.combiner = indexed.combiner.value_or(Combiner::add);
    copy.outputs = {output};
    execute(copy);
  }
}

void execute(const Sort& sort) {
  const std::int64_t n = sort.in.dims.back().extent, k = sort.keys.dims.back().extent;
  std::vector<ViewDim> outer(sort.in.dims.begin(), sort.in.dims.end() - 1),
      keys(sort.keys.dims.begin(), sort.keys.dims.end() - 1),
      places(sort.positions.dims.begin(), sort.positions.dims.end() - 1);
  std::vector<std::int64_t> in_at, key_at, place_at;
  for_each_offset(outer.data(), outer.size(), [&](std::int64_t o) { in_at.push_back(o); });
  for_each_offset(keys.data(), keys.size(), [&](std::int64_t o) { key_at.push_back(o); });
  for_each_offset(places.data(), places.size(), [&](std::int64_t o) { place_at.push_back(o); });
  std::vector<double> row(static_cast<std::size_t>(n));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  for (std::size_t r = 0; r < in_at.size(); ++r) {
    read_run(sort.in.data + in_at[r] * host_bytes(sort.in.dtype), sort.in.dtype, sort.in.dims.back().stride, n,
             row.data());
    for (std::int64_t i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      const double x = row[static_cast<std::size_t>(a)], y = row[static_cast<std::size_t>(b)];
      return sort.descending ? x > y : x < y;
    });
    std::vector<double> sorted;
    for (std::int64_t i = 0; i < k; ++i)
      sorted.push_back(row[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
    write_run(sorted.data(), sort.keys.data + key_at[r] * host_bytes(sort.keys.dtype), sort.keys.dtype,
              sort.keys.dims.back().stride, k);
    write_run(order.data(), sort.positions.data + place_at[r] * host_bytes(sort.positions.dtype), sort.positions.dtype,
              sort.positions.dims.back().stride, k);
  }
}

}  // namespace tilesim
