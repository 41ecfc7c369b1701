// The flit-level network: state in flat arrays, one list of work per pipeline stage and cycle.
//
// Nothing is visited that has no work: a virtual channel is in a list only in cycles in which it asks for something or
// something reaches it. Delays are fixed, so what is on a link is an entry in a ring of lists, by cycle of arrival.
// Numbers: an input VC is input port * VCs + vc over all routers, an output VC likewise; the outputs of nodes (their
// injection links) follow those of the routers, and one block of input VCs at the end stands for all nodes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "tilesim/engine/noc/network.hpp"
#include "tilesim/engine/noc/random.hpp"

namespace tilesim::engine::noc {

/// A list that is filled to at most its capacity and read in one go. An entry is written always and counted by a
/// condition, which costs less than a branch that data would mispredict.
struct WorkList {
  std::vector<std::uint32_t> items;
  std::uint32_t count = 0;
  explicit WorkList(std::size_t capacity = 0) : items(capacity + 1) {}
};

/// Lists by cycle of the near future.
class Ring {
 public:
  struct Slot { std::uint32_t *begin = nullptr, *end = nullptr; };
  void resize(std::size_t cycles, std::size_t entries) {
    slots_.resize(std::bit_ceil(cycles));
    items_.assign(slots_.size() * (entries + 1), 0);
    for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].begin = slots_[i].end = items_.data() + i * (entries + 1);
  }
  Slot& at(std::uint32_t cycle) { return slots_[cycle & (slots_.size() - 1)]; }
  void push(std::uint32_t cycle, std::uint32_t item) { *at(cycle).end++ = item; }
  bool used(std::uint32_t cycle) { return at(cycle).end != at(cycle).begin; }
  std::size_t cycles() const { return slots_.size(); }

 private:
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> items_;
};

/// First set bit at or after `from` <= 32, going round; `bits` is not 0.
inline std::uint32_t next_bit(std::uint32_t bits, std::uint32_t from) {
  const std::uint32_t above = bits & static_cast<std::uint32_t>(~std::uint64_t{0} << from);
  return static_cast<std::uint32_t>(std::countr_zero(above != 0 ? above : bits));
}

class Fabric final : public Network {
 public:
  Fabric(const Topology& topology, const RouterSpec& spec, std::uint64_t seed);

  void inject(const Packet& packet, std::int64_t cycle) override;
  void advance(std::int64_t until) override;
  std::int64_t advance_to_delivery(std::int64_t limit) override;
  std::int64_t now() const override { return now_; }
  bool idle() const override { return live_ == 0 && queued_ == 0 && later_.empty(); }
  std::vector<Delivery>& deliveries() override { return deliveries_; }
  std::int64_t queued() const override { return queued_; }
  Backlog backlog() const override;
  std::int64_t flits_delivered() const override { return flits_delivered_; }
  std::int64_t flit_hops() const override;
  std::vector<std::int64_t> link_flits() const override;

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  enum State : std::uint16_t { idle_vc, waiting, granted, active };  ///< granted: active, its head has not left

  // Round-robin pointers hold the last winner + 1, which may be one beyond the last number: that is the same as 0.
  struct InputVc {
    std::uint16_t occupancy = 0;       ///< flits in the buffer
    std::uint16_t remaining = 0;       ///< flits of the first packet that have not left
    std::uint16_t head = 0, tail = 0;  ///< of the ring of packets that are in the buffer or on their way to it
    std::uint32_t output = 0;          ///< port; waiting or active
    std::uint32_t output_vc = 0;       ///< active
    std::uint32_t allowed = 0;         ///< VCs of the output that the packet may use
    std::uint16_t pointer = 0;         ///< over the router's output VCs
    State state = idle_vc;
    std::uint32_t input = 0;   ///< port
    std::uint16_t vc = 0;      ///< of the port
    std::uint16_t number = 0;  ///< among the router's input VCs
  };
  struct InputPort {
    std::uint32_t upstream = 0;      ///< first output VC of the link's other end
    std::uint32_t first_output = 0;  ///< of the router
    std::uint32_t first_hop = 0;     ///< of the router in the routing table
    std::uint16_t requests = 0;      ///< for the switch, in this cycle
    std::uint16_t number = 0;        ///< in the router
    std::uint16_t output_pointer = 0, vc_pointer = 0;
    std::uint16_t credit_delay = 0;
    std::uint16_t outputs = 0, input_vcs = 0;  ///< of the router
  };
  struct OutputPort {
    std::uint32_t free = 0;                ///< VCs that no unfinished packet owns
    std::uint32_t downstream = 0;          ///< first input VC of the link's other end; node_sink_ for a node
    std::uint32_t parked = none;           ///< input VCs that wait until a VC of this port becomes free
    std::uint16_t number = 0, inputs = 0;  ///< in the router; of the router
    std::uint16_t input_pointer = 0, delay = 0;
    std::uint16_t vc_requests = 0, switch_requests = 0;  ///< in this cycle
    std::int64_t flits = 0;
  };
  struct OutputVc {
    std::uint32_t owner = 0;
    std::uint16_t credits = 0, pointer = 0;  ///< pointer over the router's input VCs
  };
  /// What routers read of a packet.
  struct Live {
    std::uint32_t destination = 0, code = 0;
    std::uint16_t flits = 0, left = 0;  ///< left: not delivered
    std::uint16_t hops = 0, message_class = 0;
    std::uint32_t first_mask = 0;  ///< of the class
  };
  struct Times {
    std::int64_t created = 0, started = 0, sent = 0;
    std::uint64_t tag = 0;
    std::uint32_t source = 0;
  };
  struct Queued {
    std::int64_t created = 0;
    std::uint64_t tag = 0;
    std::uint32_t destination = 0, code = 0, flits = 0;
  };
  /// A node's packets of one class: first in, first out.
  struct Stream {
    std::vector<Queued> queue;
    std::size_t first = 0;
    std::uint32_t slot = none;  ///< the packet being sent
    std::uint32_t vc = none;    ///< that it uses
    std::uint32_t last_vc = 0, left = 0;
    bool waits() const { return first != queue.size(); }
  };
  struct Later {
    std::int64_t cycle = 0;
    std::uint64_t order = 0;
    Packet packet;
    bool operator<(const Later& other) const {
      return cycle != other.cycle ? cycle > other.cycle : order > other.order;
    }
  };

  void lay_out(const Topology& topology);
  void lay_out_links(const Topology& topology, const std::vector<std::uint32_t>& first_input,
                     const std::vector<std::uint32_t>& first_output);
  void lay_out_lists(const Topology& topology);
  [[noreturn]] void refuse(const Packet& packet, std::int64_t cycle) const;
  void enqueue(const Packet& packet);
  void cycle();
  void skip(std::int64_t until);
  void eject();
  void take_credits();
  void take_arrivals();
  void send_from_nodes();
  bool send_from(std::uint32_t node);
  bool send_flit(std::uint32_t node, std::size_t message_class);
  void start_packet(std::uint32_t node, std::size_t message_class);
  void wake_node(std::uint32_t node);
  void first_credit(std::uint32_t output_vc);
  void route(std::uint32_t input_vc);
  void allocate_vcs();
  void allocate_vc(std::uint32_t input_vc);
  void allocate_contested_vcs();
  void give_vc(std::uint32_t input_vc, std::uint32_t usable);
  void allocate_switch();
  void allocate_contested_switch();
  void pass(std::uint32_t input_vc);
  void wake_parked(OutputPort& out);

  Topology topology_;
  RouterSpec spec_;
  Random random_;
  std::int64_t now_ = 0;
  std::uint32_t vcs_ = 0, node_outputs_ = 0, node_sink_ = 0, queue_size_ = 0;
  std::uint32_t sink_credit_delay_ = 0;  ///< of a node's buffer; 0: it never fills
  std::vector<InputVc> input_vcs_;
  std::vector<InputPort> inputs_;
  std::vector<OutputPort> outputs_;
  std::vector<OutputVc> output_vcs_;
  std::vector<std::uint32_t> parked_;  ///< next in an output's list, per input VC
  /// The best offer so far in an allocation: distance from the pointer, then who; all ones between allocations.
  std::vector<std::uint64_t> best_input_, best_vc_, best_output_, best_requester_;
  std::vector<std::uint32_t> packets_;  ///< rings of packet slots, per input VC
  std::vector<std::uint32_t> masks_;    ///< class x group
  std::vector<std::uint32_t> link_output_;

  Ring arrivals_, credits_, ejections_;
  WorkList heads_, next_heads_;      ///< input VCs whose first packet needs a route
  WorkList waiting_, next_waiting_;  ///< and those that have one and need an output VC
  WorkList ready_, next_ready_;      ///< and those that ask for the switch
  WorkList clean_, contested_;
  std::vector<std::uint32_t> sending_;  ///< nodes
  std::vector<std::uint8_t> is_sending_;
  std::vector<std::uint16_t> class_pointer_;

  std::vector<Live> live_packets_;
  std::vector<Times> times_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Stream> streams_;  ///< nodes x classes
  std::priority_queue<Later> later_;
  std::uint64_t order_ = 0;
  std::int64_t live_ = 0, queued_ = 0, flits_delivered_ = 0;
  std::vector<Delivery> deliveries_;
};

}  // namespace tilesim::engine::noc
