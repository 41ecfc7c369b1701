// Counts of a program: how often statements run, and how many it has.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Statements that are executed: loops of unknown length count once, branches on data by what is typical, calls by what
/// they call. The program must stay where it is and as it is.
class Executions {
 public:
  using TripCounts = std::map<const For*, std::int64_t>;

  /// `instead`: loops that have other extents than they say; must outlive this.
  /// `longest`: loops that have another extent on each core count as on the core that has most.
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
  std::map<std::string, double> shares_;  ///< of elements that are not zero, of tensors that branches read
};

/// What a program consists of.
struct Contents {
  struct Kernel {
    std::string function;  ///< empty: the program's own body
    const Scope* scope = nullptr;
  };
  std::int64_t operations = 0;  ///< that it executes
  std::int64_t statements = 0;  ///< in its text
  bool sends = false;           ///< from core to core
  std::vector<Kernel> kernels;  ///< scopes that stand in no other, in the order of the text
};
Contents contents(const Program& program);

/// Bytes with the padding of the layout; extents that are not numbers: 0.
std::int64_t stored_bytes(const Tensor& tensor);
/// Bytes and name of every tensor that has separate bytes, largest first.
std::vector<std::pair<std::int64_t, std::string>> footprint(const Program& program);

}  // namespace tilesim::program
