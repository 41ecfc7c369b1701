// The links of a cluster and the routes between its devices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/cluster/network/dimension.hpp"

namespace tilesim::cluster {

/// A link in one direction. Each lane carries one message at a time, at the full rate.
struct Link {
  int source = 0, target = 0;  ///< nodes: devices first, then switches and routers
  std::int64_t bytes_per_second = 0;
  std::int64_t latency = 0;  ///< in picoseconds
  int lanes = 1;
  bool hashed = false;  ///< source and target select the lane; otherwise the first free one
};

/// A change of links: a straggler (all links of a device), or a degraded or failed link.
struct Fault {
  int source = 0;
  int target = -1;     ///< -1: every link at `source`, in both directions
  int dimension = -1;  ///< -1: in every dimension
  double share = 1;    ///< remaining share of the rate; 0: failed
};

/// Devices are numbered with the first dimension innermost. Immutable.
class Network {
 public:
  /// {"dimensions": [...], "faults": [...]} or {"graph": {...}, "faults": [...]}. Throws UserError for malformed input,
  /// a disconnected network, or a fault on a missing link.
  static Network read(const Json& json);

  int devices() const { return devices_; }
  const std::vector<Dimension>& dimensions() const { return dimensions_; }  ///< empty: a graph
  const std::vector<Fault>& faults() const { return faults_; }
  bool regular() const { return !dimensions_.empty() && faults_.empty(); }
  /// The same network without its faults.
  const Network& healthy() const { return healthy_ ? *healthy_ : *this; }
  const std::vector<Link>& links() const { return links_; }
  int stride(int dimension) const { return strides_[static_cast<std::size_t>(dimension)]; }

  /// Appends the links from one device to another, in order; none if both are equal.
  void route(int source, int target, std::vector<int>& links) const;
  /// Whether two groups are equivalent: one is the other shifted along each axis, with equal links and routes.
  bool alike(const std::vector<int>& one, const std::vector<int>& other) const;
  /// Dimension of a link, and its class under translations of the devices (see `symmetry.hpp`).
  int dimension_of_link(int link) const;
  int local_link(int link) const;
  /// The first device of the link's instance of its dimension.
  int first_of_link(int link) const;

 private:
  void build();
  void build_dimension(int dimension);
  void read_graph(const Json& json);
  void read_faults(const Json& json);
  void apply(const Fault& fault, const Json& json);
  void search_routes();
  int instance_base(int dimension, int device) const;

  std::vector<Dimension> dimensions_;
  std::vector<int> strides_, bases_, per_instance_;
  std::vector<Link> links_;
  std::vector<Fault> faults_;
  std::shared_ptr<const Network> healthy_;  ///< null: no faults
  int devices_ = 0, nodes_ = 0;
  bool searched_ = false;                                   ///< routes by search: a graph, or a failed link
  std::vector<std::vector<int>> before_;                    ///< per source and node: link to the node; -1: none
  std::map<std::pair<int, int>, std::vector<int>> stated_;  ///< routes that the graph lists
};

}  // namespace tilesim::cluster
