// Operands that several cores share: one core fetches them and sends them to the others.
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

namespace {

/// Bits in the mask of a send's destinations.
constexpr std::int64_t most_cores = 64;

}  // namespace

double port_rate(const Share& machine) {
  const Share::Network& network = machine.network;
  const double width = static_cast<double>(network.kind == "simple" ? network.port_bytes_per_cycle
                                                                    : network.flit_bytes * network.ports_per_core);
  return width * static_cast<double>(network.clock.hertz);
}

bool multicasts(const Share& machine) {
  return machine.network.multicast && machine.network.kind == "simple" && machine.core.count <= most_cores;
}

bool ProductLowering::goes_round(int index) const { return plan_.buffers[static_cast<std::size_t>(index)].leaders > 1; }

/// Name of the ring that one of several leaders fills: each ring has one known sender.
std::string ProductLowering::ring_name(int index, std::int64_t leader) const {
  const std::string name = index == 0 ? "a" : "b";
  return goes_round(index) ? name + std::to_string(leader) : name;
}

/// The loop level that receives a tile of the operand, with one branch per possible leader. The other operand, if it
/// has as many leaders at this level, has the same one.
program::Block ProductLowering::by_leaders(int index, std::size_t depth) {
  Expr tile = 0;
  for (std::size_t place = 0; place < depth; ++place)
    if (const int dim = nest_.order[place]; loops(dim))
      tile = tile * Expr(trips(dim)) + Expr::symbol("i_" + domain_.names[static_cast<std::size_t>(dim)]);
  const auto leaders_of = [&](int i) { return plan_.buffers[static_cast<std::size_t>(i)].leaders; };
  const std::int64_t leaders = leaders_of(index);
  const bool both = index == 0 && leaders_of(1) == leaders && plan_.depth_in_order(1) == depth;
  program::Block block;
  for (std::int64_t leader = leaders; leader-- > 0;) {
    for (int i = index; i < (both ? 2 : index + 1); ++i) leader_[i] = leader, operands_[i].slot = ring_name(i, leader);
    program::Block own = level(depth);
    if (leader + 1 == leaders) {
      block = std::move(own);
      continue;
    }
    program::If turn{equal(modulo(tile, leaders), leader), std::move(own), std::move(block)};
    block = {};
    block.push_back(on("", std::move(turn)));
  }
  leader_[index] = -1;
  if (both) leader_[1] = -1;
  return block;
}

/// Cores that share the operand differ in the splits that the operand does not depend on. The fetching core rotates
/// with the other split, shifted by one for the first operand, and from tile to tile, so that no core fetches both
/// operands for others.
void ProductLowering::emit_multicast(int index, std::vector<program::Transfer> transfers,
                                     const std::vector<Expr>& extent, program::Block& block) {
  const Operand& operand = operands_[index];
  const Access& access = domain_.operands[static_cast<std::size_t>(index)];
  Expr leads = 1, first = 0;
  std::vector<std::int64_t> further{0};
  const bool both = plan_.buffers[0].sent && plan_.buffers[1].sent;
  std::int64_t stride = 1, turns = std::max<std::int64_t>(0, leader_[index]) * (both ? 2 : 1);
  for (std::size_t i = split_.parts.size(); i-- > 0; stride *= split_.parts[i].parts) {
    const CoreSplit::DimSplit& part = split_.parts[i];
    if (depends_on(access, part.dim)) {
      first = first + split_.index(part.dim) * Expr(stride);
      continue;
    }
    Expr turn = turns % part.parts;
    if (split_.parts.size() == 2) {
      const int other = split_.parts[1 - i].dim;
      if (depends_on(access, other))
        turn = modulo(split_.index(other) + Expr(turns + (index == 0 ? 1 : 0)), part.parts);
    }
    turns /= part.parts;
    leads = logical_and(leads, equal(split_.index(part.dim), turn));
    const std::vector<std::int64_t> before = further;
    for (std::int64_t digit = 1; digit < part.parts; ++digit)
      for (std::int64_t core : before) further.push_back(core + digit * stride);
  }
  const std::string stage = std::string(index == 0 ? "a" : "b") + "_stage";
  program::Send send;
  send.from = {stage, 0, 0, {}};
  send.slot = operand.slot;
  for (std::size_t axis = 0; axis < extent.size(); ++axis)
    send.dims.push_back({extent[axis], operand.slot_strides[axis]});
  send.from.dims = send.dims;
  for (std::int64_t core : further) send.cores.push_back(first + Expr(core));
  block.push_back(statement(program::Receive{operand.slot}));
  program::If leader{leads, {}, {}};
  for (program::Transfer& transfer : transfers) {
    transfer.slot = stage;
    leader.then.push_back(statement(program::Load{std::move(transfer)}));
  }
  leader.then.push_back(statement(std::move(send)));
  block.push_back(statement(std::move(leader)));
}

}  // namespace tilesim::lower
