#include "tilesim/machine/custom_operation.hpp"

#include <map>
#include <mutex>

#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const CustomOperation>> operations;
};

/// Never destroyed: an operation may hold objects of an interpreter that has ended by then.
Registry& registry() {
  static Registry* const held = new Registry;
  return *held;
}

}  // namespace

void declare_operation(const std::string& name, std::shared_ptr<const CustomOperation> operation) {
  const std::lock_guard lock(registry().mutex);
  registry().operations[name].swap(operation);  // the earlier operation is destroyed after the lock is released
}

std::shared_ptr<const CustomOperation> find_operation(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().operations.find(name);
  return found == registry().operations.end() ? nullptr : found->second;
}

std::shared_ptr<const CustomOperation> declared_operation(const std::string& name, const std::string& place) {
  if (auto found = find_operation(name)) return found;
  std::vector<std::string> known;
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [one, operation] : registry().operations) known.push_back(one);
  }
  throw UserError(
      {"this operation is not declared", place, "'" + name + "'", known.empty() ? "none was" : join(known),
       nearest(name, known).empty() ? "ts.isa.operation(\"" + name + "\", ...) declares it" : nearest(name, known)});
}

}  // namespace tilesim
