// Schedules of collectives: a list of transfers or, if all devices behave alike, a template of one device's messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/cluster/collective/group.hpp"

namespace tilesim::cluster {

enum class Operation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  permute_devices,
  broadcast_devices
};
/// Throws UserError with the nearest spelling.
Operation operation_of(std::string_view name);
std::string name_of(Operation operation);

/// In each step devices read data from before the step. All data between two devices in a step are one message. `source
/// == target` is a copy within a device, which takes no time.
struct Transfer {
  int step = 0, source = 0, target = 0;
  int from = 0, into = 0;  ///< slots of source and target
  bool combine = false;    ///< adds to the slot; otherwise replaces it
};

/// A collective of `devices` positions with data split into chunks of bytes / pieces.
struct Schedule {
  std::string algorithm;
  Operation operation = Operation::all_reduce;
  int devices = 1, slots = 1;
  std::int64_t pieces = 1;
  std::vector<Transfer> transfers;
  /// Per device and slot: number of the value at the start, and of the value required at the end; -1: none.
  std::vector<int> initial, wanted;
  bool summed() const { return operation == Operation::all_reduce || operation == Operation::reduce_scatter; }
};

/// A schedule that is the same for every device: position 0 sends these messages; position d sends them shifted by d,
/// with shifted labels.
struct Template {
  struct Sent {
    int step = 0, offset = 0;
    bool combine = false;
    std::vector<int> labels;
  };
  std::string algorithm;
  Operation operation = Operation::all_reduce;
  Group group;
  int parts = 1;  ///< a label is part x n^coordinates + position (source x n + target for pairs)
  int coordinates = 1;
  std::int64_t pieces = 1;
  std::vector<Sent> messages;  ///< by step, then offset

  int move(int label, int by) const;
};

/// The walk of an algorithm along one axis of a group.
enum class Walk : std::uint8_t { ring, direct, halving, bruck };
struct Leg {
  int size = 1;
  Walk walk = Walk::direct;
};
/// A part of the data: order of the axes along which it is scattered, and step of ring walks per axis (1: to the next
/// device, size - 1: to the previous one; others skip devices).
struct PartRoute { std::vector<int> order, strides; };

/// all_reduce, all_gather, reduce_scatter over axes. With several `pieces`, each piece follows the previous one, so
/// that they use different axes at the same time.
Template spread(Operation operation, const std::vector<Leg>& legs, const std::vector<PartRoute>& parts, int pieces = 1);
/// Direct messages from every member to every other one, by position on each axis.
Template spread_direct(Operation operation, const Group& group);
/// The same on flat rings through `nodes` of `inside` members each, with as many rings as members per node: each ring
/// visits all members of a node before the next node, which each ring enters by a different member.
Template flat_rings(Operation operation, int inside, int nodes);
/// Such rings through nodes of different sizes; ring r enters node i by its member `entries[i][r]`.
Schedule flat_rings(Operation operation, const std::vector<int>& members, const std::vector<std::vector<int>>& entries);
/// all_to_all: directly to the target; around a ring; in log2 n steps; axis by axis; on a torus. On a torus one part of
/// the data starts with each axis, and goes from device to device around the circles of all axes in turn; data for the
/// opposite device of an even circle are split between both directions.
Template exchange_direct(const Group& group);
Template exchange_ring(int devices, bool both_ways);
Template exchange_bruck(int devices);
Template exchange_by_axes(const Group& group);
Template exchange_torus(const std::vector<int>& sizes, const std::vector<bool>& both_ways);

/// Expands a template to all transfers of all devices.
Schedule expand(const Template& program);

/// Double binary tree with each half of the data in `pieces` parts.
Schedule tree_reduce(int devices, int pieces);
/// Devices beyond the largest power of two first send all data to a partner, and finally receive the result from it.
Schedule folded_halving(int devices);
Schedule broadcast_tree(int devices, int root);
Schedule broadcast_ring(int devices, int root, int pieces, bool both_ways);
Schedule broadcast_direct(int devices, int root);
/// Pairs (source, target); a repeated target is an error.
Schedule permute(int devices, const std::vector<std::pair<int, int>>& pairs);

/// Fills `initial` and `wanted`. Chunk c of reduce_scatter and all_gather belongs to device c mod n (`blocks` false) or
/// c / (chunks / n); chunk c of all_to_all goes from c / n to c mod n.
void state_meaning(Schedule& schedule, bool blocks, int root = 0);

/// Executes the schedule on sets of contributions. Throws UserError if one counts twice, a missing chunk is sent, or a
/// value is missing at the end; exact up to about 10^8 bits of sets, beyond that by sums of random numbers.
void check_on_sets(const Schedule& schedule);

}  // namespace tilesim::cluster
