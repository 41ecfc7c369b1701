// Finds values between kernels that may stay in the scratchpad, and how the kernels use them.
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

/// A kernel of a body, or a call or loop of the graph, which has no use itself.
struct KernelState {
  std::size_t statement = 0;           ///< of the body
  std::size_t number = 0;              ///< among the body's scopes
  bool opaque = false;                 ///< runs functions
  std::vector<std::size_t> runs = {};  ///< their bodies, with those that they call
  KernelUse use = {};
  std::int64_t held = 0;   ///< bytes of scratchpad that its slots take
  std::int64_t least = 0;  ///< bytes that slots as many as its own take at least
  KernelFacts facts = {};
  std::optional<program::Scope> scope = {};  ///< instead of the one in the program
};

/// A kernel of a body.
using KernelPlace = std::pair<std::size_t, std::size_t>;

struct Candidate {
  std::string tensor;
  std::size_t body = 0;
  std::int64_t first = 0, last = 0;  ///< kernels of the body
  std::int64_t core_bytes = 0;
  std::vector<program::HeldPart> parts = {};  ///< where cores read what others store
  double saved = 0;                           ///< bytes of memory
  std::vector<KernelPlace> places = {};       ///< during which it stays, in functions that are called meanwhile too
  bool wanted = false;                        ///< by name
};

class Candidates {
 public:
  struct Body {
    std::string function;
    program::Block* block = nullptr;
    std::vector<KernelState> kernels;
    double times = 0;  ///< that it runs
  };
  using States = std::function<const KernelState&(std::size_t body, std::size_t kernel)>;

  /// Throws UserError where the wish names what is not a value between kernels or must lie in memory.
  explicit Candidates(Lowering& lowering);

  const std::vector<Body>& bodies() const { return bodies_; }
  /// Those asked for by name, then the ones that save most per byte and kernel.
  std::vector<const Candidate*> in_order() const;
  const std::string& owner(const std::string& tensor) const;
  /// Of all that calls bind to a name, the part for which `stays` holds; of a tensor's own name, all or nothing.
  double part(const std::string& name, const std::function<bool(const std::string&)>& stays) const;
  DType dtype(const std::string& tensor) const;  ///< of a tensor, or of what calls bind to the name
  /// Bytes that a core holds of a candidate at most, and the parts of the cores where they read from each other;
  /// nothing where several cores store the same elements, or one stores no box.
  struct Split {
    std::int64_t core_bytes = 0;
    std::vector<program::HeldPart> parts = {};
  };
  std::optional<Split> split(const Candidate& one, const States& states) const;
  /// The kernel in so many bytes; nothing where it does not fit or that is not known.
  std::optional<KernelState> again(std::size_t body, std::size_t kernel, std::int64_t bytes);
  void replace(std::pair<std::size_t, std::size_t> place, const KernelState& kernel);
  void stays(const Candidate& one, std::int64_t address, const Split& split);
  void note();  ///< in the program: how many values stay, and what that saves

 private:
  struct Seen {
    std::size_t body = 0;
    std::int64_t first = 0, last = 0;
    bool stored_first = false;
    double saved = 0;
    std::set<std::string> names;  ///< of the group, that kernels use
  };
  /// What a call binds to a function's name for a tensor.
  struct Binding {
    std::string actual;
    std::size_t body = 0;  ///< that calls
    double trips = 1;      ///< of the loops around the call
  };
  void find_owners();
  void find_calls();
  void bind(std::size_t body, const program::Statement& statement, double trips);
  void see_call(std::size_t body, const program::Statement& statement, std::int64_t kernel);
  void touch(std::size_t body, const std::string& tensor, std::int64_t kernel, bool store);
  bool stores_first(const std::string& function, const std::string& formal) const;
  double moved(const std::string& formal) const;  ///< bytes of all runs of the function whose name it is
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
  void see_tensors();  ///< a kernel that is lowered again may add some
  const Traffic& traffic();

  Lowering& lowering_;
  bool several_;
  std::map<std::string, program::Tensor*> tensors_;
  std::map<std::string, std::string> owners_;
  std::map<std::string, std::string> refused_;            ///< by owner: why it must lie in memory
  std::map<std::string, std::string> levels_;             ///< by owner: as asked for
  std::map<std::string, Seen> seen_;                      ///< by owner
  std::map<std::string, std::vector<Binding>> bindings_;  ///< by formal name
  std::map<std::string, std::size_t> home_;               ///< of formal names: body
  std::map<std::string, std::size_t> body_of_;            ///< by function
  std::vector<std::vector<std::size_t>> called_;          ///< by body: bodies that it calls
  std::vector<Body> bodies_;
  std::vector<Candidate> candidates_;
  TensorIndex index_;
  std::optional<Traffic> traffic_;  ///< of all tensors seen
  std::size_t tensors_seen_ = 0;
  std::int64_t staying_ = 0;
  double saved_ = 0;
};

}  // namespace tilesim::lower
