#include "tilesim/engine/noc/topology.hpp"

namespace tilesim::engine::noc {

std::uint32_t RouterSpec::mask(std::size_t message_class, unsigned group) const {
  const Class& message = classes[message_class];
  const int count = message.vcs > 0 ? message.vcs : virtual_channels - message.first_vc;
  const int lower = count / 2;
  const int first = message.first_vc + (group == upper_vcs ? lower : 0);
  const int width = group == all_vcs ? count : group == lower_vcs ? lower : count - lower;
  return static_cast<std::uint32_t>(((std::uint64_t{1} << width) - 1) << first);
}

namespace {

void in_range(int value, int low, int high, const char* what) {
  if (value < low || value > high)
    throw UserError({std::string(what) + " out of range",
                     "router",
                     std::to_string(value),
                     std::to_string(low) + " ... " + std::to_string(high),
                     {}});
}

}  // namespace

void check(const RouterSpec& spec, const Topology& topology) {
  in_range(spec.virtual_channels, 1, 32, "virtual channels");
  in_range(spec.buffer_flits, 1, 4096, "buffer flits of a virtual channel");
  in_range(spec.switch_cycles, 0, 4096, "switch cycles");
  in_range(spec.credit_cycles, 0, 4096, "credit cycles");
  in_range(static_cast<int>(spec.classes.size()), 1, 16, "message classes");
  for (const RouterSpec::Class& message : spec.classes) {
    const std::string place = "message class '" + message.name + "'";
    const int count = message.vcs > 0 ? message.vcs : spec.virtual_channels - message.first_vc;
    if (message.first_vc < 0 || message.vcs < 0 || count < 1 || message.first_vc + count > spec.virtual_channels)
      throw UserError({"a message class uses virtual channels that do not exist",
                       place,
                       std::to_string(message.first_vc) + " ... " + std::to_string(message.first_vc + count - 1),
                       "0 ... " + std::to_string(spec.virtual_channels - 1),
                       {}});
    if (topology.wraps && count < 2)
      throw UserError({"a ring or torus needs two virtual channels per message class to break the circle",
                       place,
                       std::to_string(count),
                       "at least 2",
                       {}});
    if (!topology.router_regions.empty() && count < 2)
      throw UserError({"regions joined by links need two virtual channels per message class to break the circle",
                       place,
                       std::to_string(count),
                       "at least 2",
                       {}});
  }
}

}  // namespace tilesim::engine::noc
