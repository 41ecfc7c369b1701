// The flit-level network. State is in flat arrays; each pipeline stage has one work list per cycle.
//  A cycle visits only elements with work: a virtual channel (VC) is in a list only in cycles in which it requests or
// receives something. Delays are constant, so flits and credits in flight are entries of a ring of lists, one list per
// arrival cycle. The arrays never change their size, so elements can hold pointers to each other.
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

/// A list of bounded capacity that is filled, then read from the start. `push_if` writes the entry in any case and adds
/// the condition to the length, which is faster than a mispredicted branch.
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

/// One list for each of the next cycles.
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

/// The first set bit at or after position `from` <= 32, with wrap-around; `bits` must not be 0.
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

/// An offer as a number: cyclic distance of `number` from `pointer`, then the id `who`. The smallest offer wins.
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
  enum State : std::uint16_t { idle_vc, waiting, granted, active };  ///< granted: active, but the head is here

  struct InputPort;
  struct OutputPort;
  struct OutputVc;
  // A round-robin pointer is the number of the last winner + 1; the number of candidates counts as 0.
  struct alignas(64) InputVc {
    OutputPort* output = nullptr;  ///< valid if waiting or active
    OutputVc* through = nullptr;   ///< valid if active
    InputPort* input = nullptr;
    OutputVc* upstream = nullptr;      ///< VC of the sender at the other end of the link
    std::uint32_t* packets = nullptr;  ///< ring of packets in the buffer or arriving
    std::uint32_t allowed = 0;         ///< mask of the output VCs that the packet may use
    std::uint32_t id = 0;
    std::uint16_t occupancy = 0;       ///< flits in the buffer
    std::uint16_t remaining = 0;       ///< flits of the first packet that have not left
    std::uint16_t head = 0, tail = 0;  ///< positions in `packets`
    std::uint16_t pointer = 0;         ///< round-robin pointer over the router's output VCs
    State state = idle_vc;
    std::uint16_t given = 0;   ///< number of the output VC, if active
    std::uint16_t number = 0;  ///< index among the router's input VCs
  };
  struct alignas(64) InputPort {
    OutputPort* first_output = nullptr;  ///< first output of this input's router
    const Hop* hops = nullptr;           ///< the router's row of the routing table
    InputVc* vcs = nullptr;
    InputVc* winner = nullptr;  ///< VC that won the switch, while conflicts between inputs are resolved
    std::uint64_t offers = 0;   ///< mask of outputs that granted this input
    std::uint32_t id = 0;
    std::uint32_t wants = 0;     ///< mask of VCs that request the switch in this cycle
    std::uint16_t requests = 0;  ///< number of set bits of `wants`
    std::uint16_t number = 0;    ///< index among the router's inputs
    std::uint16_t output_pointer = 0;
    std::uint16_t vc_pointer = 0;
    std::uint16_t credit_delay = 0;
    std::uint16_t first_number = 0;  ///< index of the first VC among the router's input VCs
  };
  struct alignas(64) OutputPort {
    InputVc* downstream = nullptr;  ///< first VC at the link's other end; null: a node receives
    OutputVc* vcs = nullptr;
    InputVc* parked = nullptr;  ///< list of VCs that wait for a free VC of this port
    std::uint64_t asks = 0;     ///< mask of inputs that request the switch in this cycle
    std::int64_t flits = 0;
    std::uint32_t free = 0;  ///< mask of VCs that no packet occupies
    std::uint32_t id = 0;
    std::uint32_t first_input = 0;  ///< first input of this output's router
    std::uint16_t number = 0;       ///< index among the router's outputs
    std::uint16_t input_pointer = 0, delay = 0;
    std::uint16_t vc_requests = 0, switch_requests = 0;  ///< numbers of requests in this cycle
    std::uint16_t first_vc = 0;                          ///< index of the first VC among the router's output VCs
  };
  struct RouterSize { std::uint16_t inputs = 0, outputs = 0, input_vcs = 0; };
  struct OutputVc {
    InputVc* owner = nullptr;                ///< input VC whose packet used it last
    std::uint32_t node = none;               ///< node that sends through this VC; none: a router sends
    std::uint16_t credits = 0, pointer = 0;  ///< pointer: over the router's input VCs
  };
  /// The fields of a packet that routers read.
  struct Live {
    std::uint32_t destination = 0, code = 0;
    std::uint16_t flits = 0, left = 0;  ///< left: flits not yet delivered
    std::uint16_t hops = 0, message_class = 0;
    std::uint32_t first_mask = 0;  ///< mask of the VCs of the class
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
  /// Queue of a node's packets of one message class, first in, first out.
  struct Stream {
    std::vector<Queued> queue;
    std::size_t first = 0;
    std::uint32_t slot = none;  ///< slot of the packet that the node is sending
    std::uint32_t vc = none;    ///< VC through which the node sends this packet
    std::uint32_t last_vc = 0, left = 0;
    bool waits() const { return first != queue.size(); }
  };
  /// Free memory of a node for packets of one class.
  struct Gate {
    std::int64_t places = std::numeric_limits<std::int64_t>::max();
    std::deque<std::uint32_t> waiting;  ///< packets whose head flit waits for a place
  };
  /// State of a packet that arrives at a gate.
  struct AtGate {
    OutputVc* exit = nullptr;  ///< output VC through which its flits arrive
    std::uint32_t held = 0;    ///< flits that arrived but whose credits are not yet returned
    bool has_place = false;
  };
  /// A link that carries less than one flit per cycle. The sender delays flits while the link is busy.
  struct Pace {
    OutputPort* output = nullptr;
    std::int64_t per_flit = 1, per_cycle = 1, flits = 0, free = 0;  ///< free: time in 1 / `per_cycle` cycles
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
  std::uint32_t sink_credit_delay_ = 0;  ///< cycles until a node's buffer returns a credit; 0: the buffer never fills
  std::uint32_t gate_credit_delay_ = 0;  ///< cycles from a node taking a flit until the router has the credit
  bool gated_ = false;
  std::vector<Gate> gates_;                     ///< nodes x classes; empty: nodes accept every packet
  std::vector<AtGate> at_gate_;                 ///< per packet slot
  std::vector<std::uint32_t> freed_, opening_;  ///< gates at which a place became free
  std::vector<InputVc> input_vcs_;
  std::vector<InputPort> inputs_;
  std::vector<RouterSize> sizes_;    ///< per input: size of its router
  std::vector<OutputPort> outputs_;  ///< outputs of routers, followed by those of nodes
  std::vector<OutputVc> output_vcs_;
  std::size_t node_outputs_ = 0;  ///< index in `outputs_` of the first node's output
  std::vector<InputVc*> parked_;  ///< per input VC: next VC that waits for the output
  /// Smallest offer() so far in the current allocation; no_offer between allocations.
  std::vector<std::uint64_t> best_input_, best_vc_, best_output_, best_requester_;
  std::vector<std::uint32_t> packets_;  ///< per input VC: ring of packet slots
  std::vector<std::uint32_t> masks_;    ///< message class x VC group
  std::vector<std::size_t> link_output_;
  std::vector<Pace> paces_;
  std::vector<std::int32_t> pace_of_;  ///< per output: index of its pace; -1: full speed; empty: no slow links

  Ring<InputVc*> arrivals_;
  Ring<OutputVc*> credits_;
  Ring<std::uint32_t> ejections_;
  WorkList<InputVc*> heads_, next_heads_;      ///< input VCs whose first packet needs a route
  WorkList<InputVc*> waiting_, next_waiting_;  ///< input VCs that have a route and need an output VC
  WorkList<InputVc*> ready_, next_ready_;      ///< input VCs that request the switch
  WorkList<InputVc*> contested_, winners_;
  WorkList<std::uint32_t> grants_;
  WorkList<OutputPort*> asked_;         ///< outputs with more than one request
  WorkList<InputPort*> granted_;        ///< inputs with a grant
  bool wide_ = false;                   ///< whether a router has more ports than a mask has bits
  std::vector<std::uint32_t> sending_;  ///< nodes that are sending
  std::vector<std::uint8_t> is_sending_;
  std::vector<std::uint16_t> class_pointer_;
  std::vector<std::uint32_t> usable_;  ///< per node: mask of injection VCs with a credit

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
