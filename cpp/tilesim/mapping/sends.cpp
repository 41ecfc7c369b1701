// Tiles that one core fetches for others in a walk, and the core ports that these tiles cross.
#include <algorithm>

#include "tilesim/mapping/walk.hpp"

namespace tilesim::mapping {

/// Moves a transfer through ports. Data fetched for all cores crosses the fetching core's port, other data every port.
double CostModel::Walk::pass_ports(const Transfer& transfer, double cycles, double now) {
  const std::size_t own = port_of(transfer);
  for (std::size_t port = 0; port < port_free.size(); ++port)
    if (port == own || !sent(transfer)) port_free[port] = std::max(port_free[port], now) + cycles;
  return port_free[own];
}

/// Earliest time at which the next fetched tile can be sent: all cores that need the tile have a free buffer.
double CostModel::Walk::send_at(const Sent& tiles) const {
  const std::size_t next = tiles.through.size();
  if (next >= tiles.fetched.size()) return unknown;
  const double free = rings[tiles.tiles[next]->operand].free_at(tiles.tiles[next]->version);
  if (free == unknown) return unknown;
  return std::max({free, tiles.fetched[next], port_free[port_of(*tiles.tiles[next])] - port_room});
}

/// Sends a tile through the port of the core that fetched it, and through the ports of all other cores.
void CostModel::Walk::send(Sent& tiles, double now) {
  const Transfer& transfer = *tiles.tiles[tiles.through.size()];
  const double passing = static_cast<double>(transfer.bytes) / port_rate;
  const std::size_t leader = port_of(transfer);
  const double left = port_free[leader] = std::max(port_free[leader], now) + passing;
  double last = left;
  for (std::size_t other = 0; other < port_free.size(); ++other) {
    if (other != leader) port_free[other] = std::max(port_free[other], now) + passing;
    last = std::max(last, port_free[other]);
  }
  tiles.through.push_back(left);
  rings[transfer.operand].ready[static_cast<std::size_t>(transfer.piece)] = last + model.one_way_;
  finish = std::max(finish, last + model.one_way_);
}

/// Assigns fetching cores to the operands. Operands have different cores; the walked core is the first.
void CostModel::Walk::find_sends() {
  for (std::size_t operand = 0; operand < 2 && port_rate > 0; ++operand) {
    sending[operand].any = planned.buffers[operand].sent;
    sending[operand].leaders = static_cast<std::size_t>(planned.buffers[operand].leaders);
  }
  for (std::size_t operand = 0; operand < 2; ++operand) {
    fetched_for[operand] = model.fetched_for(nest, operand);
    if (model.computed(operand)) preparing[operand] = static_cast<double>(model.preparing(operand, nest));
  }
  if (sending[0].any && sending[1].any) sending[1].port = sending[0].leaders;
  const std::size_t last = std::max(sending[0].port + sending[0].leaders, sending[1].port + sending[1].leaders);
  port_free.assign(last + 1, 0);  // no core fetches both operands
}

}  // namespace tilesim::mapping
