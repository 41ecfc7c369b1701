// Loads of collectives on links: sums over the routes of all messages.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/cluster/collective/algorithms.hpp"
#include "tilesim/cluster/network/local_routes.hpp"

namespace tilesim::cluster {

namespace {

/// Limit on routes; beyond it a sample of distances, spread evenly, represents all.
constexpr std::int64_t most_ways = std::int64_t{1} << 20;

/// Chunks on each link, for one request after another.
class Counts {
 public:
  explicit Counts(const Network& network) : network_(network), chunks_(network.links().size(), 0.0) {}

  void send(int source, int target, double chunks) {
    way_.clear();
    network_.route(source, target, way_);
    for (const int link : way_) add(link, chunks);
  }
  void add(int link, double chunks) {
    if (chunks_[at(link)] == 0) touched_.push_back(link);
    chunks_[at(link)] += chunks;
  }
  /// The links in ascending order with their loads; resets the counts.
  LinkLoads take(std::int64_t pieces) {
    std::sort(touched_.begin(), touched_.end());
    LinkLoads found;
    for (const int link : touched_) {
      const Link& one = network_.links()[at(link)];
      const double rate = static_cast<double>(one.bytes_per_second) * one.lanes;
      found.links.push_back(link);
      found.seconds.push_back(chunks_[at(link)] / static_cast<double>(pieces) / rate);
      chunks_[at(link)] = 0;
    }
    touched_.clear();
    return found;
  }
  const Network& network() const { return network_; }

 private:
  const Network& network_;
  std::vector<double> chunks_;
  std::vector<int> touched_, way_;
};

void count(Counts& counts, const Schedule& schedule, const std::vector<int>& places) {
  std::map<std::pair<int, int>, int> chunks;
  for (const Transfer& one : schedule.transfers)
    if (one.source != one.target) ++chunks[{one.source, one.target}];
  for (const auto& [ends, number] : chunks) counts.send(places[at(ends.first)], places[at(ends.second)], number);
}

using Offsets = std::vector<std::pair<int, double>>;

/// If all members have equivalent ports: counts each port once per member, by the routes of the first member.
void count_alike(Counts& counts, const Group& group, const Offsets& offsets, const std::vector<int>& places) {
  struct Port {
    int offset = 0;
    std::size_t step = 0;
    double chunks = 0;
  };
  const Network& network = counts.network();
  std::map<std::pair<int, int>, Port> ports;
  std::vector<int> way;
  for (const auto& [offset, chunks] : offsets) {
    way.clear();
    network.route(places[0], places[at(offset)], way);
    for (std::size_t i = 0; i < way.size(); ++i) {
      const int number = network.dimension_of_link(way[i]);
      const int kind = class_of_link(network.dimensions()[at(number)], network.local_link(way[i]), false);
      Port& port = ports.try_emplace({number, kind}, Port{offset, i, 0}).first->second;
      port.chunks += chunks;
    }
  }
  for (const auto& [name, port] : ports)
    for (int copy = 0; copy < static_cast<int>(places.size()); ++copy) {
      way.clear();
      network.route(places[at(copy)], places[at(group.add(copy, port.offset))], way);
      counts.add(way[port.step], port.chunks);
    }
}

void count(Counts& counts, const Template& program, const std::vector<int>& places) {
  std::map<int, double> chunks;
  for (const auto& message : program.messages)
    if (message.offset != 0) chunks[message.offset] += static_cast<double>(message.labels.size());
  const Offsets offsets(chunks.begin(), chunks.end());
  const bool ports = std::all_of(
      counts.network().dimensions().begin(), counts.network().dimensions().end(),
      [](const Dimension& one) { return one.kind == DimensionKind::switched || one.kind == DimensionKind::fat_tree; });
  if (ports && Turns(program, counts.network(), places, true).inner() == static_cast<int>(places.size()))
    return count_alike(counts, program.group, offsets, places);
  const auto all = static_cast<std::int64_t>(offsets.size()), copies = static_cast<std::int64_t>(places.size());
  const std::int64_t taken = std::min(all, std::max<std::int64_t>(1, most_ways / copies));
  std::int64_t step = 1;
  if (taken < all)  // steps near the golden ratio, coprime to the number, spread evenly and follow no axis
    for (step = all * 618 / 1000; std::gcd(step, all) != 1;) ++step;
  for (std::int64_t i = 0; i < taken; ++i) {
    const auto& [offset, number] = offsets[at(i * step % all)];
    const double weight = number * static_cast<double>(all) / static_cast<double>(taken);
    worked(copies * 4);
    for (int copy = 0; copy < static_cast<int>(copies); ++copy)
      counts.send(places[at(copy)], places[at(program.group.add(copy, offset))], weight);
  }
}

}  // namespace

namespace {

/// Loads that are equal for all images of a link, counted per class of links.
class Turned {
 public:
  explicit Turned(const Network& network) : counts_(network), known_(network.links().size(), -1) {}

  /// Adds a program if its images have few enough routes; otherwise counts nothing and returns false.
  bool add(const Template& program, const std::vector<int>& places, const Turns& turns) {
    std::map<int, double> chunks;
    for (const auto& message : program.messages)
      if (message.offset != 0) chunks[message.offset] += static_cast<double>(message.labels.size());
    if (static_cast<std::int64_t>(chunks.size()) * turns.classes() > most_ways) return false;
    std::vector<int> way;
    for (int from = 0; from < turns.unit(); from += turns.inner()) {
      worked(static_cast<std::int64_t>(chunks.size()) * 8);
      for (const auto& [offset, number] : chunks) {
        way.clear();
        counts_.network().route(places[at(from)], places[at(program.group.add(from, offset))], way);
        for (const int link : way) {
          int& first = known_[at(link)];
          if (first < 0) first = named_.try_emplace(turns.name(link), link).first->second;
          counts_.add(first, number);
        }
      }
    }
    return true;
  }
  LinkLoads take(std::int64_t pieces) { return counts_.take(pieces); }

 private:
  Counts counts_;
  Named named_;
  std::vector<int> known_;
};

std::int64_t pieces_of(const Made& made) {
  return std::visit([](const auto& one) { return one.pieces; }, made);
}

Turns turns_of(const Network& network, const Made& made, const std::vector<int>& places) {
  const auto* program = std::get_if<Template>(&made);
  return program == nullptr ? Turns() : Turns(*program, network, places, true);
}

double most(const LinkLoads& loads) {
  return loads.seconds.empty() ? 0 : *std::max_element(loads.seconds.begin(), loads.seconds.end());
}

/// Loads of all requests if they have the same translations.
std::optional<std::vector<LinkLoads>> turned_loads(const Network& network, const std::vector<Made>& made,
                                                   const std::vector<Request>& requests) {
  Turned turned(network);
  std::vector<LinkLoads> found;
  std::optional<Turns> first;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Turns own = turns_of(network, made[i], requests[i].places);
    if (!first) first = own;
    if (!own.folds() || !(own == *first)) return std::nullopt;
    if (!turned.add(std::get<Template>(made[i]), requests[i].places, own)) return std::nullopt;
    found.push_back(turned.take(pieces_of(made[i])));
  }
  return found;
}

}  // namespace

double busiest(const Network& network, const Made& made, const std::vector<int>& places) {
  if (const Turns turns = turns_of(network, made, places); turns.folds()) {
    Turned turned(network);
    if (turned.add(std::get<Template>(made), places, turns)) return most(turned.take(pieces_of(made)));
  }
  Counts counts(network);
  std::visit([&](const auto& one) { count(counts, one, places); }, made);
  return most(counts.take(pieces_of(made)));
}

std::optional<Busiest> busiest_of(const Network& network, std::vector<Request> requests) {
  std::vector<Made> made;
  for (Request& request : requests) made.push_back(made_of(network, request));
  std::optional<std::vector<LinkLoads>> loads = turned_loads(network, made, requests);
  if (!loads) {
    loads.emplace();
    Counts counts(network);
    for (std::size_t i = 0; i < made.size(); ++i) {
      std::visit([&](const auto& one) { count(counts, one, requests[i].places); }, made[i]);
      loads->push_back(counts.take(pieces_of(made[i])));
    }
  }
  std::map<int, double> all;
  Busiest found;
  bool shared = false;
  for (const LinkLoads& one : *loads) {
    found.alone = std::max(found.alone, most(one));
    for (std::size_t i = 0; i < one.links.size(); ++i) {
      if (one.seconds[i] == 0) continue;
      double& sum = all[one.links[i]];
      shared = shared || sum > 0;
      found.together = std::max(found.together, sum += one.seconds[i]);
    }
  }
  return shared ? std::optional(found) : std::nullopt;
}

std::vector<LinkLoads> loads_of(const Network& network, std::vector<Request> requests) {
  Counts counts(network);
  std::vector<LinkLoads> found;
  for (Request& request : requests) {
    const Made made = made_of(network, request);
    std::visit([&](const auto& one) { count(counts, one, request.places); }, made);
    found.push_back(counts.take(pieces_of(made)));
  }
  return found;
}

}  // namespace tilesim::cluster
