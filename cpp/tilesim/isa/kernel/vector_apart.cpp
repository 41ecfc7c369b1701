#include "tilesim/isa/kernel/vector_apart.hpp"

#include <algorithm>
#include <map>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

VectorCompute with_outputs(const VectorCompute& compute, const std::vector<std::size_t>& outputs) {
  VectorCompute part = compute;
  part.nodes.clear(), part.outputs.clear();
  std::vector<bool> needed(compute.nodes.size(), false);
  for (const std::size_t o : outputs) needed[static_cast<std::size_t>(compute.outputs[o].node)] = true;
  for (std::size_t i = needed.size(); i-- > 0;)
    if (needed[i])
      for (const int argument : compute.nodes[i].arguments)
        if (argument >= 0) needed[static_cast<std::size_t>(argument)] = true;
  std::vector<int> places(compute.nodes.size(), -1);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    VectorNode node = compute.nodes[i];
    for (int& argument : node.arguments)
      if (argument >= 0) argument = places[static_cast<std::size_t>(argument)];
    places[i] = static_cast<int>(part.nodes.size());
    part.nodes.push_back(node);
  }
  for (const std::size_t o : outputs) {
    part.outputs.push_back(compute.outputs[o]);
    part.outputs.back().node = places[static_cast<std::size_t>(compute.outputs[o].node)];
  }
  return part;
}

std::vector<std::vector<std::size_t>> groups_of_outputs(const VectorCompute& compute) {
  std::map<std::vector<int>, std::vector<std::size_t>> by_dims;
  for (std::size_t o = 0; o < compute.outputs.size(); ++o) {
    std::vector<int> dims = compute.outputs[o].reduce;
    std::ranges::sort(dims);
    by_dims[dims].push_back(o);
  }
  std::vector<std::vector<std::size_t>> groups;
  for (const auto& [dims, outputs] : by_dims) groups.push_back(outputs);
  if (groups.size() == 1 && groups[0].size() > 1) {
    const auto half = static_cast<std::ptrdiff_t>(groups[0].size() / 2);
    groups.emplace_back(groups[0].begin() + half, groups[0].end());
    groups[0].resize(static_cast<std::size_t>(half));
  }
  return groups;
}

Kernel behind(const Kernel& first, const Kernel& second) {
  require(first.data.empty() && second.data.empty(), "a kernel followed by data cannot precede another");
  Kernel both = first;
  both.words.pop_back();  // without its return
  for (KernelLoop loop : second.loops) {
    loop.begin += both.words.size(), loop.end += both.words.size();
    both.loops.push_back(loop);
  }
  both.words.insert(both.words.end(), second.words.begin(), second.words.end());
  return both;
}

}  // namespace tilesim::isa
