// User-defined operations that graphs name: their meaning, the latency of their kernel and the unit that runs it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim {

/// Read from any thread.
class CustomOperation {
 public:
  virtual ~CustomOperation() = default;
  /// Fills the results, whose types are those of the graph.
  virtual void evaluate(const std::vector<Array>& operands, std::vector<Array>& results) const = 0;
  /// Of the kernel on a core of the machine that does nothing else; of arrays the types alone matter.
  virtual std::int64_t cycles(const Machine& machine, const std::vector<Array>& operands,
                              const std::vector<Array>& results) const = 0;
  /// "vector", or a separate unit.
  virtual std::string queue() const = 0;
};

/// The process knows operations by name; a later one of a name takes the place of the earlier one.
void declare_operation(const std::string& name, std::shared_ptr<const CustomOperation> operation);
/// Null where none is called so.
std::shared_ptr<const CustomOperation> find_operation(const std::string& name);
/// Throws UserError where none is called so, with the nearest.
std::shared_ptr<const CustomOperation> declared_operation(const std::string& name, const std::string& place);

}  // namespace tilesim
