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
  std::set<std::string> notes;                          ///< behind the operation's name, or its kind
  std::set<FormKey> missing;                            ///< as of Costs
};

/// A device as a host: the closed form of each operation, and no less than its peak rates allow. What has no closed
/// form is a stream at stated rates; a loop whose length only data know counts one trip.
struct HostModel {
  OperationModel forms;
  double matrix_flops_per_second = 1;  ///< of any dtype
  std::map<DType, double> vector;      ///< operations per second by dtype, every one
  std::string unit = "core";           ///< what its units are called

  HostCosts price(const Graph& graph) const;
};

}  // namespace tilesim::analytic
