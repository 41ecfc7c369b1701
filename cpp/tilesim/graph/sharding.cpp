#include "tilesim/graph/sharding.hpp"

#include <algorithm>
#include <map>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/graph/limits.hpp"
#include "tilesim/graph/sharding_text.hpp"

namespace tilesim {

namespace {

std::string quoted(const AxisPart& part) {
  std::string text = "\"" + part.axis + "\"";
  if (part.size > 0) text += ":(" + std::to_string(part.before) + ")" + std::to_string(part.size);
  return text;
}

std::string list_of(const std::vector<AxisPart>& parts) {
  std::string text;
  for (const AxisPart& part : parts) text += (text.empty() ? "" : ", ") + quoted(part);
  return text;
}

AxisPart read_part(ShardingText& text) {
  AxisPart part{text.name()};
  if (!text.take(":")) return part;
  text.expect("(");
  part.before = text.integer();
  text.expect(")");
  part.size = text.integer();
  if (part.size < 1 || part.before < 1) text.fail("a part of at least 1");
  return part;
}

std::vector<AxisPart> read_parts(ShardingText& text) {
  std::vector<AxisPart> parts;
  text.expect("{");
  if (text.take("}")) return parts;
  do parts.push_back(read_part(text));
  while (text.take(","));
  text.expect("}");
  return parts;
}

DividedAxis read_axis(ShardingText& text) {
  DividedAxis axis;
  text.expect("{");
  while (!text.take("}")) {
    if (text.take("?")) {
      axis.open = true;
      text.expect("}");
      break;
    }
    axis.parts.push_back(read_part(text));
    if (!text.sees("}")) text.expect(",");
  }
  if (text.take("p")) axis.priority = static_cast<std::int32_t>(std::min<std::int64_t>(text.integer(), INT32_MAX));
  return axis;
}

void check_mesh(const Mesh& mesh, const std::string& text) {
  std::int64_t devices = 1;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    if (axis.size < 1) throw UserError({"An axis of a mesh has no devices.", "\"" + axis.name + "\"", text, "", {}});
    for (std::size_t j = 0; j < i; ++j)
      if (mesh.axes[j].name == axis.name)
        throw UserError({"Two axes of a mesh have the same name.", "", axis.name, "a name for each", {}});
    devices *= axis.size;
    if (devices > most_devices)
      throw UserError({"The mesh has too many devices.", "", text, "at most " + std::to_string(most_devices), {}});
  }
  if (mesh.order.empty()) return;
  std::vector<std::int64_t> sorted = mesh.order;
  std::ranges::sort(sorted);
  const bool maximal = mesh.axes.empty() && sorted.size() == 1;
  bool all = at(devices) == sorted.size();
  for (std::size_t i = 0; all && i < sorted.size(); ++i) all = at(sorted[i]) == i;
  if (!all && !maximal)
    throw UserError({"device_ids are not the devices of the mesh.",
                     "",
                     text,
                     "each of 0 .. " + std::to_string(devices - 1) + " once",
                     {}});
}

}  // namespace

std::int64_t Mesh::devices() const {
  std::int64_t count = 1;
  for (const MeshAxis& axis : axes) count *= axis.size;
  return count;
}

std::size_t Mesh::axis(std::string_view name) const {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == name) return i;
    known.push_back(axes[i].name);
  }
  throw UserError({"the mesh has no such axis", "", "'" + std::string(name) + "'", join(known), nearest(name, known)});
}

std::vector<std::int64_t> Mesh::places() const {
  std::vector<std::int64_t> found(at(devices()));
  for (std::size_t place = 0; place < found.size(); ++place)
    found[at(device(std::int64_t(place)))] = std::int64_t(place);
  return found;
}

std::string Mesh::text() const {
  std::string text;
  for (const MeshAxis& axis : axes) text += (text.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.size);
  if (order.empty()) return text;
  text += std::string(text.empty() ? "" : ", ") + "device_ids=[";
  for (std::size_t i = 0; i < order.size(); ++i) text += (i ? ", " : "") + std::to_string(order[i]);
  return text + "]";
}

Mesh Mesh::parse(std::string_view source) {
  ShardingText text(source, "a mesh");
  Mesh mesh;
  const bool outer = text.take("<"), inner = text.take("[");
  const auto more = [&] { return !text.sees(inner ? "]" : "device_ids") && !text.sees(">"); };
  if (inner ? more() : !std::string(source).empty() && more()) do {
      if (!inner && text.sees("device_ids")) break;
      MeshAxis axis{text.name(), 1};
      text.expect("=");
      axis.size = text.integer();
      mesh.axes.push_back(std::move(axis));
    } while (text.take(","));
  if (inner) {
    text.expect("]");
    text.take(",");
  }
  if (text.take("device_ids")) {
    text.expect("=");
    text.expect("[");
    mesh.order = text.integers("]");
  }
  if (outer) text.expect(">");
  text.end();
  check_mesh(mesh, std::string(source));
  bool counting = !mesh.axes.empty();
  for (std::size_t i = 0; counting && i < mesh.order.size(); ++i) counting = at(mesh.order[i]) == i;
  if (counting) mesh.order.clear();
  return mesh;
}

std::int64_t extent(const Mesh& mesh, const AxisPart& part) {
  return part.size > 0 ? part.size : mesh.axes[mesh.axis(part.axis)].size;
}

std::string Sharding::text() const {
  std::string text = "[";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const DividedAxis& axis = axes[i];
    text += std::string(i ? ", " : "") + "{" + list_of(axis.parts);
    if (axis.open) text += axis.parts.empty() ? "?" : ", ?";
    text += "}";
    if (axis.priority >= 0) text += "p" + std::to_string(axis.priority);
  }
  text += "]";
  if (!replicated.empty()) text += ", replicated={" + list_of(replicated) + "}";
  if (!unreduced.empty()) text += ", unreduced={" + list_of(unreduced) + "}";
  if (!combiner.empty()) text += ", combiner=\"" + combiner + "\"";
  return text;
}

Sharding Sharding::parse(std::string_view source) {
  ShardingText text(source, "a sharding");
  Sharding sharding;
  sharding.given = true;
  text.take("#sdy.sharding");
  const bool outer = text.take("<");
  if (outer && text.take("@")) {
    text.name();
    text.expect(",");
  }
  text.expect("[");
  if (!text.take("]")) {
    do sharding.axes.push_back(read_axis(text));
    while (text.take(","));
    text.expect("]");
  }
  while (text.take(",")) {
    if (text.take("combiner")) {
      text.expect("=");
      sharding.combiner = text.name();
      continue;
    }
    const bool replicated = text.take("replicated");
    if (!replicated) text.expect("unreduced");
    text.expect("=");
    (replicated ? sharding.replicated : sharding.unreduced) = read_parts(text);
  }
  if (outer) text.expect(">");
  text.end();
  return sharding;
}

void check_sharding(const Sharding& sharding, const Mesh& mesh, std::size_t rank, const std::string& place) {
  const auto refuse = [&](const std::string& what, const std::string& allowed) {
    throw UserError({what, place, sharding.text(), allowed, {}});
  };
  if (sharding.axes.size() != rank)
    refuse("A sharding has another number of axes than its tensor.", std::to_string(rank) + " axes");
  std::map<std::string, std::vector<std::pair<std::int64_t, std::int64_t>>> used;
  const auto visit = [&](const std::vector<AxisPart>& parts) {
    for (const AxisPart& part : parts) {
      std::size_t index = 0;
      try {
        index = mesh.axis(part.axis);
      } catch (const UserError& error) {
        UserError::Parts said = error.parts();
        said.place = place;
        throw UserError(std::move(said));
      }
      const std::int64_t size = mesh.axes[index].size, first = part.size > 0 ? part.before : 1;
      const std::int64_t last = part.size > 0 ? part.before * part.size : size;
      if (last > size || size % last != 0)
        refuse("A part does not divide its axis.", "\"" + part.axis + "\" has " + std::to_string(size) + " devices");
      for (const auto& [from, to] : used[part.axis])
        if (first < to && from < last)
          refuse("An axis of the mesh is used twice: \"" + part.axis + "\".", "each axis once");
      used[part.axis].emplace_back(first, last);
    }
  };
  for (const DividedAxis& axis : sharding.axes) visit(axis.parts);
  visit(sharding.replicated);
  visit(sharding.unreduced);
}

std::vector<AxisPart> joined(const Mesh& mesh, std::vector<AxisPart> parts) {
  std::vector<AxisPart> found;
  for (AxisPart& part : parts) {
    if (part.size == 0) part = {part.axis, 1, extent(mesh, part)};
    if (!found.empty() && found.back().axis == part.axis && found.back().before * found.back().size == part.before)
      found.back().size *= part.size;
    else
      found.push_back(std::move(part));
  }
  for (AxisPart& part : found)
    if (part.before == 1 && part.size == mesh.axes[mesh.axis(part.axis)].size) part.size = 0;
  return found;
}

Division divide(const Sharding& sharding, const Mesh& mesh) {
  check_sharding(sharding, mesh, sharding.axes.size(), "");
  Division found;
  Shape sizes;
  for (const MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  const Shape strides = row_major_strides(sizes);
  found.indices.assign(at(mesh.devices()), Shape(sharding.axes.size(), 0));
  for (std::size_t axis = 0; axis < sharding.axes.size(); ++axis) {
    std::int64_t count = 1;
    for (const AxisPart& part : sharding.axes[axis].parts) {
      const std::size_t number = mesh.axis(part.axis);
      const std::int64_t size = extent(mesh, part), after = sizes[number] / (part.size > 0 ? part.before * size : size);
      count *= size;
      for (std::int64_t place = 0; place < mesh.devices(); ++place) {
        std::int64_t& index = found.indices[at(mesh.device(place))][axis];
        index = index * size + place / strides[number] % sizes[number] / after % size;
      }
    }
    found.counts.push_back(count);
  }
  return found;
}

}  // namespace tilesim
