// Shardings in GSPMD syntax.
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/graph/limits.hpp"
#include "tilesim/graph/sharding.hpp"
#include "tilesim/graph/sharding_text.hpp"

namespace tilesim {

namespace {

using Integers = std::vector<std::int64_t>;
using Form = GspmdSharding::Form;
using Rest = GspmdSharding::Rest;

std::int64_t product(const Integers& values) {
  std::int64_t found = 1;
  for (const std::int64_t value : values) {
    found *= value;
    if (value < 1 || found > most_devices)
      throw UserError({"A sharding has no devices or too many.",
                       "",
                       to_string(values),
                       "1 .. " + std::to_string(most_devices),
                       {}});
  }
  return found;
}

/// Row-major numbers of a grid of `dims`, read after a transposition of its axes to `order`.
Integers iota_devices(const Integers& dims, const Integers& order) {
  Integers found(at(product(dims))), strides = row_major_strides(dims), index(dims.size(), 0);
  for (std::int64_t& device : found) {
    device = 0;
    for (std::size_t i = 0; i < order.size(); ++i) device += index[i] * strides[at(order[i])];
    for (std::size_t i = order.size(); i-- > 0;) {
      if (++index[i] < dims[at(order[i])]) break;
      index[i] = 0;
    }
  }
  return found;
}

void read_devices(ShardingText& text, GspmdSharding& found) {
  text.expect("=");
  text.expect("[");
  found.tiles = text.integers("]");
  const std::int64_t count = product(found.tiles);
  if (!text.take("<=")) {
    do found.devices.push_back(text.integer());
    while (text.take(","));
  } else {
    text.expect("[");
    const Integers dims = text.integers("]");
    Integers order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    if (text.take("T")) {
      text.expect("(");
      const Integers given = text.integers(")");
      if (!std::ranges::is_permutation(given, order)) text.fail("each dimension of the iota once");
      order = given;
    }
    found.devices = iota_devices(dims, order);
  }
  if (at(count) != found.devices.size()) text.fail(std::to_string(count) + " devices");
  Integers sorted = found.devices;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (at(sorted[i]) != i) text.fail("each of 0 .. " + std::to_string(count - 1) + " once");
}

void read_rest(ShardingText& text, GspmdSharding& found) {
  text.expect("=");
  text.expect("{");
  do {
    if (text.take("replicated"))
      found.rest.push_back(Rest::replicated);
    else if (text.take("manual"))
      found.rest.push_back(Rest::manual);
    else
      text.fail("replicated, manual");
  } while (text.take(","));
  text.expect("}");
}

/// Reads the text between braces, after the opening brace; ignores metadata.
GspmdSharding read_one(ShardingText& text) {
  GspmdSharding found;
  while (!text.take("}")) {
    text.take(",");
    if (text.take("replicated")) {
      found.form = Form::replicated;
    } else if (text.take("maximal")) {
      found.form = Form::maximal;
    } else if (text.take("manual")) {
      found.form = Form::manual;
    } else if (text.take("unknown")) {
      found.form = Form::unknown;
    } else if (text.take("unspecified_dims")) {
      text.expect("=");
      text.expect("[");
      found.unspecified = text.integers("]");
    } else if (text.take("devices")) {
      found.form = Form::tiled;
      read_devices(text, found);
    } else if (text.take("device")) {
      text.expect("=");
      found.device = text.integer();
    } else if (text.take("last_tile_dim_replicate")) {
      found.rest = {Rest::replicated};
    } else if (text.take("last_tile_dims")) {
      read_rest(text, found);
    } else {
      text.fail("replicated, maximal device=, manual, unknown, devices=[..]");
    }
  }
  if (found.rest.size() > found.tiles.size()) text.fail("as many dimensions as last_tile_dims names");
  return found;
}

/// One factor of a tile dimension: `size` devices at distance `stride`.
struct Digit { std::int64_t size = 1, stride = 1; };

Integers primes(std::int64_t value) {
  Integers found;
  for (std::int64_t p = 2; p * p <= value; ++p)
    for (; value % p == 0; value /= p) found.push_back(p);
  if (value > 1) found.push_back(value);
  return found;
}

/// Digits of one dimension, major first; empty if device numbers do not grow evenly along each digit.
std::optional<std::vector<Digit>> digits_of(const Integers& places, std::int64_t extent, std::int64_t unit) {
  Integers sizes = primes(extent);
  do {
    std::vector<Digit> digits;
    std::int64_t inner = extent;
    for (const std::int64_t size : sizes) {
      inner /= size;
      digits.push_back({size, places[at(inner * unit)] - places[0]});
    }
    bool even = std::ranges::all_of(digits, [](const Digit& digit) { return digit.stride > 0; });
    for (std::int64_t i = 0; even && i < extent; ++i) {
      std::int64_t place = places[0], rest = i, below = extent;
      for (const Digit& digit : digits) {
        below /= digit.size;
        place += rest / below * digit.stride;
        rest %= below;
      }
      even = place == places[at(i * unit)];
    }
    if (even) return digits;
  } while (std::ranges::next_permutation(sizes).found);
  return std::nullopt;
}

/// Digits of all dimensions; empty if the devices do not form a grid of digits.
std::optional<std::vector<std::vector<Digit>>> all_digits(const GspmdSharding& sharding, const Integers& place_of) {
  Integers places;
  for (const std::int64_t device : sharding.devices) places.push_back(place_of[at(device)]);
  const Integers units = row_major_strides(sharding.tiles);
  if (places[0] != 0) return std::nullopt;
  std::vector<std::vector<Digit>> found;
  for (std::size_t d = 0; d < sharding.tiles.size(); ++d) {
    auto digits = digits_of(places, sharding.tiles[d], units[d]);
    if (!digits) return std::nullopt;
    found.push_back(std::move(*digits));
  }
  for (std::size_t t = 0; t < places.size(); ++t) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < units.size(); ++d)
      place += places[at(std::int64_t(t) / units[d] % sharding.tiles[d] * units[d])];
    if (place != places[t]) return std::nullopt;
  }
  return found;
}

/// Sizes of mesh axes, major first, such that digits end at axis boundaries; empty if digits do not nest.
std::optional<Integers> axes_of(const std::vector<GspmdSharding>& shardings, const Integers& place_of) {
  const auto devices = static_cast<std::int64_t>(place_of.size());
  std::set<std::int64_t> bounds{1, devices};
  for (const GspmdSharding& sharding : shardings) {
    if (sharding.form != Form::tiled) continue;
    const auto digits = all_digits(sharding, place_of);
    if (!digits) return std::nullopt;
    for (const std::vector<Digit>& dimension : *digits)
      for (std::size_t i = 0; i < dimension.size(); ++i) {
        const Digit& digit = dimension[i];
        const bool inner = i + 1 < dimension.size() && dimension[i + 1].size * dimension[i + 1].stride == digit.stride;
        const bool outer = i > 0 && dimension[i - 1].stride == digit.size * digit.stride;
        if (!inner) bounds.insert(digit.stride);
        if (!outer) bounds.insert(digit.size * digit.stride);
      }
  }
  Integers sizes;
  for (auto bound = bounds.begin(); std::next(bound) != bounds.end(); ++bound) {
    if (*std::next(bound) % *bound != 0) return std::nullopt;
    sizes.insert(sizes.begin(), *std::next(bound) / *bound);
  }
  return sizes;
}

/// The axis parts that a digit covers, major first; empty if the digit crosses a boundary unevenly.
std::optional<std::vector<AxisPart>> parts_of(const Digit& digit, const Mesh& mesh) {
  std::int64_t stride = 1;
  for (std::size_t i = mesh.axes.size(); i-- > 0; stride *= mesh.axes[i].size) {
    const std::int64_t size = mesh.axes[i].size;
    if (digit.stride % stride != 0 || digit.stride / stride >= size) continue;
    const std::int64_t below = digit.stride / stride;
    if (size % (below * digit.size) != 0) return std::nullopt;
    return std::vector<AxisPart>{{mesh.axes[i].name, size / (below * digit.size), digit.size}};
  }
  return std::nullopt;
}

[[noreturn]] void inexpressible(const std::string& what) {
  throw Unsupported({"No mesh of devices expresses a sharding by its axes.", "", what, "axes that nest", {}});
}

}  // namespace

std::vector<GspmdSharding> GspmdSharding::parse(std::string_view source) {
  ShardingText text(source, "a sharding");
  std::vector<GspmdSharding> found;
  text.expect("{");
  if (!text.sees("{")) {
    found.push_back(read_one(text));
  } else {
    do {
      // XLA writes indices as /*index=5*/ in long tuples.
      while (text.take("/*index=")) {
        text.integer();
        text.expect("*/");
      }
      text.expect("{");
      found.push_back(read_one(text));
    } while (text.take(","));
    text.expect("}");
  }
  text.end();
  return found;
}

Mesh mesh_of(const std::vector<GspmdSharding>& shardings, std::int64_t devices) {
  std::vector<Mesh> candidates(1);
  for (const GspmdSharding& sharding : shardings) {
    if (sharding.form != Form::tiled) continue;
    if (std::ssize(sharding.devices) != devices)
      throw UserError({"Shardings have different numbers of devices.",
                       "",
                       std::to_string(sharding.devices.size()),
                       std::to_string(devices),
                       {}});
    if (candidates.size() < 8) candidates.push_back({{}, sharding.devices});
  }
  for (Mesh& mesh : candidates) {
    Integers place_of(at(devices));
    for (std::int64_t place = 0; place < devices; ++place) place_of[at(mesh.device(place))] = place;
    const auto sizes = axes_of(shardings, place_of);
    if (!sizes) continue;
    for (std::size_t i = 0; i < sizes->size(); ++i) mesh.axes.push_back({"_axis_" + std::to_string(i), (*sizes)[i]});
    return Mesh::parse(mesh.text());
  }
  inexpressible("shardings of one module");
}

FromGspmd from_gspmd(const GspmdSharding& sharding, const Mesh& mesh, std::size_t rank) {
  FromGspmd found;
  if (sharding.form == Form::manual)
    for (const MeshAxis& axis : mesh.axes) found.manual.push_back({axis.name});
  if (sharding.form == Form::manual || sharding.form == Form::unknown) return found;
  found.sharding.given = true;
  found.sharding.axes.resize(rank);
  for (const std::int64_t axis : sharding.unspecified)
    if (at(axis) < rank) found.sharding.axes[at(axis)].open = true;
  if (sharding.form != Form::tiled) return found;
  if (sharding.tiles.size() - sharding.rest.size() != rank)
    throw UserError({"A sharding has another number of axes than its tensor.",
                     "",
                     to_string(sharding.tiles),
                     std::to_string(rank) + " axes and those of last_tile_dims",
                     {}});
  if (std::ssize(sharding.devices) != mesh.devices())
    throw UserError({"A sharding has another number of devices than the mesh.",
                     "",
                     std::to_string(sharding.devices.size()),
                     mesh.text(),
                     {}});
  const auto digits = all_digits(sharding, mesh.places());
  if (!digits) inexpressible(to_string(sharding.devices));
  for (std::size_t d = 0; d < digits->size(); ++d) {
    std::vector<AxisPart> parts;
    for (const Digit& digit : (*digits)[d]) {
      const auto covered = parts_of(digit, mesh);
      if (!covered) inexpressible(mesh.text());
      parts.insert(parts.end(), covered->begin(), covered->end());
    }
    parts = joined(mesh, std::move(parts));
    if (d < rank)
      found.sharding.axes[d].parts = std::move(parts);
    else if (sharding.rest[d - rank] == Rest::manual)
      found.manual.insert(found.manual.end(), parts.begin(), parts.end());
  }
  return found;
}

}  // namespace tilesim
