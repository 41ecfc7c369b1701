// Counts a program's statements, and how often they are executed.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Counts executed operations. A loop of unknown length counts as one trip, a data-dependent branch by its typical
/// share, a call by its function's statements. The program must outlive this object and must not change.
class Executions {
 public:
  using TripCounts = std::map<const For*, std::int64_t>;

  /// `instead`: trip counts that replace those of some loops; must outlive this object. `longest`: a loop whose trip
  /// count differs between cores has the largest trip count of all cores.
  explicit Executions(const Program& program, const TripCounts* instead = nullptr, bool longest = false);
  std::int64_t all() { return count(program_.body); }
  std::int64_t count(const Block& block);  ///< at most INT64_MAX
  std::int64_t count(const Statement& statement);

 private:
  std::int64_t called(const std::string& name);
  std::int64_t taken(const If& branch, std::int64_t inside) const;

  const Program& program_;
  const TripCounts* instead_;
  const bool longest_;
  std::unordered_map<std::string, const Block*> bodies_;
  std::unordered_map<const Block*, std::int64_t> totals_;
  std::map<std::string, double> shares_;  ///< by tensor that a branch reads: share of nonzero elements
};

/// Numbers of operations and statements of a program, and its kernels.
struct Contents {
  struct Kernel {
    std::string function;  ///< function that contains the kernel; empty: the main body
    const Scope* scope = nullptr;
  };
  std::int64_t operations = 0;  ///< number of executed operations
  std::int64_t statements = 0;  ///< number of statements in the text
  bool sends = false;           ///< whether a core sends to another core
  std::vector<Kernel> kernels;  ///< outermost scopes in text order
};
Contents contents(const Program& program);

/// Bytes of a tensor with the padding of its layout; 0 if an extent is not constant.
std::int64_t stored_bytes(const Tensor& tensor);
/// Bytes and name of every tensor that is not an alias, largest first.
std::vector<std::pair<std::int64_t, std::string>> footprint(const Program& program);

}  // namespace tilesim::program
