// Functional execution of a Program and the search for races.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/base/cancel.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::program {

enum class Order : std::uint8_t { text, early_loads, random };

/// A kernel that has just run.
struct Observed {
  std::vector<std::string> operation;  ///< operations of the graph, as in the scope
  std::string function;                ///< function that contains the kernel; empty in the main body
  std::int64_t call = 0;               ///< ordinal of the call under way, 0 in the main body
  std::vector<std::pair<std::int64_t, std::string>> calls;  ///< under way, outermost first: ordinal and function
  std::map<std::string, std::string> bindings;              ///< formal tensor to actual one
  std::map<std::string, Array> tensors;                     ///< stored tensors, by actual name
  std::set<std::string> loaded;                             ///< loaded tensors, by actual name
};

struct ExecuteOptions {
  Order order = Order::text;  ///< early_loads: loads as early and consumers as late as allowed
  std::int64_t seed = 0;
  bool find_races =
      false;           ///< carry happens-before per buffer piece and tensor element; throws RaceError (small programs)
  bool poison = true;  ///< NaN / extreme integers in fresh and released buffers
  bool planned = false;  ///< tensors share memory by the memory plan
  CancelToken* cancel = nullptr;
  TileExecutor* executor = nullptr;  ///< carries out tile computes; null: `execute` of the tile room
  /// Called in text order after each kernel with the tensors that it stored to (per-operation comparison). The arrays
  /// share the program's memory: later kernels read values that are written to them.
  std::function<void(Observed& kernel)> observe;
};

/// A race, a missing release, a wait that can never be satisfied: names statements and versions.
class RaceError : public UserError {
 public:
  using UserError::UserError;
};

/// The executor of the options, or the default one.
TileExecutor& executor_of(const ExecuteOptions* options);

/// Runs the program. `inputs`: arrays by tensor name for roles input, weight and state; temporaries start poisoned.
/// Returns outputs and final state by name. Throws UserError on missing or wrong inputs, RaceError as above.
std::map<std::string, Array> execute(const Program& program, const std::map<std::string, Array>& inputs,
                                     const ExecuteOptions& options = {});

/// erase, repeat: a wait, commit or release (repeat: also acquire, receive, signal) is deleted or duplicated; delay: it
/// moves behind the next statement of its block; fewer: a wait requires one piece less.
enum class Change : std::uint8_t { erase, repeat, delay, fewer };

/// Programs with one statement changed, each with a description of the statement.
struct Mutant {
  Program program;
  std::string changed;
};
std::vector<Mutant> mutants(const Program& program, Change change = Change::erase);

}  // namespace tilesim::program
