#include "tilesim/engine/noc/traffic.hpp"

#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "tilesim/base/error.hpp"

namespace tilesim::engine::noc {

namespace {

/// The same destination for all packets of a source.
class Fixed final : public Pattern {
 public:
  explicit Fixed(std::vector<std::uint32_t> to) : to_(std::move(to)) {}
  std::uint32_t destination(std::uint32_t source, Random&) const override { return to_[source]; }

 private:
  std::vector<std::uint32_t> to_;
};

class Uniform final : public Pattern {
 public:
  explicit Uniform(std::uint32_t nodes) : nodes_(nodes) {}
  std::uint32_t destination(std::uint32_t, Random& random) const override { return random.below(nodes_); }

 private:
  std::uint32_t nodes_;
};

class Hotspot final : public Pattern {
 public:
  explicit Hotspot(std::vector<std::uint32_t> nodes) : nodes_(std::move(nodes)) {}
  std::uint32_t destination(std::uint32_t, Random& random) const override {
    return nodes_[random.below(static_cast<std::uint32_t>(nodes_.size()))];
  }

 private:
  std::vector<std::uint32_t> nodes_;
};

class Diagonal final : public Pattern {
 public:
  explicit Diagonal(std::uint32_t nodes) : nodes_(nodes) {}
  std::uint32_t destination(std::uint32_t source, Random& random) const override {
    return random.below(3) == 2 ? (source + 1) % nodes_ : source;
  }

 private:
  std::uint32_t nodes_;
};

class Asymmetric final : public Pattern {
 public:
  explicit Asymmetric(std::uint32_t nodes) : half_(nodes / 2) {}
  std::uint32_t destination(std::uint32_t source, Random& random) const override {
    return source % half_ + (random.coin() ? half_ : 0);
  }

 private:
  std::uint32_t half_;
};

using Map = std::function<std::uint32_t(std::uint32_t)>;

std::unique_ptr<Pattern> fixed(std::uint32_t nodes, const Map& map) {
  std::vector<std::uint32_t> to(nodes);
  for (std::uint32_t s = 0; s < nodes; ++s) to[s] = map(s);
  return std::make_unique<Fixed>(std::move(to));
}

[[noreturn]] void refuse(const std::string& pattern, const Topology& net, const std::string& needs) {
  throw UserError({"this traffic does not fit the number of nodes",
                   "traffic '" + pattern + "' on " + net.name,
                   std::to_string(net.nodes.size()) + " nodes",
                   needs,
                   {}});
}

/// Number of bits of a node number.
std::uint32_t node_bits(const std::string& pattern, const Topology& net) {
  const auto nodes = static_cast<std::uint32_t>(net.nodes.size());
  if (!std::has_single_bit(nodes)) refuse(pattern, net, "a power of two");
  return static_cast<std::uint32_t>(std::countr_zero(nodes));
}

/// Adds step(base) to each digit of the node number, modulo the digit's base.
Map digits(const Topology& net, const std::function<int(int)>& step) {
  return [extents = net.extents, step](std::uint32_t source) {
    std::uint32_t result = 0, weight = 1;
    for (const int extent : extents) {
      const auto k = static_cast<std::uint32_t>(extent);
      result += (source % k + static_cast<std::uint32_t>(step(extent))) % k * weight;
      source /= k, weight *= k;
    }
    return result;
  };
}

/// Exchanges the coordinates in a square; for a power of four nodes, the halves of the node number's bits.
Map transpose(const Topology& net) {
  if (net.extents.size() == 2 && net.extents[0] == net.extents[1])
    return [k = static_cast<std::uint32_t>(net.extents[0])](std::uint32_t s) { return s % k * k + s / k; };
  const std::uint32_t bits = node_bits("transpose", net);
  if (bits % 2 != 0) refuse("transpose", net, "a square, or a power of four");
  return [half = bits / 2](std::uint32_t s) { return (s >> half) | ((s & ((1U << half) - 1)) << half); };
}

std::unique_ptr<Pattern> permutation(std::uint32_t nodes, std::uint64_t seed) {
  std::vector<std::uint32_t> to(nodes);
  std::iota(to.begin(), to.end(), 0U);
  Random random(seed, 4);
  for (std::uint32_t i = nodes; i > 1; --i) std::swap(to[i - 1], to[random.below(i)]);
  return std::make_unique<Fixed>(std::move(to));
}

std::unique_ptr<Pattern> hotspot(const std::string& name, const Topology& net) {
  std::vector<std::uint32_t> nodes;
  std::string digits;
  for (const char c : name.substr(7) + ',') {
    if (c >= '0' && c <= '9' && digits.size() < 9) {
      digits += c;
    } else if (c == ',' || c == ' ' || c == '(' || c == ')' || c == '{' || c == '}' || c == ':') {
      if (digits.empty()) continue;
      nodes.push_back(static_cast<std::uint32_t>(std::stoul(digits)));
      if (nodes.back() >= net.nodes.size()) refuse(name, net, "hot nodes below the number of nodes");
      digits.clear();
    } else {
      throw UserError(
          {"a hotspot needs numbers of nodes", "traffic", "'" + name + "'", "hotspot(3) or hotspot(3,12)", {}});
    }
  }
  return std::make_unique<Hotspot>(nodes.empty() ? std::vector<std::uint32_t>{0} : nodes);
}

/// The lowest `bits` bits of `source` in reverse order.
std::uint32_t reversed(std::uint32_t source, std::uint32_t bits) {
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < bits; ++i) result |= (source >> i & 1U) << (bits - 1 - i);
  return result;
}

}  // namespace

std::vector<std::string> pattern_names() {
  return {"uniform",  "transpose", "bitcomp",    "bitrev",      "shuffle", "tornado",
          "neighbor", "diagonal",  "asymmetric", "permutation", "hotspot"};
}

std::unique_ptr<Pattern> make_pattern(const std::string& name, const Topology& net, std::uint64_t seed) {
  const auto nodes = static_cast<std::uint32_t>(net.nodes.size());
  if (name == "uniform") return std::make_unique<Uniform>(nodes);
  if (name == "diagonal") return std::make_unique<Diagonal>(nodes);
  if (name == "permutation" || name == "randperm") return permutation(nodes, seed);
  if (name.rfind("hotspot", 0) == 0) return hotspot(name, net);
  if (name == "transpose") return fixed(nodes, transpose(net));
  if (name == "tornado") return fixed(nodes, digits(net, [](int k) { return (k + 1) / 2 - 1; }));
  if (name == "neighbor") return fixed(nodes, digits(net, [](int) { return 1; }));
  if (name == "asymmetric") {
    if (nodes % 2 != 0) refuse(name, net, "an even number");
    return std::make_unique<Asymmetric>(nodes);
  }
  if (name == "bitcomp" || name == "bitrev" || name == "shuffle") {
    const std::uint32_t bits = node_bits(name, net);
    if (name == "bitcomp") return fixed(nodes, [=](std::uint32_t s) { return ~s & (nodes - 1); });
    if (name == "bitrev") return fixed(nodes, [=](std::uint32_t s) { return reversed(s, bits); });
    return fixed(nodes, [=](std::uint32_t s) { return bits == 0 ? 0 : ((s << 1) | (s >> (bits - 1))) & (nodes - 1); });
  }
  const std::vector<std::string> names = pattern_names();
  throw UserError({"unknown traffic", {}, "'" + name + "'", join(names), nearest(name, names)});
}

namespace {

double packet_rate(double load, std::uint32_t packet_flits) {
  if (packet_flits < 1 || packet_flits > 65535)
    throw UserError({"flits of a packet out of range", "traffic", std::to_string(packet_flits), "1 ... 65535", {}});
  if (!(load >= 0 && load <= packet_flits))
    throw UserError({"the load (flits per node and cycle) is out of range",
                     "traffic",
                     std::to_string(load),
                     "0 ... flits of a packet (one packet per cycle)",
                     {}});
  return load / packet_flits;
}

}  // namespace

BernoulliTraffic::BernoulliTraffic(const Topology& topology, const std::string& pattern, double load,
                                   std::uint32_t packet_flits, std::uint64_t seed)
    : pattern_(make_pattern(pattern, topology, seed)),
      trial_(packet_rate(load, packet_flits)),
      times_(seed, 1),
      destinations_(seed, 2),
      nodes_(static_cast<std::int64_t>(topology.nodes.size())),
      packet_flits_(packet_flits) {
  draw();
}

void BernoulliTraffic::draw() {
  node_ += 1 + trial_.failures(times_);
  if (node_ < nodes_) return;
  cycle_ += node_ / nodes_;
  node_ %= nodes_;
}

std::int64_t BernoulliTraffic::inject(Network& network) {
  const std::int64_t cycle = cycle_;
  std::int64_t packets = 0;
  for (; cycle_ == cycle; ++packets) {
    const auto source = static_cast<std::uint32_t>(node_);
    network.inject({source, pattern_->destination(source, destinations_), packet_flits_, 0, 0}, cycle);
    draw();
  }
  return packets;
}

}  // namespace tilesim::engine::noc
