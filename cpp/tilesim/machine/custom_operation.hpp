// User-defined operations in graphs: definition, latency of the kernel, and the unit that runs it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim {

/// A user-defined operation. Any thread may call its methods.
class CustomOperation {
 public:
  virtual ~CustomOperation() = default;
  /// Computes the results; their arrays have the types that the graph declares.
  virtual void evaluate(const std::vector<Array>& operands, std::vector<Array>& results) const = 0;
  /// Cycles of the kernel on an otherwise idle core. Only types and shapes of the arrays matter.
  virtual std::int64_t cycles(const Machine& machine, const std::vector<Array>& operands,
                              const std::vector<Array>& results) const = 0;
  /// Queue that runs the kernel: "vector", or the name of a separate unit.
  virtual std::string queue() const = 0;
};

/// Registers an operation under a name for this process; replaces an operation with the same name.
void declare_operation(const std::string& name, std::shared_ptr<const CustomOperation> operation);
/// Null if no operation has this name.
std::shared_ptr<const CustomOperation> find_operation(const std::string& name);
/// Throws UserError with the nearest name if no operation has this name.
std::shared_ptr<const CustomOperation> declared_operation(const std::string& name, const std::string& place);

}  // namespace tilesim
