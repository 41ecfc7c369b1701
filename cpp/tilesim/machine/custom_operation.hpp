// User-defined operations that graphs name: their meaning, the latency of their kernel and the unit that runs it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim {

/// A user-defined operation; methods may be called from any thread.
class CustomOperation {
 public:
  virtual ~CustomOperation() = default;
  /// Computes the results, which have the types of the graph.
  virtual void evaluate(const std::vector<Array>& operands, std::vector<Array>& results) const = 0;
  /// Cycles of the kernel on an otherwise idle core of the machine; only the types of the arrays matter.
  virtual std::int64_t cycles(const Machine& machine, const std::vector<Array>& operands,
                              const std::vector<Array>& results) const = 0;
  /// "vector", or a separate unit.
  virtual std::string queue() const = 0;
};

/// Registers an operation of the process under a name; replaces an earlier one of that name.
void declare_operation(const std::string& name, std::shared_ptr<const CustomOperation> operation);
/// Null for an unknown name.
std::shared_ptr<const CustomOperation> find_operation(const std::string& name);
/// Throws UserError for an unknown name, with the nearest one.
std::shared_ptr<const CustomOperation> declared_operation(const std::string& name, const std::string& place);

}  // namespace tilesim
