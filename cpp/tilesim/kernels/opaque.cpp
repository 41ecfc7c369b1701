// User-defined operations, by their declared definition.
#include "tilesim/kernels/kernel.hpp"
#include "tilesim/machine/custom_operation.hpp"

namespace tilesim::kernels {

Results opaque(const Call& call) {
  const auto operation = declared_operation(call.attributes().text("target"), "operation \"" + call.op.name + "\"");
  Results results;
  for (std::size_t i = 0; i < call.op.results.size(); ++i) {
    const TensorType& type = call.result(i);
    results.emplace_back(type.dtype, type.shape);
  }
  operation->evaluate(call.operands, results);
  return results;
}

}  // namespace tilesim::kernels
