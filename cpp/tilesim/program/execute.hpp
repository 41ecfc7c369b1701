// Functional execution of a Program and the search for races.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/base/cancel.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::program {

enum class Order : std::uint8_t { text, early_loads, random };

struct ExecuteOptions {
  Order order = Order::text;  ///< early_loads: loads as early and consumers as late as allowed
  std::int64_t seed = 0;
  bool find_races =
      false;           ///< carry happens-before per buffer piece and tensor element; throws RaceError (small programs)
  bool poison = true;  ///< NaN / extreme integers in fresh and released buffers
  CancelToken* cancel = nullptr;
  /// Called with the name of a tensor after the last statement of a kernel that stored to it (per-operation
  /// comparison).
  std::function<void(const std::string& operation, const std::map<std::string, Array>& tensors)> observe;
};

/// A race, a missing release, a wait that can never be satisfied: names statements and versions.
class RaceError : public UserError {
 public:
  using UserError::UserError;
};

/// Runs the program. `inputs`: arrays by tensor name for roles input, weight and state; temporaries start poisoned.
/// Returns outputs and final state by name. Throws UserError on missing or wrong inputs, RaceError as above.
std::map<std::string, Array> execute(const Program& program, const std::map<std::string, Array>& inputs,
                                     const ExecuteOptions& options = {});

/// Programs with one wait, commit or release deleted, each with a description of what was deleted.
struct Mutant {
  Program program;
  std::string deleted;
};
std::vector<Mutant> mutants(const Program& program);

}  // namespace tilesim::program
