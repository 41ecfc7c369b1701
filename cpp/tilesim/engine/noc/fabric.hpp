// The flit-level network: state in flat arrays, one work list per pipeline stage and cycle.
//
// A cycle visits only elements with work: a virtual channel is in a list only in cycles in which it requests something
// or receives something. Delays are fixed, so flits and credits on links are entries in a ring of lists, by cycle of
// arrival. Arrays keep their size, so that elements may point to each other.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "tilesim/engine/noc/network.hpp"
#include "tilesim/engine/noc/random.hpp"

namespace tilesim::engine::noc {

/// A list with bounded capacity that is filled, then read completely. Writes every entry and counts it by a condition,
/// which is cheaper than a mispredicted branch.
template <class T>
class WorkList {
 public:
  explicit WorkList(std::size_t capacity = 0) : items_(capacity + 1), end_(items_.data()) {}
  T* begin() { return items_.data(); }
  T* end() { return end_; }
  bool empty() const { return end_ == items_.data(); }
  void clear() { end_ = items_.data(); }
  void cut(T* end) { end_ = end; }
  void push(T item) { *end_++ = item; }
  void push_if(T item, bool condition) {
    *end_ = item;
    end_ += condition;
  }
  void swap(WorkList& other) {
    items_.swap(other.items_);
    std::swap(end_, other.end_);
  }

 private:
  std::vector<T> items_;
  T* end_;
};

/// Lists by cycle for the near future.
template <class T>
class Ring {
 public:
  struct Slot { T *begin = nullptr, *end = nullptr; };
  void resize(std::size_t cycles, std::size_t entries) {
    slots_.resize(std::bit_ceil(cycles));
    items_.assign(slots_.size() * (entries + 1), T{});
    for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].begin = slots_[i].end = items_.data() + i * (entries + 1);
  }
  Slot& at(std::uint32_t cycle) { return slots_[cycle & (slots_.size() - 1)]; }
  void push(std::uint32_t cycle, T item) { *at(cycle).end++ = item; }
  bool used(std::uint32_t cycle) { return at(cycle).end != at(cycle).begin; }
  std::size_t cycles() const { return slots_.size(); }

 private:
  std::vector<Slot> slots_;
  std::vector<T> items_;
};

/// First set bit from `from` <= 32 on, cyclically; `bits` must not be 0.
inline std::uint32_t next_bit(std::uint32_t bits, std::uint32_t from) {
  const std::uint32_t above = bits & static_cast<std::uint32_t>(~std::uint64_t{0} << from);
  return static_cast<std::uint32_t>(std::countr_zero(above != 0 ? above : bits));
}

/// The same for 64 bits.
inline std::uint32_t next_port(std::uint64_t bits, std::uint32_t from) {
  const std::uint64_t above = from < 64 ? bits & ~std::uint64_t{0} << from : 0;
  return static_cast<std::uint32_t>(std::countr_zero(above != 0 ? above : bits));
}

constexpr std::uint64_t no_offer = ~std::uint64_t{0};

/// An offer as a number: cyclic distance of `number` from `pointer`, then the id `who`. The smallest wins.
inline std::uint64_t offer(std::uint32_t number, std::uint32_t pointer, std::uint32_t count, std::uint32_t who) {
  const std::uint32_t distance = number >= pointer ? number - pointer : number + count - pointer;
  return std::uint64_t{distance} << 32 | who;
}

inline std::uint32_t who(std::uint64_t best) { return static_cast<std::uint32_t>(best); }

class Fabric final : public Network {
 public:
  Fabric(const Topology& topology, const RouterSpec& spec, std::uint64_t seed);
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  void inject(const Packet& packet, std::int64_t cycle) override;
  void limit(std::uint32_t node, std::uint32_t message_class, std::int64_t places) override;
  void give_back(std::uint32_t node, std::uint32_t message_class) override;
  std::int64_t line(std::uint32_t node, std::uint32_t message_class) const override {
    const Stream& stream = streams_[node * spec_.classes.size() + message_class];
    return static_cast<std::int64_t>(stream.queue.size() - stream.first) + (stream.slot != none);
  }
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
  std::vector<NodeFlits> node_flits() const override;

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  enum State : std::uint16_t { idle_vc, waiting, granted, active };  ///< granted: active, head flit has not left

  struct InputPort;
  struct OutputPort;
  struct OutputVc;
  // Round-robin pointers hold the last winner + 1; one beyond the last number counts as 0.
  struct alignas(64) InputVc {
    OutputPort* output = nullptr;  ///< if waiting or active
    OutputVc* through = nullptr;   ///< if active
    InputPort* input = nullptr;
    OutputVc* upstream = nullptr;      ///< at the other end of the link
    std::uint32_t* packets = nullptr;  ///< ring of packets in the buffer or on their way to it
    std::uint32_t allowed = 0;         ///< VCs of the output that the packet may use
    std::uint32_t id = 0;
    std::uint16_t occupancy = 0;       ///< flits in the buffer
    std::uint16_t remaining = 0;       ///< flits of the first packet still to leave
    std::uint16_t head = 0, tail = 0;  ///< positions in `packets`
    std::uint16_t pointer = 0;         ///< over the router's output VCs
    State state = idle_vc;
    std::uint16_t given = 0;   ///< VC of the output, if active
    std::uint16_t number = 0;  ///< index among the router's input VCs
  };
  struct alignas(64) InputPort {
    OutputPort* first_output = nullptr;  ///< first of the router
    const Hop* hops = nullptr;           ///< row of the routing table
    InputVc* vcs = nullptr;
    InputVc* winner = nullptr;  ///< switch winner, while requests in conflict are separated
    std::uint64_t offers = 0;   ///< outputs that granted this input
    std::uint32_t id = 0;
    std::uint32_t wants = 0;     ///< VCs that request the switch in this cycle
    std::uint16_t requests = 0;  ///< number of these VCs
    std::uint16_t number = 0;    ///< index in the router
    std::uint16_t output_pointer = 0;
    std::uint16_t vc_pointer = 0;
    std::uint16_t credit_delay = 0;
    std::uint16_t first_number = 0;  ///< index of its first VC in the router
  };
  struct alignas(64) OutputPort {
    InputVc* downstream = nullptr;  ///< first VC at the link's other end; null: a node
    OutputVc* vcs = nullptr;
    InputVc* parked = nullptr;  ///< VCs that wait for a free VC of this port
    std::uint64_t asks = 0;     ///< inputs that request the switch in this cycle
    std::int64_t flits = 0;
    std::uint32_t free = 0;  ///< VCs without an incomplete packet
    std::uint32_t id = 0;
    std::uint32_t first_input = 0;  ///< first input of the router
    std::uint16_t number = 0;       ///< index in the router
    std::uint16_t input_pointer = 0, delay = 0;
    std::uint16_t vc_requests = 0, switch_requests = 0;  ///< number in this cycle
    std::uint16_t first_vc = 0;                          ///< index of its first VC among the router's
  };
  struct RouterSize { std::uint16_t inputs = 0, outputs = 0, input_vcs = 0; };
  struct OutputVc {
    InputVc* owner = nullptr;                ///< its last owner
    std::uint32_t node = none;               ///< node that sends through it, unless a router does
    std::uint16_t credits = 0, pointer = 0;  ///< pointer: over the router's input VCs
  };
  /// The data of a packet that routers read.
  struct Live {
    std::uint32_t destination = 0, code = 0;
    std::uint16_t flits = 0, left = 0;  ///< left: flits not delivered
    std::uint16_t hops = 0, message_class = 0;
    std::uint32_t first_mask = 0;  ///< VC mask of the class
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
  /// A node's packets of one class, in first-in-first-out order.
  struct Stream {
    std::vector<Queued> queue;
    std::size_t first = 0;
    std::uint32_t slot = none;  ///< the packet being sent
    std::uint32_t vc = none;    ///< VC that it uses
    std::uint32_t last_vc = 0, left = 0;
    bool waits() const { return first != queue.size(); }
  };
  /// Space in a node's memory for packets of a class.
  struct Gate {
    std::int64_t places = std::numeric_limits<std::int64_t>::max();
    std::deque<std::uint32_t> waiting;  ///< packets whose head flit has no place
  };
  /// State of a packet at a gate.
  struct AtGate {
    OutputVc* exit = nullptr;  ///< output VC through which its flits arrive
    std::uint32_t held = 0;    ///< arrived flits that keep their credits
    bool has_place = false;
  };
  /// A link slower than one flit per cycle. Its sender keeps flits that cannot leave within a cycle.
  struct Pace {
    OutputPort* output = nullptr;
    std::int64_t per_flit = 1, per_cycle = 1, flits = 0, free = 0;  ///< free: in `per_cycle` parts
  };
  struct Later {
    std::int64_t cycle = 0;
    std::uint64_t order = 0;
    Packet packet;
    bool operator<(const Later& other) const {
      return cycle != other.cycle ? cycle > other.cycle : order > other.order;
    }
  };

  void lay_out();
  void lay_out_channels();
  void join(OutputPort& out, InputPort& in);
  void lay_out_links(const std::vector<std::size_t>& first_input, const std::vector<std::size_t>& first_output);
  void lay_out_lists();
  [[noreturn]] void refuse(const Packet& packet, std::int64_t cycle) const;
  void enqueue(const Packet& packet);
  void cycle();
  void skip(std::int64_t until);
  void eject();
  void eject_at_gates();
  void take_flit(std::uint32_t slot);
  void deliver(std::uint32_t slot) {
    const Live& live = live_packets_[slot];
    const Times& times = times_[slot];
    deliveries_.push_back({{times.source, live.destination, live.flits, live.message_class, times.tag},
                           times.created,
                           times.started,
                           times.sent,
                           now_,
                           live.hops});
    free_slots_.push_back(slot);
    --live_;
  }
  void take_credits();
  void take_arrivals();
  void send_from_nodes();
  bool send_from(std::uint32_t node);
  bool send_flit(Stream& stream, std::uint32_t node, std::size_t message_class);
  void start_next(Stream& stream, std::uint32_t node, std::uint32_t message_class);
  void start_packet(Stream& stream, const Queued& queued, std::uint32_t node, std::uint32_t message_class);
  void wake_node(std::uint32_t node);
  void first_credit(OutputVc& channel);
  void route(InputVc& channel);
  void allocate_vcs();
  void allocate_vc(InputVc& channel);
  void allocate_contested_vcs();
  void give_vc(InputVc& channel, std::uint32_t usable);
  void allocate_switch();
  void allocate_contested_switch();
  void allocate_wide_switch();
  void allocate_contested_wide_switch();
  void pass(InputVc& channel);
  void wake_parked(OutputPort& out);
  void hold_paced();
  void note_paced();

  Topology topology_;
  RouterSpec spec_;
  Random random_;
  std::int64_t now_ = 0;
  std::uint32_t vcs_ = 0, queue_mask_ = 0;
  std::uint32_t sink_credit_delay_ = 0;  ///< credit delay of a node's buffer; 0: never fills
  std::uint32_t gate_credit_delay_ = 0;  ///< cycles between a node taking a flit and the router's credit
  bool gated_ = false;
  std::vector<Gate> gates_;                     ///< nodes x classes; empty: no limits
  std::vector<AtGate> at_gate_;                 ///< per packet slot
  std::vector<std::uint32_t> freed_, opening_;  ///< gates with a freed place
  std::vector<InputVc> input_vcs_;
  std::vector<InputPort> inputs_;
  std::vector<RouterSize> sizes_;    ///< of each input's router
  std::vector<OutputPort> outputs_;  ///< outputs of routers, then of nodes
  std::vector<OutputVc> output_vcs_;
  std::size_t node_outputs_ = 0;  ///< index of the first output of a node
  std::vector<InputVc*> parked_;  ///< next entry in an output's list, per input VC
  /// Best offer so far in an allocation, as by offer(); no_offer between allocations.
  std::vector<std::uint64_t> best_input_, best_vc_, best_output_, best_requester_;
  std::vector<std::uint32_t> packets_;  ///< rings of packet slots, per input VC
  std::vector<std::uint32_t> masks_;    ///< class x group
  std::vector<std::size_t> link_output_;
  std::vector<Pace> paces_;
  std::vector<std::int32_t> pace_of_;  ///< per output: index of its pace; -1: a flit per cycle. Empty: no slow links

  Ring<InputVc*> arrivals_;
  Ring<OutputVc*> credits_;
  Ring<std::uint32_t> ejections_;
  WorkList<InputVc*> heads_, next_heads_;      ///< input VCs whose first packet needs a route
  WorkList<InputVc*> waiting_, next_waiting_;  ///< input VCs with a route that need an output VC
  WorkList<InputVc*> ready_, next_ready_;      ///< input VCs that request the switch
  WorkList<InputVc*> contested_, winners_;
  WorkList<std::uint32_t> grants_;
  WorkList<OutputPort*> asked_;         ///< outputs with several requests
  WorkList<InputPort*> granted_;        ///< inputs with a grant
  bool wide_ = false;                   ///< a router has more ports than bits in a mask
  std::vector<std::uint32_t> sending_;  ///< nodes that are sending
  std::vector<std::uint8_t> is_sending_;
  std::vector<std::uint16_t> class_pointer_;
  std::vector<std::uint32_t> usable_;  ///< per node: injection VCs with a credit

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
