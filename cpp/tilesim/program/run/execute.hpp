// Executes a Program on data, and searches for races.
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

/// A kernel that has just completed.
struct Observed {
  std::vector<std::string> operation;                       ///< operations of the graph that the kernel computes
  std::string function;                                     ///< function that contains the kernel; empty: the main body
  std::int64_t call = 0;                                    ///< number of the innermost active call; 0 in the main body
  std::vector<std::pair<std::int64_t, std::string>> calls;  ///< active calls, outermost first: number and function
  std::map<std::string, std::string> bindings;              ///< formal to actual tensor
  std::map<std::string, Array> tensors;                     ///< stored tensors by actual name
  std::set<std::string> loaded;                             ///< loaded tensors by actual name
};

struct ExecuteOptions {
  Order order = Order::text;  ///< early_loads: loads as early, consumers as late as allowed
  std::int64_t seed = 0;
  bool find_races =
      false;  ///< check order of accesses per buffer piece and tensor element; throws RaceError (small programs)
  bool poison = true;    ///< fill new and released buffers with NaN or extreme integers
  bool planned = false;  ///< tensors share memory as in the memory plan
  CancelToken* cancel = nullptr;
  TileExecutor* executor = nullptr;  ///< executes tile computes; null: `execute` of the tile module
  /// Called after each kernel in text order, with the tensors that the kernel stored. The arrays share the program's
  /// memory, so later kernels change them.
  std::function<void(Observed& kernel)> observe;
};

/// A race, a missing release, or a wait that no statement satisfies. The message names statements and versions.
class RaceError : public UserError {
 public:
  using UserError::UserError;
};

/// The executor in the options, or the default executor.
TileExecutor& executor_of(const ExecuteOptions* options);

/// Runs the program. `inputs`: arrays by tensor name for roles input, weight and state; temporaries start poisoned.
/// Returns outputs and final state by name. Throws UserError for missing or wrong inputs, and RaceError.
std::map<std::string, Array> execute(const Program& program, const std::map<std::string, Array>& inputs,
                                     const ExecuteOptions& options = {});

/// A change to one statement. erase, repeat: delete or duplicate a wait, commit or release (repeat: also acquire,
/// receive, signal); delay: move it behind the next statement of its block; fewer: a wait requires one piece less.
enum class Change : std::uint8_t { erase, repeat, delay, fewer };

/// A program with one changed statement, and a description of this statement.
struct Mutant {
  Program program;
  std::string changed;
};
std::vector<Mutant> mutants(const Program& program, Change change = Change::erase);

}  // namespace tilesim::program
