// Topologies of on-chip networks: routers, links, nodes and the routing table.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tilesim/base/json/json.hpp"

namespace tilesim::engine::noc {

/// An entry of the routing table: a router's output towards a node. Output port = port + bit `shift` of the packet's
/// code; VC group = group + bit `shift` + 1 of the code. The code is 0 except on rings and tori, where it has a
/// direction and a class for each dimension, and between regions.
struct Hop {
  static constexpr std::uint16_t no_route = 0xffff;
  static constexpr std::uint8_t no_choice = 30;  ///< bit positions that are 0 in all codes
  std::uint16_t port = no_route;
  std::uint8_t shift = no_choice;
  std::uint8_t group = 0;

  std::uint32_t output(std::uint32_t code) const { return port + (code >> shift & 1U); }
  std::uint32_t vc_group(std::uint32_t code) const { return group + (code >> shift >> 1 & 1U); }
};

/// VC groups of a hop: all VCs of the message class, their lower half, their upper half.
enum VcGroup : std::uint8_t { all_vcs, lower_vcs, upper_vcs, vc_groups };

/// Port numbers matter: round-robin pointers start at port 0. All routers of a mesh have the same ports.
struct Topology {
  struct Router { int inputs = 0, outputs = 0; };
  struct Link {
    int from = 0, output = 0, to = 0, input = 0, latency = 1;
    int per_flit = 1, per_cycle = 1;  ///< a flit takes per_flit / per_cycle cycles of the link, at least one
    int buffer_flits = 0;             ///< depth of each VC at the receiving end; 0: the default
  };
  struct Node { int router = 0, input = 0, output = 0; };  ///< injects into `input`, receives from `output`

  std::string name;          ///< "mesh_8x8"
  std::string routing;       ///< "dimension_order", "destination_tag", "up_down", "shortest", "table"
  std::vector<int> extents;  ///< bases of a node number's digits, lowest first; their product is the number of nodes
  bool wraps = false;        ///< ring or torus: packets carry a code
  /// Region of each router, if links connect regions: packets then carry a code, which is 2 for a packet from another
  /// region and selects the upper VCs behind such a link. Empty: one region.
  std::vector<int> router_regions;
  int node_latency = 1;  ///< cycles of injection and ejection links
  std::vector<Router> routers;
  std::vector<Link> links;
  std::vector<Node> nodes;
  std::vector<Hop> hops;  ///< routers x nodes

  const Hop& hop(std::size_t router, std::size_t node) const { return hops[router * nodes.size() + node]; }
  Hop& hop(std::size_t router, std::size_t node) { return hops[router * nodes.size() + node]; }

  /// The packet's code: shortest direction in every dimension; `coin` selects if both are equally long. The class of a
  /// dimension is 1 if the packet enters it at a coordinate above its destination's.
  template <class Coin>
  std::uint32_t code(std::uint32_t source, std::uint32_t destination, Coin&& coin) const {
    std::uint32_t result = 0;
    if (!router_regions.empty()) return region(source) != region(destination) ? 2 : 0;
    if (!wraps) return result;
    unsigned shift = 0;
    for (const int extent : extents) {
      const int k = extent;
      const int from = static_cast<int>(source) % k, to = static_cast<int>(destination) % k;
      source /= static_cast<unsigned>(k), destination /= static_cast<unsigned>(k);
      const int right = (to - from + k) % k;
      const bool left = 2 * right > k || (2 * right == k && coin());
      result |= (left ? 1U : 0U) << shift | (from > to ? 2U : 0U) << shift;
      shift += 2;
    }
    return result;
  }
  int region(std::size_t node) const {
    return router_regions.empty() ? 0 : router_regions[static_cast<std::size_t>(nodes[node].router)];
  }
};

/// Links from each region of a network to every other region.
struct RegionLinks {
  int count = 1;                    ///< parallel links from one region to another
  int latency = 1;                  ///< cycles
  int per_flit = 1, per_cycle = 1;  ///< as in Link
  int buffer_flits = 0;
};

constexpr int most_nodes = 1 << 12;  ///< limit on nodes: tables have a row per router and a column per node
constexpr int most_ports = 1 << 10;  ///< limit on ports of a router: allocators compare every input with every output

/// k-ary mesh with any number of dimensions and `concentration` nodes per router. Router r = y*kx + x; output 2D leads
/// to the +1 neighbour in dimension D, 2D+1 to the -1 neighbour, then follow the nodes; input 2D comes from the +1
/// neighbour. Dimension-order routing, lowest dimension first.
Topology mesh(const std::vector<int>& extents, int concentration = 1, int link_latency = 1);
/// A mesh with wrap-around links; needs two VCs in every message class.
Topology torus(const std::vector<int>& extents, int link_latency = 2);
/// One router; node i uses input i and output i.
Topology crossbar(int nodes);
/// A tree with `levels` levels of routers with `arity` children each, and arity^levels nodes at the leaves. Ports 0 ...
/// arity-1 lead down, port `arity` leads up.
Topology tree(int arity, int levels, int link_latency = 1);
/// Any graph. {"schema": "tilesim.network", "version": 1, "name", "routers": count, "nodes": [router of node 0, ...],
/// "links": [{"between": [a, b]} | {"from": a, "to": b}, "latency": cycles], "routing": "up_down" | "shortest" |
/// {"table": [[next router towards node 0, ...] of router 0, ...]}, "root": router}. Ports are in the order of links,
/// then nodes. Throws UserError with the place in the file, also for more than most_nodes or most_ports.
Topology graph_from_json(const Json& json);

/// Connects a copy of a network per region by links. Nodes of region r follow those of region r - 1. Nodes are divided
/// into as many parts as there are links; link i connects the routers of part i's middle node and carries the packets
/// for that part. A packet uses lower VCs in its source's region and upper ones in its destination's, which prevents
/// cycles. Throws UserError for rings and tori, which already use two classes, and for fewer nodes than links.
Topology in_regions(const Topology& region, int regions, const RegionLinks& links);

/// Throws unless links and nodes use existing, distinct ports and every node reaches every node. The UserError names
/// the pair.
void check(const Topology& topology);

/// VCs per router port, VCs of each message class, and pipeline delays.
struct RouterSpec {
  struct Class {
    std::string name = "packet";
    int first_vc = 0, vcs = 0;  ///< 0: all VCs from first_vc on
  };
  int virtual_channels = 4;
  int buffer_flits = 8;   ///< per VC
  int switch_cycles = 1;  ///< cycles from switch allocation to the link
  int credit_cycles = 1;  ///< cycles to process a credit in a router
  std::vector<Class> classes{Class{}};

  /// Mask of the VCs (bit v) that the class may use in the group.
  std::uint32_t mask(std::size_t message_class, unsigned group) const;
};

/// Throws UserError for a number out of range, a class without VCs, or too few VCs for the topology.
void check(const RouterSpec& spec, const Topology& topology);
/// Throws, with the cycle's ports, if packets can deadlock: the channel dependency graph (Dally and Seitz, 1987) over
/// (output port, VC) of all routes has a cycle.
void check_no_deadlock(const Topology& topology, const RouterSpec& spec);

}  // namespace tilesim::engine::noc
