// Construction of the flit-level network, and its packets. fabric_cycle.cpp simulates a cycle.
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
  lay_out();
}

void Fabric::lay_out() {
  const Topology& net = topology_;
  std::vector<std::size_t> first_input{0}, first_output{0};
  for (const Topology::Router& router : net.routers) {
    first_input.push_back(first_input.back() + static_cast<std::size_t>(router.inputs));
    first_output.push_back(first_output.back() + static_cast<std::size_t>(router.outputs));
  }
  node_outputs_ = first_output.back();
  inputs_.resize(first_input.back());
  outputs_.resize(node_outputs_ + net.nodes.size());
  for (std::size_t r = 0; r < net.routers.size(); ++r) {
    const auto ins = static_cast<std::uint16_t>(net.routers[r].inputs);
    const auto outs = static_cast<std::uint16_t>(net.routers[r].outputs);
    wide_ |= ins > 64 || outs > 64;
    for (std::uint16_t p = 0; p < ins; ++p) {
      InputPort& in = inputs_[first_input[r] + p];
      in.first_output = outputs_.data() + first_output[r];
      in.hops = net.hops.data() + r * net.nodes.size();
      in.number = p;
      in.first_number = static_cast<std::uint16_t>(p * vcs_);
      sizes_.push_back({ins, outs, static_cast<std::uint16_t>(ins * vcs_)});
    }
    for (std::uint16_t p = 0; p < outs; ++p) {
      OutputPort& out = outputs_[first_output[r] + p];
      out.number = p;
      out.first_input = static_cast<std::uint32_t>(first_input[r]);
      out.first_vc = static_cast<std::uint16_t>(p * vcs_);
    }
  }
  lay_out_channels();
  lay_out_links(first_input, first_output);
  lay_out_lists();
}

void Fabric::lay_out_channels() {
  int deepest = spec_.buffer_flits;
  for (const Topology::Link& link : topology_.links) deepest = std::max(deepest, link.buffer_flits);
  const std::uint32_t queue = std::bit_ceil(static_cast<std::uint32_t>(deepest));
  queue_mask_ = queue - 1;
  input_vcs_.resize(inputs_.size() * vcs_);
  packets_.resize(input_vcs_.size() * queue);
  for (std::size_t i = 0; i < input_vcs_.size(); ++i) {
    InputVc& channel = input_vcs_[i];
    channel.id = static_cast<std::uint32_t>(i);
    channel.input = &inputs_[i / vcs_];
    channel.number = static_cast<std::uint16_t>(channel.input->number * vcs_ + i % vcs_);
    channel.packets = &packets_[i * queue];
  }
  OutputVc empty;
  empty.credits = static_cast<std::uint16_t>(spec_.buffer_flits);
  output_vcs_.assign(outputs_.size() * vcs_, empty);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].id = static_cast<std::uint32_t>(i);
    inputs_[i].vcs = &input_vcs_[i * vcs_];
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].id = static_cast<std::uint32_t>(i);
    outputs_[i].vcs = &output_vcs_[i * vcs_];
    outputs_[i].free = static_cast<std::uint32_t>((std::uint64_t{1} << vcs_) - 1);
  }
}

void Fabric::join(OutputPort& out, InputPort& in) {
  out.downstream = &input_vcs_[in.id * std::size_t{vcs_}];
  for (std::uint32_t v = 0; v < vcs_; ++v) out.downstream[v].upstream = &out.vcs[v];
}

void Fabric::lay_out_links(const std::vector<std::size_t>& first_input, const std::vector<std::size_t>& first_output) {
  const auto port = [](const std::vector<std::size_t>& first, int router, int number) {
    return first[static_cast<std::size_t>(router)] + static_cast<std::size_t>(number);
  };
  for (const Topology::Link& link : topology_.links) {
    link_output_.push_back(port(first_output, link.from, link.output));
    OutputPort& out = outputs_[link_output_.back()];
    InputPort& in = inputs_[port(first_input, link.to, link.input)];
    join(out, in);
    out.delay = static_cast<std::uint16_t>(spec_.switch_cycles + link.latency + 1);
    in.credit_delay = static_cast<std::uint16_t>(link.latency + 1 + spec_.credit_cycles);
    for (std::uint32_t v = 0; v < vcs_ && link.buffer_flits > 0; ++v)
      out.vcs[v].credits = static_cast<std::uint16_t>(link.buffer_flits);
    if (link.per_flit == link.per_cycle) continue;
    pace_of_.resize(outputs_.size(), -1);
    pace_of_[out.id] = static_cast<std::int32_t>(paces_.size());
    paces_.push_back({&out, link.per_flit, link.per_cycle});
  }
  const int to_node = spec_.switch_cycles + topology_.node_latency + 1;
  const int loop = to_node + topology_.node_latency + 1 + spec_.credit_cycles;
  gate_credit_delay_ = static_cast<std::uint32_t>(loop - to_node);
  // At most one flit leaves per cycle, so a buffer of at least `loop` flits never fills.
  sink_credit_delay_ = spec_.buffer_flits < loop ? static_cast<std::uint32_t>(loop) : 0;
  for (std::size_t n = 0; n < topology_.nodes.size(); ++n) {
    const Topology::Node& node = topology_.nodes[n];
    outputs_[port(first_output, node.router, node.output)].delay = static_cast<std::uint16_t>(to_node);
    OutputPort& source = outputs_[node_outputs_ + n];
    InputPort& in = inputs_[port(first_input, node.router, node.input)];
    join(source, in);
    source.delay = in.credit_delay = static_cast<std::uint16_t>(topology_.node_latency + 1);
    for (std::uint32_t v = 0; v < vcs_; ++v) source.vcs[v].node = static_cast<std::uint32_t>(n);
  }
}

void Fabric::lay_out_lists() {
  std::size_t longest = std::max(sink_credit_delay_, gate_credit_delay_);
  for (const OutputPort& out : outputs_) longest = std::max<std::size_t>(longest, out.delay);
  for (const InputPort& in : inputs_) longest = std::max<std::size_t>(longest, in.credit_delay);
  arrivals_.resize(longest + 1, inputs_.size());
  credits_.resize(longest + 1, outputs_.size());
  ejections_.resize(longest + 1, topology_.nodes.size());
  parked_.assign(input_vcs_.size(), nullptr);
  constexpr std::uint64_t nothing = ~std::uint64_t{0};
  best_input_.assign(outputs_.size(), nothing);
  best_requester_.assign(output_vcs_.size(), nothing);
  best_output_.assign(inputs_.size(), nothing);
  best_vc_.assign(inputs_.size(), nothing);
  for (auto* list : {&heads_, &next_heads_, &waiting_, &next_waiting_, &ready_, &next_ready_, &contested_, &winners_})
    WorkList<InputVc*>(input_vcs_.size()).swap(*list);
  WorkList<std::uint32_t>(input_vcs_.size()).swap(grants_);
  WorkList<OutputPort*>(outputs_.size()).swap(asked_);
  WorkList<InputPort*>(inputs_.size()).swap(granted_);
  is_sending_.assign(topology_.nodes.size(), 0);
  class_pointer_.assign(topology_.nodes.size(), 0);
  usable_.assign(topology_.nodes.size(), static_cast<std::uint32_t>((std::uint64_t{1} << vcs_) - 1));
  Stream stream;
  stream.last_vc = vcs_ - 1;
  streams_.assign(topology_.nodes.size() * spec_.classes.size(), stream);
}

namespace {

[[noreturn]] void fail(const char* what, std::int64_t value, const std::string& allowed) {
  throw UserError({what, "packet", std::to_string(value), allowed, {}});
}

}  // namespace

void Fabric::refuse(const Packet& packet, std::int64_t cycle) const {
  const std::size_t nodes = topology_.nodes.size();
  const std::string numbers = "0 ... " + std::to_string(nodes - 1);
  if (packet.source >= nodes) fail("unknown source node", packet.source, numbers);
  if (packet.destination >= nodes) fail("unknown destination node", packet.destination, numbers);
  if (packet.flits < 1 || packet.flits > 65535) fail("flits of a packet out of range", packet.flits, "1 ... 65535");
  if (packet.message_class >= spec_.classes.size())
    fail("unknown message class", packet.message_class, "0 ... " + std::to_string(spec_.classes.size() - 1));
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
  const std::uint32_t code = topology_.code(packet.source, packet.destination, [&] { return random_.coin(); });
  const Queued queued{now_, packet.tag, packet.destination, code, packet.flits};
  wake_node(packet.source);
  if (stream.slot == none && !stream.waits()) {
    start_packet(stream, queued, packet.source, packet.message_class);
    return;
  }
  if (!stream.waits()) stream.queue.clear(), stream.first = 0;
  stream.queue.push_back(queued);
  ++queued_;
}

/// Starts to send the next packet of a node's queue.
void Fabric::start_next(Stream& stream, std::uint32_t node, std::uint32_t message_class) {
  const Queued queued = stream.queue[stream.first++];
  if (stream.first > 4096 && stream.first * 2 > stream.queue.size()) {
    stream.queue.erase(stream.queue.begin(), stream.queue.begin() + static_cast<std::ptrdiff_t>(stream.first));
    stream.first = 0;
  }
  --queued_;
  start_packet(stream, queued, node, message_class);
}

void Fabric::start_packet(Stream& stream, const Queued& queued, std::uint32_t node, std::uint32_t message_class) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(live_packets_.size()));
    live_packets_.emplace_back();
    times_.emplace_back();
  }
  stream.slot = free_slots_.back();
  free_slots_.pop_back();
  if (gated_) {
    at_gate_.resize(live_packets_.size());
    at_gate_[stream.slot] = {};
  }
  stream.left = queued.flits;
  Live& live = live_packets_[stream.slot];
  live.destination = queued.destination;
  live.code = queued.code;
  live.flits = live.left = static_cast<std::uint16_t>(queued.flits);
  live.hops = 0;
  live.message_class = static_cast<std::uint16_t>(message_class);
  live.first_mask = message_class * vc_groups;
  times_[stream.slot] = {queued.created, now_, now_, queued.tag, node};
  ++live_;
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
  for (std::size_t i = 0; i < node_outputs_; ++i) sum += outputs_[i].flits;
  return sum;
}

std::vector<std::int64_t> Fabric::link_flits() const {
  std::vector<std::int64_t> flits;
  for (const std::size_t output : link_output_) flits.push_back(outputs_[output].flits);
  return flits;
}

std::vector<Network::NodeFlits> Fabric::node_flits() const {
  std::vector<NodeFlits> flits;
  for (std::size_t n = 0; n < topology_.nodes.size(); ++n) {
    const Topology::Node& node = topology_.nodes[n];
    const InputPort& in = inputs_[outputs_[node_outputs_ + n].downstream->input->id];
    const OutputPort& out = in.first_output[node.output];
    flits.push_back({outputs_[node_outputs_ + n].flits, out.flits});
  }
  return flits;
}

std::unique_ptr<Network> flit_network(const Topology& topology, const RouterSpec& spec, std::uint64_t seed) {
  return std::make_unique<Fabric>(topology, spec, seed);
}

}  // namespace tilesim::engine::noc
