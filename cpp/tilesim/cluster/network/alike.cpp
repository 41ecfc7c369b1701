// Whether two groups of devices have equivalent links and routes between them.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/network/network.hpp"

namespace tilesim::cluster {

namespace {

/// Whether all members are shifted by the same distance along an axis.
bool shifted(const std::vector<int>& one, const std::vector<int>& other, int stride, int size) {
  const int more = other[0] / stride % size - one[0] / stride % size;
  for (std::size_t i = 1; i < one.size(); ++i)
    if (other[i] / stride % size - one[i] / stride % size != more) return false;
  return true;
}

}  // namespace

bool Network::alike(const std::vector<int>& one, const std::vector<int>& other) const {
  if (!regular() || one.size() != other.size()) return false;
  for (std::size_t i = 0; i < dimensions_.size(); ++i) {
    const Dimension& dimension = dimensions_[i];
    const int stride = strides_[i], size = static_cast<int>(dimension.size());
    const int more = other[0] / stride % size - one[0] / stride % size;
    int along = stride;
    for (const std::int64_t wide : dimension.grid() ? dimension.sizes : std::vector<std::int64_t>{size}) {
      if (!shifted(one, other, along, static_cast<int>(wide))) return false;
      along *= static_cast<int>(wide);
    }
    if (dimension.kind == DimensionKind::dragonfly && more != 0) return false;
    if (dimension.kind == DimensionKind::fat_tree) {  // the same members share a leaf, and the same leaves a pod
      const std::int64_t whole = dimension.pod > 0 ? dimension.pod : dimension.leaf;
      const auto within = [&](const std::vector<int>& group) {
        return std::all_of(group.begin(), group.end(), [&](int device) {
          return device / stride % size / dimension.leaf == group[0] / stride % size / dimension.leaf;
        });
      };
      if (more % whole != 0 && !(within(one) && within(other))) return false;
    }
    const bool rails = dimension.rails > 0 && dimension.rails < stride;  // the same members share a port
    const int port = rails ? static_cast<int>(stride / dimension.rails) : 1;
    if (rails && (other[0] % stride - one[0] % stride) % port != 0)
      for (const auto* group : {&one, &other})
        if (std::any_of(group->begin(), group->end(), [&](int d) { return d % stride != (*group)[0] % stride; }))
          return false;
  }
  return true;
}

}  // namespace tilesim::cluster
