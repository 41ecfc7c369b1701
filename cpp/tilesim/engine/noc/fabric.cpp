// Set-up, packets in and out. The cycle itself is in fabric_cycle.cpp.
#include "tilesim/engine/noc/fabric.hpp"

#include <algorithm>
#include <bit>

#include "tilesim/base/error.hpp"

namespace tilesim::engine::noc {

Fabric::Fabric(const Topology& topology, const RouterSpec& spec, std::uint64_t seed)
    : topology_(topology), spec_(spec), random_(seed, 3), vcs_(static_cast<std::uint32_t>(spec.virtual_channels)) {
  check(topology);
  check(spec, topology);
  check_no_deadlock(topology, spec);
  for (std::size_t message = 0; message < spec.classes.size(); ++message)
    for (unsigned group = 0; group < vc_groups; ++group) masks_.push_back(spec.mask(message, group));
  lay_out(topology);
}

void Fabric::lay_out(const Topology& net) {
  const auto full = static_cast<std::uint32_t>((std::uint64_t{1} << vcs_) - 1);
  std::vector<std::uint32_t> first_input, first_output;
  for (std::size_t r = 0; r < net.routers.size(); ++r) {
    const auto ins = static_cast<std::uint16_t>(net.routers[r].inputs);
    const auto outs = static_cast<std::uint16_t>(net.routers[r].outputs);
    first_input.push_back(static_cast<std::uint32_t>(inputs_.size()));
    first_output.push_back(static_cast<std::uint32_t>(outputs_.size()));
    for (std::uint16_t p = 0; p < ins; ++p) {
      InputPort in;
      in.first_output = first_output.back();
      in.first_hop = static_cast<std::uint32_t>(r * net.nodes.size());
      in.outputs = outs, in.number = p;
      in.input_vcs = static_cast<std::uint16_t>(ins * vcs_);
      inputs_.push_back(in);
    }
    for (std::uint16_t p = 0; p < outs; ++p) {
      OutputPort out;
      out.free = full;
      out.inputs = ins, out.number = p;
      outputs_.push_back(out);
    }
  }
  node_outputs_ = static_cast<std::uint32_t>(outputs_.size());
  lay_out_links(net, first_input, first_output);
  lay_out_lists(net);
}

void Fabric::lay_out_links(const Topology& net, const std::vector<std::uint32_t>& first_input,
                           const std::vector<std::uint32_t>& first_output) {
  const int credit = spec_.credit_cycles;
  const auto at = [](const std::vector<std::uint32_t>& first, int router, int port) {
    return first[static_cast<std::size_t>(router)] + static_cast<std::uint32_t>(port);
  };
  for (const Topology::Link& link : net.links) {
    OutputPort& out = outputs_[at(first_output, link.from, link.output)];
    InputPort& in = inputs_[at(first_input, link.to, link.input)];
    out.downstream = at(first_input, link.to, link.input) * vcs_;
    out.delay = static_cast<std::uint16_t>(spec_.switch_cycles + link.latency + 1);
    in.upstream = at(first_output, link.from, link.output) * vcs_;
    in.credit_delay = static_cast<std::uint16_t>(link.latency + 1 + credit);
    link_output_.push_back(at(first_output, link.from, link.output));
  }
  node_sink_ = static_cast<std::uint32_t>(inputs_.size()) * vcs_;
  const int to_node = spec_.switch_cycles + net.node_latency + 1, back = net.node_latency + 1 + credit;
  // At most one flit leaves per cycle, so a buffer as deep as its credits' way round never fills.
  sink_credit_delay_ = spec_.buffer_flits < to_node + back ? static_cast<std::uint32_t>(to_node + back) : 0;
  for (const Topology::Node& node : net.nodes) {
    OutputPort& out = outputs_[at(first_output, node.router, node.output)];
    out.downstream = node_sink_;
    out.delay = static_cast<std::uint16_t>(to_node);
    InputPort& in = inputs_[at(first_input, node.router, node.input)];
    in.upstream = static_cast<std::uint32_t>(outputs_.size()) * vcs_;
    in.credit_delay = static_cast<std::uint16_t>(net.node_latency + 1);
    OutputPort source;
    source.downstream = at(first_input, node.router, node.input) * vcs_;
    source.delay = static_cast<std::uint16_t>(net.node_latency + 1);
    outputs_.push_back(source);
  }
}

void Fabric::lay_out_lists(const Topology& net) {
  std::size_t longest = sink_credit_delay_;
  for (const OutputPort& out : outputs_) longest = std::max<std::size_t>(longest, out.delay);
  for (const InputPort& in : inputs_) longest = std::max<std::size_t>(longest, in.credit_delay);
  arrivals_.resize(longest + 1, inputs_.size());
  credits_.resize(longest + 1, outputs_.size());
  ejections_.resize(longest + 1, net.nodes.size());
  const std::size_t channels = inputs_.size() * vcs_;
  input_vcs_.resize(channels);
  for (std::size_t i = 0; i < channels; ++i) {
    input_vcs_[i].input = static_cast<std::uint32_t>(i / vcs_);
    input_vcs_[i].vc = static_cast<std::uint16_t>(i % vcs_);
    input_vcs_[i].number = static_cast<std::uint16_t>(inputs_[i / vcs_].number * vcs_ + i % vcs_);
  }
  OutputVc empty;
  empty.credits = static_cast<std::uint16_t>(spec_.buffer_flits);
  output_vcs_.assign(outputs_.size() * vcs_, empty);
  queue_size_ = std::bit_ceil(static_cast<std::uint32_t>(spec_.buffer_flits));
  packets_.resize(channels * queue_size_);
  parked_.assign(channels, none);
  constexpr std::uint64_t nothing = ~std::uint64_t{0};
  best_input_.assign(outputs_.size(), nothing);
  best_requester_.assign(output_vcs_.size(), nothing);
  best_output_.assign(inputs_.size(), nothing);
  best_vc_.assign(inputs_.size(), nothing);
  for (WorkList* list : {&heads_, &next_heads_, &waiting_, &next_waiting_, &ready_, &next_ready_, &clean_, &contested_})
    *list = WorkList(channels);
  is_sending_.assign(net.nodes.size(), 0);
  class_pointer_.assign(net.nodes.size(), 0);
  Stream stream;
  stream.last_vc = vcs_ - 1;
  streams_.assign(net.nodes.size() * spec_.classes.size(), stream);
}

namespace {

[[noreturn]] void fail(const char* what, std::int64_t value, const std::string& allowed) {
  throw UserError({what, "packet", std::to_string(value), allowed, {}});
}

}  // namespace

void Fabric::refuse(const Packet& packet, std::int64_t cycle) const {
  const std::size_t nodes = topology_.nodes.size();
  const std::string numbers = "0 ... " + std::to_string(nodes - 1);
  if (packet.source >= nodes) fail("there is no such source node", packet.source, numbers);
  if (packet.destination >= nodes) fail("there is no such destination node", packet.destination, numbers);
  if (packet.flits < 1 || packet.flits > 65535) fail("flits of a packet out of range", packet.flits, "1 ... 65535");
  if (packet.message_class >= spec_.classes.size())
    fail("there is no such message class", packet.message_class, "0 ... " + std::to_string(spec_.classes.size() - 1));
  fail("the packet's cycle is in the past", cycle, "at least " + std::to_string(now_));
}

void Fabric::inject(const Packet& packet, std::int64_t cycle) {
  const std::size_t nodes = topology_.nodes.size();
  if (packet.source >= nodes || packet.destination >= nodes || packet.flits - 1 >= 65535 ||
      packet.message_class >= spec_.classes.size() || cycle < now_)
    refuse(packet, cycle);
  if (cycle == now_) {
    enqueue(packet);
  } else {
    later_.push({cycle, order_++, packet});
  }
}

void Fabric::enqueue(const Packet& packet) {
  Stream& stream = streams_[packet.source * spec_.classes.size() + packet.message_class];
  if (stream.first == stream.queue.size()) stream.queue.clear(), stream.first = 0;
  const std::uint32_t code = topology_.code(packet.source, packet.destination, [&] { return random_.coin(); });
  stream.queue.push_back({now_, packet.tag, packet.destination, code, packet.flits});
  ++queued_;
  wake_node(packet.source);
}

void Fabric::start_packet(std::uint32_t node, std::size_t message_class) {
  Stream& stream = streams_[node * spec_.classes.size() + message_class];
  const Queued queued = stream.queue[stream.first++];
  if (stream.first > 4096 && stream.first * 2 > stream.queue.size()) {
    stream.queue.erase(stream.queue.begin(), stream.queue.begin() + static_cast<std::ptrdiff_t>(stream.first));
    stream.first = 0;
  }
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(live_packets_.size()));
    live_packets_.emplace_back();
    times_.emplace_back();
  }
  stream.slot = free_slots_.back();
  free_slots_.pop_back();
  stream.left = queued.flits;
  Live& live = live_packets_[stream.slot];
  live.destination = queued.destination;
  live.code = queued.code;
  live.flits = live.left = static_cast<std::uint16_t>(queued.flits);
  live.hops = 0;
  live.message_class = static_cast<std::uint16_t>(message_class);
  live.first_mask = static_cast<std::uint32_t>(message_class * vc_groups);
  times_[stream.slot] = {queued.created, now_, now_, queued.tag, node};
  --queued_, ++live_;
}

Backlog Fabric::backlog() const {
  Backlog sum;
  for (std::size_t i = 0; i < live_packets_.size(); ++i) {
    sum.flits += live_packets_[i].left;
    sum.age_cycles += live_packets_[i].left * (now_ - times_[i].created);
  }
  return sum;
}

std::int64_t Fabric::flit_hops() const {
  std::int64_t sum = 0;
  for (const OutputPort& out : outputs_) sum += out.flits;
  return sum;
}

std::vector<std::int64_t> Fabric::link_flits() const {
  std::vector<std::int64_t> flits;
  for (const std::uint32_t output : link_output_) flits.push_back(outputs_[output].flits);
  return flits;
}

std::unique_ptr<Network> flit_network(const Topology& topology, const RouterSpec& spec, std::uint64_t seed) {
  return std::make_unique<Fabric>(topology, spec, seed);
}

}  // namespace tilesim::engine::noc
