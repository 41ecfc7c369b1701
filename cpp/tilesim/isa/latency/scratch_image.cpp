#include "tilesim/isa/latency/scratch_image.hpp"

#include <algorithm>
#include <cstring>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim::isa {

namespace {

constexpr std::int64_t granule = 4096;

Address floor_page(Address a) { return a & ~static_cast<Address>(granule - 1); }
Address ceil_page(Address a) { return floor_page(a + static_cast<Address>(granule - 1)); }

/// Packs 4-bit elements, the first of two in the low half of a byte.
void pack_halves(const std::byte* from, std::int64_t count, std::vector<std::uint8_t>& to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto half = static_cast<std::uint8_t>(static_cast<std::uint8_t>(from[i]) & 15U);
    auto& byte = to[static_cast<std::size_t>(i / 2)];
    byte = static_cast<std::uint8_t>(i % 2 == 0 ? (byte & 0xF0U) | half : (byte & 15U) | half << 4U);
  }
}

}  // namespace

ScratchImage::Reach ScratchImage::reach_of(const TileView& view) {
  std::int64_t low = 0, high = 0;
  for (const ViewDim& dim : view.dims) {
    if (dim.extent <= 0) return {};
    (dim.stride < 0 ? low : high) += dim.stride * (dim.extent - 1);
  }
  if (bits(view.dtype) < 8) low -= low & 1;
  return {low, high - low + 1};
}

Address ScratchImage::begin(std::size_t view) const {
  return first_[view] + static_cast<Address>(reaches_[view].low * bits(views_[view]->dtype) / 8);
}

ScratchImage::ScratchImage(const std::vector<const TileView*>& views, std::int64_t aside) : views_(views) {
  Address next = scratchpad_base + granule;
  std::vector<std::pair<Address, Address>> ranges;
  const auto end_of = [&](std::size_t i) {
    return begin(i) + static_cast<Address>(packed_bytes(views_[i]->dtype, reaches_[i].count));
  };
  for (std::size_t i = 0; i < views_.size(); ++i) {
    reaches_.push_back(reach_of(*views_[i]));
    const Address base = views_[i]->memory == TileMemory::accumulator ? accumulator_base : scratchpad_base;
    first_.push_back(base + static_cast<Address>(std::max<std::int64_t>(views_[i]->address, 0)));
    if (views_[i]->address >= 0 && base == scratchpad_base) next = std::max(next, end_of(i));
  }
  for (std::size_t i = 0; i < views_.size(); ++i) {
    if (views_[i]->address < 0) {
      // any page-aligned address
      first_[i] = 0;
      first_[i] = ceil_page(next) - begin(i);
      next = end_of(i);
    }
    ranges.emplace_back(floor_page(begin(i)), ceil_page(end_of(i) + 1));
  }
  aside_ = ceil_page(next) + granule;
  if (aside > 0) ranges.emplace_back(aside_, ceil_page(aside_ + static_cast<Address>(aside)));
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 0; i < ranges.size();) {
    auto [from, to] = ranges[i];
    for (++i; i < ranges.size() && ranges[i].first <= to; ++i) to = std::max(to, ranges[i].second);
    memory_.add(from, to, readable | writable, "scratchpad");
  }
}

void ScratchImage::fill() {
  for (std::size_t i = views_.size(); i-- > 0;) {
    const TileView& view = *views_[i];
    const Reach& reach = reaches_[i];
    if (reach.count == 0) continue;
    const std::byte* from = view.data + reach.low * host_bytes(view.dtype);
    const auto bytes = static_cast<std::size_t>(packed_bytes(view.dtype, reach.count));
    if (bits(view.dtype) >= 8) {
      memory_.place(begin(i), from, bytes);
      continue;
    }
    std::vector<std::uint8_t> packed(bytes);
    pack_halves(from, reach.count, packed);
    memory_.place(begin(i), packed.data(), bytes);
  }
}

void ScratchImage::take(std::size_t of) {
  const TileView& view = *views_[of];
  const Reach& reach = reaches_[of];
  if (reach.count == 0) return;
  std::vector<std::byte> all(static_cast<std::size_t>(packed_bytes(view.dtype, reach.count)));
  memory_.read(begin(of), all.data(), all.size());
  const auto bytes = static_cast<std::size_t>(host_bytes(view.dtype));
  for_each_offset(view.dims.data(), view.dims.size(), [&](std::int64_t offset) {
    std::byte* to = view.data + offset * static_cast<std::int64_t>(bytes);
    const std::int64_t at = offset - reach.low;
    if (bits(view.dtype) >= 8)
      std::memcpy(to, all.data() + static_cast<std::size_t>(at) * bytes, bytes);
    else
      *to = (all[static_cast<std::size_t>(at / 2)] >> (at % 2 * 4)) & std::byte{15};
  });
}

}  // namespace tilesim::isa
