// Finds values between kernels that may stay in the scratchpad, and how kernels use them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/passes/traffic.hpp"

namespace tilesim::lower {

/// A kernel of a body. A call or loop of the graph counts as a kernel without `use`.
struct KernelState {
  std::size_t statement = 0;           ///< index in the body
  std::size_t number = 0;              ///< index among the body's scopes
  bool opaque = false;                 ///< true for a call or loop
  std::vector<std::size_t> runs = {};  ///< bodies that it runs, directly or through calls
  KernelUse use = {};
  std::int64_t held = 0;   ///< scratchpad bytes of its slots
  std::int64_t least = 0;  ///< fewest scratchpad bytes for the same number of slots
  KernelFacts facts = {};
  std::optional<program::Scope> scope = {};  ///< replaces the scope in the program
};

/// A kernel: index of its body, and its index in the body.
using KernelPlace = std::pair<std::size_t, std::size_t>;

struct Candidate {
  std::string tensor;
  std::size_t body = 0;
  std::int64_t first = 0, last = 0;  ///< kernels of the body
  std::int64_t core_bytes = 0;
  std::vector<program::HeldPart> parts = {};  ///< parts of cores, if cores read each other's stores
  double saved = 0;                           ///< memory bytes that it saves
  std::vector<KernelPlace> places = {};       ///< kernels during which it stays, including those of called functions
  bool wanted = false;                        ///< requested by name
};

class Candidates {
 public:
  struct Body {
    std::string function;
    program::Block* block = nullptr;
    std::vector<KernelState> kernels;
    double times = 0;  ///< number of times that the body runs
  };
  using States = std::function<const KernelState&(std::size_t body, std::size_t kernel)>;

  /// Throws UserError if the user names a tensor that is not a value between kernels or that must be in memory.
  explicit Candidates(Lowering& lowering);

  const std::vector<Body>& bodies() const { return bodies_; }
  /// Candidates requested by name, then others by saving per byte and kernel, the largest first.
  std::vector<const Candidate*> in_order() const;
  const std::string& owner(const std::string& tensor) const;
  /// Share of the tensors bound to a formal name for which `stays` is true; for any other tensor, 0 or 1.
  double part(const std::string& name, const std::function<bool(const std::string&)>& stays) const;
  DType dtype(const std::string& tensor) const;  ///< dtype of a tensor, or of the tensors bound to a formal name
  /// The largest number of bytes in one core, and the parts of cores if cores read each other's stores. Empty if
  /// several cores store the same elements, or if a core's elements are not a box.
  struct Split {
    std::int64_t core_bytes = 0;
    std::vector<program::HeldPart> parts = {};
  };
  std::optional<Split> split(const Candidate& one, const States& states) const;
  /// The kernel lowered for `bytes` bytes; empty if it does not fit or cannot be lowered again.
  std::optional<KernelState> again(std::size_t body, std::size_t kernel, std::int64_t bytes);
  void replace(std::pair<std::size_t, std::size_t> place, const KernelState& kernel);
  void stays(const Candidate& one, std::int64_t address, const Split& split);
  void note();  ///< adds resident values and savings to the program's notes

 private:
  struct Seen {
    std::size_t body = 0;
    std::int64_t first = 0, last = 0;
    bool stored_first = false;
    double saved = 0;
    std::set<std::string> names;  ///< names of the value that kernels use
  };
  /// A tensor that a call binds to a formal name of a function.
  struct Binding {
    std::string actual;
    std::size_t body = 0;  ///< calling body
    double trips = 1;      ///< trips of loops around the call
  };
  void find_owners();
  void find_calls();
  void bind(std::size_t body, const program::Statement& statement, double trips);
  void see_call(std::size_t body, const program::Statement& statement, std::int64_t kernel);
  void touch(std::size_t body, const std::string& tensor, std::int64_t kernel, bool store);
  bool stores_first(const std::string& function, const std::string& formal) const;
  double moved(const std::string& formal) const;  ///< bytes over all runs of the function
  void add_places(Candidate& one) const;
  void find_bodies();
  void read(std::size_t body, const program::Block& block);
  void see_order(std::size_t body, const program::Scope& scope, std::int64_t kernel);
  void see_expressions(const program::Statement& statement);
  void refuse_bound(const std::string& name, const char* reason);
  void find_runs(std::size_t body, const program::Statement& statement, KernelState& kernel) const;
  void refuse_all(const program::Statement& statement, const char* reason);
  void refuse(const std::string& tensor, const std::string& reason) { refused_.try_emplace(owner(tensor), reason); }
  void follow_wish();
  void make();
  std::int64_t whole_bytes(const program::Tensor& tensor) const;
  void see_tensors();  ///< call it again when kernels get new tensors
  const Traffic& traffic();

  Lowering& lowering_;
  bool several_;
  std::map<std::string, program::Tensor*> tensors_;
  std::map<std::string, std::string> owners_;
  std::map<std::string, std::string> refused_;            ///< by owner: why it must be in memory
  std::map<std::string, std::string> levels_;             ///< by owner: requested level
  std::map<std::string, Seen> seen_;                      ///< by owner
  std::map<std::string, std::vector<Binding>> bindings_;  ///< by formal name
  std::map<std::string, std::size_t> home_;               ///< body of each formal name
  std::map<std::string, std::size_t> body_of_;            ///< body of each function
  std::vector<std::vector<std::size_t>> called_;          ///< per body: bodies that it calls
  std::vector<Body> bodies_;
  std::vector<Candidate> candidates_;
  TensorIndex index_;
  std::optional<Traffic> traffic_;  ///< traffic of the tensors that were read
  std::size_t tensors_seen_ = 0;
  std::int64_t staying_ = 0;
  double saved_ = 0;
};

}  // namespace tilesim::lower
