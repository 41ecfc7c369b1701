#include "tilesim/engine/dram/channel.hpp"

#include "tilesim/engine/dram/channel_run.hpp"

namespace tilesim::engine::dram {

std::int64_t Histogram::low(std::size_t bin) {
  if (bin < 8) return static_cast<std::int64_t>(bin);
  return static_cast<std::int64_t>(8 + (bin & 7)) << (bin / 8 - 1);
}

template class ChannelOf<NarrowMask>;

namespace {

std::variant<ChannelOf<NarrowMask>, ChannelOf<WideMask>> channel_of(const Part& part) {
  if (part.banks() <= mask_banks<NarrowMask>) return ChannelOf<NarrowMask>(part);
  return ChannelOf<WideMask>(part);
}

}  // namespace

Channel::Channel(const Part& part) : either_(channel_of(part)) {}

}  // namespace tilesim::engine::dram
