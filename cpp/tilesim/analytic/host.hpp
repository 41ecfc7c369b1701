// Closed-form time of operations that run on the host, each as a separate kernel.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tilesim/analytic/operations.hpp"

namespace tilesim::analytic {

struct HostCosts {
  std::vector<std::pair<std::string, double>> seconds;  ///< by operation of the entry, in order
  std::set<std::string> notes;                          ///< printed after the operation's name or kind
  std::set<FormKey> missing;                            ///< as in Costs
};

/// A device as a host: the closed form of each operation, bounded by its peak rates. An operation without a closed form
/// is a stream at stated rates; a loop with a data-dependent length counts one trip.
struct HostModel {
  OperationModel forms;
  double matrix_flops_per_second = 1;  ///< of any dtype
  std::map<DType, double> vector;      ///< operations per second for every dtype
  std::string unit = "core";           ///< name of its units

  HostCosts price(const Graph& graph) const;
};

}  // namespace tilesim::analytic
