#include "tilesim/cluster/partition/layout.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::partitioning {

bool contains(const Atoms& atoms, int atom) { return std::ranges::find(atoms, atom) != atoms.end(); }

bool is_prefix(const Atoms& shorter, const Atoms& longer) {
  return shorter.size() <= longer.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

namespace {

void collect_cuts(const Mesh& mesh, const std::vector<AxisPart>& parts, std::vector<std::set<std::int64_t>>& cuts) {
  for (const AxisPart& part : parts) {
    const std::size_t axis = mesh.axis(part.axis);
    if (part.size == 0) continue;
    cuts[axis].insert(part.before);
    cuts[axis].insert(part.before * part.size);
  }
}

std::vector<std::int64_t> primes(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t prime = 2; prime * prime <= number; ++prime)
    for (; number % prime == 0; number /= prime) found.push_back(prime);
  if (number > 1) found.push_back(number);
  return found;
}

}  // namespace

Grid::Grid(const Mesh& mesh, std::span<const Sharding* const> shardings) : mesh_(mesh), devices_(mesh.devices()) {
  std::vector<std::set<std::int64_t>> cuts(mesh.axes.size());
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) cuts[axis] = {1, mesh.axes[axis].size};
  for (const Sharding* sharding : shardings) {
    for (const DividedAxis& axis : sharding->axes) collect_cuts(mesh, axis.parts, cuts);
    collect_cuts(mesh, sharding->replicated, cuts);
    collect_cuts(mesh, sharding->unreduced, cuts);
  }
  std::int64_t stride = devices_;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    std::int64_t before = 1;
    for (const std::int64_t cut : cuts[axis]) {
      if (cut % before != 0)
        throw UserError({"parts of a mesh axis overlap in shardings",
                         "mesh axis \"" + mesh.axes[axis].name + "\"",
                         std::to_string(before) + " and " + std::to_string(cut),
                         "parts whose bounds divide each other",
                         {}});
      for (const std::int64_t prime : primes(cut / before)) {
        stride /= prime;
        atoms_.push_back({axis, before, prime, stride});
        before *= prime;
      }
    }
  }
}

std::int64_t Grid::parts(const Atoms& atoms) const {
  std::int64_t product = 1;
  for (const int atom : atoms) product *= size(atom);
  return product;
}

std::int64_t Grid::index(std::int64_t place, const Atoms& atoms) const {
  std::int64_t index = 0;
  for (const int atom : atoms) {
    const Atom& a = atoms_[at(atom)];
    index = index * a.size + place / a.stride % a.size;
  }
  return index;
}

std::vector<std::int64_t> Grid::index_of_devices(const Atoms& atoms) const {
  std::vector<std::int64_t> result(at(devices_));
  for (std::int64_t place = 0; place < devices_; ++place) result[at(mesh_.device(place))] = index(place, atoms);
  return result;
}

std::vector<std::int64_t> Grid::groups(const Atoms& atoms) const {
  Atoms others;
  for (int atom = 0; atom < static_cast<int>(atoms_.size()); ++atom)
    if (!contains(atoms, atom)) others.push_back(atom);
  const std::int64_t extent = parts(atoms);
  std::vector<std::int64_t> result(at(devices_));
  for (std::int64_t place = 0; place < devices_; ++place)
    result[at(index(place, others) * extent + index(place, atoms))] = mesh_.device(place);
  return result;
}

Atoms Grid::atoms(const std::vector<AxisPart>& parts) const {
  Atoms result;
  for (const AxisPart& part : parts) {
    const std::size_t axis = mesh_.axis(part.axis);
    const std::int64_t end = part.size == 0 ? mesh_.axes[axis].size : part.before * part.size;
    for (std::size_t i = 0; i < atoms_.size(); ++i) {
      const Atom& atom = atoms_[i];
      if (atom.axis == axis && atom.before >= part.before && atom.before * atom.size <= end)
        result.push_back(static_cast<int>(i));
    }
  }
  return result;
}

std::vector<AxisPart> Grid::axis_parts(const Atoms& atoms) const {
  std::vector<AxisPart> parts;
  for (const int index : atoms) {
    const Atom& atom = atoms_[at(index)];
    parts.push_back({mesh_.axes[atom.axis].name, atom.before, atom.size});
  }
  return joined(mesh_, std::move(parts));
}

bool Layout::uses(int atom) const {
  if (contains(partial, atom)) return true;
  return std::ranges::any_of(axes, [&](const Atoms& atoms) { return contains(atoms, atom); });
}

Layout whole(std::size_t rank) {
  Layout layout;
  layout.axes.resize(rank);
  return layout;
}

Sharding to_sharding(const Grid& grid, const Layout& layout) {
  Sharding sharding;
  sharding.given = true;
  for (const Atoms& atoms : layout.axes) sharding.axes.push_back({grid.axis_parts(atoms), false, -1});
  sharding.unreduced = grid.axis_parts(layout.partial);
  if (!layout.partial.empty() && layout.combiner != "add") sharding.combiner = layout.combiner;
  return sharding;
}

std::int64_t padded(std::int64_t extent, std::int64_t parts) { return round_up(extent, parts); }

TensorType local_type(const Grid& grid, const TensorType& type, const Layout& layout) {
  TensorType local = type;
  for (std::size_t axis = 0; axis < layout.axes.size(); ++axis)
    local.shape[axis] = ceil_div(type.shape[axis], grid.parts(layout.axes[axis]));
  return local;
}

}  // namespace tilesim::partitioning
