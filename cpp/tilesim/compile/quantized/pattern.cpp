#include "tilesim/compile/quantized/pattern.hpp"

#include "tilesim/graph/passes/two_of_four.hpp"

namespace tilesim::lower {

void compress_weights(Graph& graph, const Share& machine, std::vector<std::string>& notes) {
  const auto takes = [&](const Op&, DType dtype) -> std::string {
    const ArraySpec& array = machine.core.array;
    const auto rate = array.rates.find(dtype);
    if (array.count == 0 || !array.two_of_four) return "the arrays of " + machine.name + " do not take the pattern";
    if (rate == array.rates.end() || rate->second <= 0) return "the arrays do not multiply " + std::string(name(dtype));
    return {};
  };
  for (std::string& note : compress_two_of_four(graph, takes)) notes.push_back(std::move(note));
}

}  // namespace tilesim::lower
