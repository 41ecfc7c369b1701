// Channels with more than 64 banks.
#include "tilesim/engine/dram/channel_run.hpp"

namespace tilesim::engine::dram {

template class ChannelOf<WideMask>;

}  // namespace tilesim::engine::dram
