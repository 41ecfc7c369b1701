// Closed-form time of operations that run on the host, each as a separate kernel.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tilesim/analytic/operations.hpp"

namespace tilesim::analytic {

struct HostCosts {
  std::vector<std::pair<std::string, double>> seconds;  ///< by operation of the entry function, in order
  std::set<std::string> notes;                          ///< assumptions, printed after the operation's name or kind
  std::set<FormKey> missing;                            ///< as in Costs
};

/// A device used as a host: the closed form of each operation, bounded by the peak rates. An operation without closed
/// form streams its data at the given rates; a loop with data-dependent length counts as one trip.
struct HostModel {
  OperationModel forms;
  double matrix_flops_per_second = 1;  ///< the same for all dtypes
  std::map<DType, double> vector;      ///< operations per second by dtype
  std::string unit = "core";           ///< what a unit of the device is called

  HostCosts price(const Graph& graph) const;
};

}  // namespace tilesim::analytic
