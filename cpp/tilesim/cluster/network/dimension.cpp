#include "tilesim/cluster/network/dimension.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tilesim/base/units.hpp"

namespace tilesim::cluster {

namespace {

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> names{"ring", "torus", "mesh", "full", "switch", "fat_tree", "dragonfly"};
  return names;
}

DimensionKind kind_of(const Json& json) {
  const std::string& text = json.as_string();
  const auto found = std::find(kinds().begin(), kinds().end(), text);
  if (found == kinds().end()) json.fail("unknown kind of network dimension", join(kinds()), nearest(text, kinds()));
  return static_cast<DimensionKind>(found - kinds().begin());
}

std::int64_t rate_of(const Json& json) {
  const double value = json.as_double();
  if (!(value >= 1) || value > 1e18) json.fail("a bandwidth is bytes per second", "1 ... 1e18");
  return static_cast<std::int64_t>(std::llround(value));
}

std::int64_t time_of(const Json* json) {
  if (json == nullptr) return 0;
  const double value = json->as_double();
  if (!(value >= 0) || value > 1e3) json->fail("a latency is seconds", "0 ... 1000");
  return static_cast<std::int64_t>(std::ceil(value * 1e12 - 1e-3));
}

void read_sizes(ObjectReader& reader, const Json& json, Dimension& dimension) {
  const Json* one = reader.optional("size");
  const Json* several = reader.optional("sizes");
  if ((one == nullptr) == (several == nullptr))
    json.fail("a dimension has a size, or sizes of its axes", "one of both");
  if (one != nullptr) dimension.sizes = {one->as_int(1, most_devices)};
  if (several != nullptr)
    for (const Json& item : several->items()) dimension.sizes.push_back(item.as_int(1, most_devices));
  const bool grid = dimension.kind == DimensionKind::torus || dimension.kind == DimensionKind::mesh;
  const std::size_t axes = dimension.sizes.size();
  if (dimension.kind == DimensionKind::dragonfly && axes != 3)
    json.fail("a dragonfly has three sizes", "hosts per router, routers per group, groups");
  if (axes == 0 || axes > 6 || (!grid && dimension.kind != DimensionKind::dragonfly && axes != 1))
    json.fail("this kind of dimension has another number of sizes", grid ? "1 ... 6" : "1");
  std::int64_t product = 1;
  for (const std::int64_t size : dimension.sizes)
    if ((product *= size) > most_devices) json.fail("the dimension has too many devices", "16777216");
}

void read_tree(ObjectReader& reader, Dimension& dimension) {
  const std::int64_t radix = reader.integer_or("radix", 64, 2, 1 << 20);
  const std::int64_t levels = reader.integer_or("levels", 2, 1, 3);
  dimension.oversubscription = reader.number_or("oversubscription", 1);
  if (!(dimension.oversubscription >= 1) || dimension.oversubscription > radix - 1)
    reader.required("oversubscription").fail("oversubscription is the rate down over the rate up", "1 ... radix - 1");
  const auto down = static_cast<std::int64_t>(
      std::floor(static_cast<double>(radix) * dimension.oversubscription / (1 + dimension.oversubscription)));
  dimension.leaf = levels == 1 ? radix : std::max<std::int64_t>(down, 1);
  dimension.pod = levels == 3 ? dimension.leaf * std::max<std::int64_t>(down, 1) : 0;
  const std::int64_t most = levels == 1 ? radix : levels == 2 ? dimension.leaf * radix : dimension.pod * radix;
  if (dimension.size() > most)
    reader.required("size").fail("the fat tree has too few ports for its devices", std::to_string(most) + " or fewer");
  dimension.trunk_latency = time_of(reader.optional("trunk_latency_seconds"));
  const std::string ways = reader.string_or("ways", "spread");
  if (ways != "spread" && ways != "hash") reader.required("ways").fail("unknown choice of ways", "spread, hash");
  dimension.hashed = ways == "hash";
}

}  // namespace

std::int64_t Dimension::size() const {
  std::int64_t product = 1;
  for (const std::int64_t one : sizes) product *= one;
  return product;
}

std::int64_t Dimension::trunks(std::int64_t members) const {
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(std::floor(static_cast<double>(members) / oversubscription)));
}

Dimension Dimension::read(const Json& json) {
  ObjectReader reader(json);
  Dimension dimension;
  dimension.kind = kind_of(reader.required("kind"));
  read_sizes(reader, json, dimension);
  dimension.bytes_per_second = rate_of(reader.required("bandwidth_bytes_per_second"));
  dimension.latency = time_of(reader.optional("latency_seconds"));
  dimension.rails = reader.integer_or("rails", 0, 0, most_devices);
  dimension.name = reader.string_or("name", "");
  if (dimension.grid()) dimension.both_ways = reader.boolean_or("both_ways", true);
  if (!dimension.both_ways && dimension.kind == DimensionKind::mesh)
    reader.required("both_ways").fail("a mesh of links one way is not connected", "true");
  if (dimension.kind == DimensionKind::fat_tree) read_tree(reader, dimension);
  if (dimension.kind == DimensionKind::dragonfly) {
    const Json* global = reader.optional("global_bandwidth_bytes_per_second");
    dimension.global_bytes_per_second = global == nullptr ? dimension.bytes_per_second : rate_of(*global);
  }
  reader.optional("source");
  reader.finish();
  return dimension;
}

std::int64_t picoseconds(std::int64_t bytes, std::int64_t count, std::int64_t parts, std::int64_t bytes_per_second) {
  const Int128 divisor = static_cast<Int128>(parts) * bytes_per_second;
  const Int128 time = (static_cast<Int128>(bytes) * count * 1000000000000 + divisor - 1) / divisor;
  if (time > std::numeric_limits<std::int64_t>::max() / 1024)
    throw UserError(
        {"the message takes longer than times reach", {}, std::to_string(bytes) + " bytes", "104 days", {}});
  return static_cast<std::int64_t>(time);
}

}  // namespace tilesim::cluster
