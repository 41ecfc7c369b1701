// Settings of multi-core chips: networks, memory regions (chiplets, each with its channels and cores), multicast.
#include <algorithm>
#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings.hpp"

namespace tilesim {

namespace {

Setting count(std::string path, std::int64_t low, std::int64_t high, std::string description,
              std::int64_t& (*access)(Machine&)) {
  return {std::move(path),
          SettingUnit::count,
          static_cast<double>(low),
          static_cast<double>(high),
          std::move(description),
          {},
          [access](const Machine& m) { return Json(access(const_cast<Machine&>(m))); },
          [access, low, high](Machine& m, const Json& json) {
            const std::int64_t value = json.as_int();
            if (value < low || value > high)
              json.fail("out of range", std::to_string(low) + " to " + std::to_string(high));
            access(m) = value;
          },
          true};
}

}  // namespace

Setting network_kind() {
  const std::vector<std::string> names{"simple", "crossbar", "mesh", "torus", "ring", "tree", "cmesh"};
  return {"network.kind",
          SettingUnit::text,
          0,
          0,
          "fidelity: simple, or routers: crossbar, mesh, torus, ring, tree, cmesh, with sizes (mesh_4x8), or a .json "
          "file",
          {},
          [](const Machine& m) { return Json(m.network.kind); },
          [names](Machine& m, const Json& json) {
            const std::string& text = json.as_string();
            const std::size_t line = text.find('_');
            const std::string name = text.substr(0, line),
                              sizes = line == std::string::npos ? "1" : text.substr(line + 1);
            bool digits = !sizes.empty() && sizes.back() != 'x';
            for (std::size_t i = 0; i < sizes.size(); ++i)
              digits &= (sizes[i] >= '0' && sizes[i] <= '9' && (sizes[i] > '0' || (i > 0 && sizes[i - 1] != 'x'))) ||
                        (sizes[i] == 'x' && i > 0 && sizes[i - 1] != 'x');
            const bool known = std::find(names.begin(), names.end(), name) != names.end() &&
                               (name != "simple" || line == std::string::npos);
            if (!text.ends_with(".json") && !(known && digits))
              json.fail("unknown network", join(names) + ", sizes behind a name (mesh_4x8), or a .json file",
                        known ? "" : nearest(name, names));
            m.network.kind = text;
          }};
}

void check_memory(const Machine& machine) {
  const MemorySpec& memory = machine.memory;
  if (memory.channels % memory.regions != 0 || machine.core.count % memory.regions != 0)
    throw UserError({"cores and channels do not fall into equal regions",
                     "memory.regions",
                     std::to_string(memory.regions),
                     "a divisor of " + std::to_string(memory.channels) + " channels (memory.channels) and " +
                         std::to_string(machine.core.count) + " cores (core.count)",
                     {}});
  if ((memory.kind == "bank" || memory.channel_hash != "none") &&
      !std::has_single_bit(static_cast<std::uint64_t>(memory.interleave_bytes)))
    throw UserError({"wrong interleaving for banks or a hash of channels",
                     "memory.interleave_bytes",
                     std::to_string(memory.interleave_bytes) + " B",
                     "a power of two",
                     {}});
}

std::vector<Setting> region_settings() {
  std::vector<Setting> all;
  all.push_back(count("memory.regions", 1, 64, "equal groups of channels and cores that lie together (chiplets)",
                      [](Machine& m) -> std::int64_t& { return m.memory.regions; }));
  const std::vector<std::string> placements{"interleaved", "local"};
  all.push_back({"memory.placement", SettingUnit::text, 0, 0,
                 "placement of tensors over regions; local: a page is placed with the core that touches it first",
                 placements, [](const Machine& m) { return Json(m.memory.placement); },
                 [placements](Machine& m, const Json& json) {
                   const std::string& text = json.as_string();
                   for (const std::string& known : placements)
                     if (known == text) {
                       m.memory.placement = text;
                       return;
                     }
                   json.fail("unknown value", join(placements), nearest(text, placements));
                 },
                 true});
  all.push_back({"network.multicast",
                 SettingUnit::flag,
                 0,
                 1,
                 "operands of several cores are fetched once and multicast",
                 {},
                 [](const Machine& m) { return Json(m.network.multicast); },
                 [](Machine& m, const Json& json) { m.network.multicast = json.as_bool(); },
                 true});
  all.push_back(count("network.region_latency_cycles", 0, 1000000, "further, one way, between regions, network cycles",
                      [](Machine& m) -> std::int64_t& { return m.network.region_latency_cycles; }));
  all.push_back(count("network.region_bytes_per_cycle", 1, 1 << 20,
                      "bytes per network cycle from one region to another, each way",
                      [](Machine& m) -> std::int64_t& { return m.network.region_bytes_per_cycle; }));
  return all;
}

}  // namespace tilesim
