#include "tilesim/tile/custom_operation.hpp"

#include <cstring>

#include "tilesim/tile/strided.hpp"

namespace tilesim {

namespace {

Array array_of(const TileView& view) {
  Shape shape;
  for (const ViewDim& dim : view.dims) shape.push_back(dim.extent);
  return Array(view.dtype, shape);
}

template <class Move>
void each_element(const TileView& view, Array& array, Move move) {
  const auto bytes = static_cast<std::size_t>(host_bytes(view.dtype));
  std::byte* at = array.bytes();
  for_each_offset(view.dims.data(), view.dims.size(), [&](std::int64_t offset) {
    move(view.data + offset * static_cast<std::int64_t>(bytes), at, bytes);
    at += bytes;
  });
}

}  // namespace

void on_arrays(const Opaque& opaque, const std::function<void(const std::vector<Array>&, std::vector<Array>&)>& run) {
  std::vector<Array> operands, results;
  for (const TileView& view : opaque.reads) {
    operands.push_back(array_of(view));
    each_element(view, operands.back(),
                 [](const std::byte* from, std::byte* to, std::size_t bytes) { std::memcpy(to, from, bytes); });
  }
  for (const TileView& view : opaque.writes) results.push_back(array_of(view));
  run(operands, results);
  for (std::size_t i = 0; i < results.size(); ++i)
    each_element(opaque.writes[i], results[i],
                 [](std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
}

}  // namespace tilesim
