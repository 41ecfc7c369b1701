// Topologies of on-chip networks: routers, links, nodes and the routing table.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tilesim/base/json/json.hpp"

namespace tilesim::engine::noc {

/// Routing table entry of a router and a destination node. Output port = port + bit `shift` of the packet's code; VC
/// group = group + bit `shift` + 1 of the code. The code is 0 except on rings and tori, where it holds a direction and
/// a class per dimension, and between regions.
struct Hop {
  static constexpr std::uint16_t no_route = 0xffff;
  static constexpr std::uint8_t no_choice = 30;  ///< a bit position that is 0 in all codes
  std::uint16_t port = no_route;
  std::uint8_t shift = no_choice;
  std::uint8_t group = 0;

  std::uint32_t output(std::uint32_t code) const { return port + (code >> shift & 1U); }
  std::uint32_t vc_group(std::uint32_t code) const { return group + (code >> shift >> 1 & 1U); }
};

/// VCs that a hop may use: all VCs of the message class, their lower half, or their upper half.
enum VcGroup : std::uint8_t { all_vcs, lower_vcs, upper_vcs, vc_groups };

/// Routers, links, nodes and routes. Port numbers affect results, because round-robin pointers start at port 0.
struct Topology {
  struct Router { int inputs = 0, outputs = 0; };
  struct Link {
    int from = 0, output = 0, to = 0, input = 0, latency = 1;
    int per_flit = 1, per_cycle = 1;  ///< cycles per flit as a fraction, at least 1
    int buffer_flits = 0;             ///< depth of each VC at the receiving end; 0: RouterSpec's depth
  };
  struct Node { int router = 0, input = 0, output = 0; };  ///< sends into `input`, receives from `output`

  std::string name;          ///< "mesh_8x8"
  std::string routing;       ///< "dimension_order", "destination_tag", "up_down", "shortest", "table"
  std::vector<int> extents;  ///< number of values of each digit of a node number, lowest first
  bool wraps = false;        ///< true for a ring or torus: packets have a direction code
  /// Per router: its region, if the network has regions. The code of a packet from another region is 2, which selects
  /// upper VCs after the link. Empty: one region.
  std::vector<int> router_regions;
  int node_latency = 1;  ///< latency of the links between nodes and routers, in cycles
  std::vector<Router> routers;
  std::vector<Link> links;
  std::vector<Node> nodes;
  std::vector<Hop> hops;  ///< routers x nodes

  const Hop& hop(std::size_t router, std::size_t node) const { return hops[router * nodes.size() + node]; }
  Hop& hop(std::size_t router, std::size_t node) { return hops[router * nodes.size() + node]; }

  /// The packet's code. In every dimension the packet takes the shorter direction; `coin` decides if both are equally
  /// long. A dimension's class is 1 if the packet enters it at a coordinate above the destination's.
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

/// Parameters of the links from each region of a network to every other region.
struct RegionLinks {
  int count = 1;                    ///< number of parallel links between two regions, per direction
  int latency = 1;                  ///< cycles
  int per_flit = 1, per_cycle = 1;  ///< as in Link
  int buffer_flits = 0;
};

constexpr int most_nodes = 1 << 12;  ///< tables have a row per router and a column per node
constexpr int most_ports = 1 << 10;  ///< per router: allocators compare every input with every output

/// A mesh with any number of dimensions and `concentration` nodes per router. Router r = y * kx + x. Output 2D leads to
/// the +1 neighbour in dimension D, output 2D + 1 to the -1 neighbour; input 2D comes from the +1 neighbour. Ports of
/// nodes follow. Routes are dimension-ordered, lowest dimension first.
Topology mesh(const std::vector<int>& extents, int concentration = 1, int link_latency = 1);
/// A mesh with wrap-around links. Every message class needs two VCs.
Topology torus(const std::vector<int>& extents, int link_latency = 2);
/// One router; node i is at input i and output i.
Topology crossbar(int nodes);
/// A tree of routers with `levels` levels; each router has `arity` children, and the leaves are arity^levels nodes.
/// Ports 0 to arity - 1 lead down, port `arity` leads up.
Topology tree(int arity, int levels, int link_latency = 1);
/// Reads any graph: {"schema": "tilesim.network", "version": 1, "name", "routers": count, "nodes": [router of node 0,
/// ...], "links": [{"between": [a, b]} | {"from": a, "to": b}, "latency": cycles], "routing": "up_down" | "shortest" |
/// {"table": [[next router towards node 0, ...] of router 0, ...]}, "root": router}. A router's ports are in the order
/// of links, then of nodes. Throws UserError with the place in the file, also above most_nodes or most_ports.
Topology graph_from_json(const Json& json);

/// Copies a network once per region and connects the copies by links. Nodes of region r follow those of region r - 1. A
/// region's nodes form one group per parallel link; link i connects the routers of the middle nodes of group i and
/// carries packets to that group. Packets use lower VCs in the source's region and upper VCs in the destination's,
/// which prevents deadlocks. Throws UserError for rings and tori, which already use both, and for fewer nodes than
/// links.
Topology in_regions(const Topology& region, int regions, const RegionLinks& links);

/// Throws UserError, naming the pair, unless links and nodes use existing, distinct ports and all nodes reach all
/// others.
void check(const Topology& topology);

/// Numbers of VCs per port and message class, buffer depth, and pipeline delays of a router.
struct RouterSpec {
  struct Class {
    std::string name = "packet";
    int first_vc = 0, vcs = 0;  ///< 0 VCs: all from first_vc on
  };
  int virtual_channels = 4;
  int buffer_flits = 8;   ///< per VC
  int switch_cycles = 1;  ///< cycles from switch allocation until the flit is on the link
  int credit_cycles = 1;  ///< cycles that a router needs to process a credit
  std::vector<Class> classes{Class{}};

  /// Bit mask of the VCs that the class may use in the VC group.
  std::uint32_t mask(std::size_t message_class, unsigned group) const;
};

/// Throws UserError for a number out of range, a class without VCs, or fewer VCs than the topology needs.
void check(const RouterSpec& spec, const Topology& topology);
/// Throws UserError if packets can deadlock, with the ports of the cycle: the routes form a cycle in the channel
/// dependency graph (Dally and Seitz, 1987) whose vertices are pairs (output port, VC).
void check_no_deadlock(const Topology& topology, const RouterSpec& spec);

}  // namespace tilesim::engine::noc
