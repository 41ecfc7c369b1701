// Operands that several cores need: one fetches them and sends them to all.
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

namespace {

/// Destinations of a send are a mask of so many bits.
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

/// Cores that share the operand differ in the cuts that do not concern it. Which of them fetches goes round with the
/// other cut, one further for the first operand, so that no core fetches both operands for others.
void ProductLowering::emit_multicast(int index, program::Transfer transfer, const std::vector<Expr>& extent,
                                     program::Block& block) {
  const Operand& operand = operands_[index];
  const Access& access = domain_.operands[static_cast<std::size_t>(index)];
  Expr leads = 1, first = 0;
  std::vector<std::int64_t> further{0};
  std::int64_t stride = 1;
  for (std::size_t i = split_.parts.size(); i-- > 0; stride *= split_.parts[i].parts) {
    const CoreSplit::Part& part = split_.parts[i];
    if (depends_on(access, part.dim)) {
      first = first + split_.index(part.dim) * Expr(stride);
      continue;
    }
    Expr turn = 0;
    if (split_.parts.size() == 2) {
      const int other = split_.parts[1 - i].dim;
      if (depends_on(access, other)) turn = modulo(split_.index(other) + Expr(index == 0 ? 1 : 0), part.parts);
    }
    leads = logical_and(leads, equal(split_.index(part.dim), turn));
    const std::vector<std::int64_t> before = further;
    for (std::int64_t digit = 1; digit < part.parts; ++digit)
      for (std::int64_t core : before) further.push_back(core + digit * stride);
  }
  const std::string stage = operand.slot + "_stage", queue = load_queue(index);
  transfer.slot = stage;
  program::Send send;
  send.from = {stage, 0, 0, {}};
  send.slot = operand.slot;
  for (std::size_t axis = 0; axis < extent.size(); ++axis)
    send.dims.push_back({extent[axis], operand.slot_strides[axis]});
  send.from.dims = send.dims;
  for (std::int64_t core : further) send.cores.push_back(first + Expr(core));
  block.push_back(on("", program::Receive{operand.slot}));
  program::If leader{leads, {}, {}};
  leader.then.push_back(on("", program::Acquire{stage, {queue}}));
  leader.then.push_back(on(queue, program::Load{std::move(transfer)}));
  leader.then.push_back(on(queue, program::Commit{stage, 0, 1}));
  leader.then.push_back(on("send", program::Wait{stage, 0, {}, 0, 1}));
  leader.then.push_back(on("send", std::move(send)));
  leader.then.push_back(on("send", program::Release{stage, 0}));
  block.push_back(on("", std::move(leader)));
  emit_arrived(index, block);
}

}  // namespace tilesim::lower
