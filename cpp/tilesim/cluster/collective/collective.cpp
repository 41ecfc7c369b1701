#include "tilesim/cluster/collective/collective.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <variant>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::cluster {

namespace {

constexpr std::int64_t most_messages = std::int64_t{1} << 27;
const std::vector<std::string> algorithms{"auto",  "ring",   "tree",  "halving-doubling",
                                          "bruck", "direct", "torus", "hierarchical"};

using Made = std::variant<Template, Schedule>;

[[noreturn]] void cannot(const Request& request, const std::string& why, const std::string& allowed) {
  throw Unsupported({"algorithm '" + request.choice.algorithm + "' does not do " + name_of(request.operation) + why,
                     "algorithm",
                     request.choice.algorithm,
                     allowed,
                     {}});
}

/// Where a group is no box in its network, its devices are taken as one axis of ports.
std::vector<Axis> axes_or_line(const Request& request, const std::optional<std::vector<Axis>>& axes) {
  if (axes && !axes->empty()) return *axes;
  return {Axis{AxisKind::port, static_cast<int>(request.places.size()), 1, 0, true, false}};
}

Group group_of(const std::vector<Axis>& axes) {
  Group group;
  for (const Axis& axis : axes) group.axes.push_back({axis.size, false});
  return group;
}

Made make_exchange(const Request& request, const std::vector<Axis>& axes, int n) {
  const std::string& name = request.choice.algorithm;
  if (name == "direct") return exchange_direct(group_of(axes));
  if (name == "ring") return exchange_ring(n, axes.size() == 1 && default_rings(axes[0]) == 2);
  if (name == "bruck") return exchange_bruck(n);
  if (name == "torus" && circles(axes)) {
    std::vector<int> sizes;
    std::vector<bool> both_ways;
    for (const Axis& axis : axes) sizes.push_back(axis.size), both_ways.push_back(axis.both_ways);
    return exchange_torus(sizes, both_ways);
  }
  if (name == "hierarchical" || name == "torus") return exchange_by_axes(group_of(axes));
  cannot(request, "", "direct, ring, bruck, torus, hierarchical");
}

Made make_broadcast(const Request& request, const std::vector<Axis>& axes, int n) {
  const Choice& choice = request.choice;
  if (choice.algorithm == "direct") return broadcast_direct(n, choice.root);
  if (choice.algorithm == "tree") return broadcast_tree(n, choice.root);
  if (choice.algorithm != "ring") cannot(request, "", "ring, tree, direct");
  const bool both = axes.size() == 1 && default_rings(axes[0]) == 2;
  const int pieces = pieces_for(choice, both ? n / 2 : n - 1, request.bytes, axes[0].bytes_per_second, axes[0].latency);
  return broadcast_ring(n, choice.root, pieces, both);
}

/// Places inside their node of the members that each node has, of a group in order; one list where no switch joins the
/// devices of a node.
std::vector<std::vector<int>> by_nodes(const Network& network, const std::vector<int>& places) {
  if (network.dimensions().size() < 2 || network.dimensions()[0].grid()) return {places};
  std::vector<std::vector<int>> nodes;
  const int inside = network.stride(1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || places[i] / inside != places[i - 1] / inside) nodes.emplace_back();
    nodes.back().push_back(places[i] % inside);
  }
  return nodes;
}

/// By which of its members each ring enters each node: members at the places of the node that has the fewest, and where
/// there are none others, so that rings of several groups meet at few adapters.
std::vector<std::vector<int>> entries_of(const std::vector<std::vector<int>>& nodes, const std::vector<int>& fewest,
                                         int rings) {
  std::vector<std::vector<int>> entries;
  for (const std::vector<int>& node : nodes) {
    std::vector<int> own(at(rings), -1);
    std::vector<char> taken(node.size(), 0);
    for (int ring = 0; ring < rings; ++ring) {
      const auto found = std::find(node.begin(), node.end(), fewest[at(ring) * fewest.size() / at(rings)]);
      if (found == node.end()) continue;
      own[at(ring)] = static_cast<int>(found - node.begin());
      taken[at(own[at(ring)])] = 1;
    }
    for (int& entry : own)
      if (entry < 0) {
        entry = static_cast<int>(std::find(taken.begin(), taken.end(), 0) - taken.begin());
        taken[at(entry)] = 1;
      }
    entries.push_back(std::move(own));
  }
  return entries;
}

/// Rings: through the nodes of a group as many as the fewest members of a node, so that each leaves it by an adapter of
/// its own; elsewhere by steps between neighbours.
Made make_rings(const Network& network, const Request& request, const std::vector<Axis>& axes, int n) {
  const std::vector<std::vector<int>> nodes = by_nodes(network, request.places);
  const auto [fewest, most] = std::minmax_element(
      nodes.begin(), nodes.end(), [](const auto& one, const auto& other) { return one.size() < other.size(); });
  const auto least = static_cast<int>(fewest->size());
  if (nodes.size() > 1 && least > 1) {
    const int rings = request.choice.rings > 0 ? request.choice.rings : least;
    if (rings > least)
      throw UserError({"so many rings cannot leave each node by members of their own",
                       "rings",
                       std::to_string(rings),
                       "1 ... " + std::to_string(least) + ", the fewest members of a node",
                       {}});
    const bool box = fewest->size() == most->size() && axes[0].size == least && rings == least;
    if (box) return flat_rings(request.operation, least, static_cast<int>(nodes.size()));
    std::vector<int> members;
    for (const auto& node : nodes) members.push_back(static_cast<int>(node.size()));
    return flat_rings(request.operation, members, entries_of(nodes, *fewest, rings));
  }
  const int rings = request.choice.rings > 0 ? request.choice.rings : axes.size() == 1 ? default_rings(axes[0]) : 1;
  std::vector<Part> parts;
  for (const int stride : ring_strides(n, rings)) parts.push_back({{0}, {stride}});
  return spread(request.operation, {{n, Walk::ring}}, parts);
}

Made make_spread(const Network& network, const Request& request, const std::vector<Axis>& axes, int n) {
  const Choice& choice = request.choice;
  if (choice.algorithm == "hierarchical" || choice.algorithm == "torus") {
    const Plan plan = hierarchical(axes);
    return spread(request.operation, plan.legs, plan.parts, std::max(1, choice.pieces));
  }
  if (choice.algorithm == "tree") {
    if (request.operation != Operation::all_reduce) cannot(request, "", "ring, direct, bruck, hierarchical");
    int hops = 0;
    for (int i = 1; i < n; i *= 2) hops += 2;
    return tree_reduce(n, pieces_for(choice, hops, request.bytes / 2, axes[0].bytes_per_second, axes[0].latency));
  }
  const auto one = [&](Walk walk) { return spread(request.operation, {{n, walk}}, {{{0}, {1}}}); };
  if (choice.algorithm == "ring") return make_rings(network, request, axes, n);
  if (choice.algorithm == "direct") return one(Walk::direct);
  if (choice.algorithm == "bruck") return one(Walk::bruck);
  if (std::has_single_bit(static_cast<unsigned>(n))) return one(Walk::halving);
  if (request.operation != Operation::all_reduce)
    cannot(request, " for " + std::to_string(n) + " devices, which is no power of two",
           "bruck (the same steps for any number), ring, direct");
  return folded_halving(n);
}

Made make(const Network& network, Request& request, const std::optional<std::vector<Axis>>& known) {
  const auto n = static_cast<int>(request.places.size());
  const std::vector<Axis> axes = axes_or_line(request, known);
  if (request.operation == Operation::permute_devices) {
    if (request.choice.algorithm != "direct") cannot(request, "", "direct");
    return permute(n, request.pairs);
  }
  if (request.operation == Operation::all_to_all) return make_exchange(request, axes, n);
  if (request.operation == Operation::broadcast_devices) return make_broadcast(request, axes, n);
  return make_spread(network, request, axes, n);
}

void check(const Network& network, Request& request) {
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  if (request.bytes < 0 || request.bytes > most_bytes)
    throw UserError({"a collective has so many bytes", "bytes", text(request.bytes), "0 ... " + text(most_bytes), {}});
  for (const int place : request.places)
    if (place < 0 || place >= network.devices())
      throw UserError({"the cluster does not have this device",
                       "devices",
                       text(place),
                       "0 ... " + text(network.devices() - 1),
                       {}});
  std::vector<int> sorted = request.places;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    throw UserError({"a device is twice in a group", "devices", text(*twice), "each once", {}});
  if (request.places.empty()) throw UserError({"a group has a device", "devices", "[]", "one device or more", {}});
  if (request.choice.root < 0 || request.choice.root >= static_cast<int>(request.places.size()))
    throw UserError({"the root is a position of the group",
                     "root",
                     text(request.choice.root),
                     "0 ... " + text(static_cast<std::int64_t>(request.places.size()) - 1),
                     {}});
  const std::string& name = request.choice.algorithm;
  if (!request.own && std::find(algorithms.begin(), algorithms.end(), name) == algorithms.end())
    throw UserError({"unknown algorithm", "algorithm", name, join(algorithms), nearest(name, algorithms)});
  // Only the order of pairs, of a root and of own algorithms means something.
  if (!request.own && request.operation <= Operation::all_to_all) request.places = sorted;
  if (request.own && request.own->devices != static_cast<int>(request.places.size()))
    throw UserError({"the algorithm is for another number of devices",
                     "algorithm",
                     text(request.own->devices),
                     text(static_cast<std::int64_t>(request.places.size())),
                     {}});
}

struct Prepared {
  Program program;
  bool alike = false;
};

Prepared prepare(const Network& network, Request& request, const std::optional<std::vector<Axis>>& axes, bool shared) {
  if (request.own) {
    check_on_sets(*request.own);
    return {compile(*request.own), false};
  }
  const Made made = make(network, request, axes);
  if (const auto* list = std::get_if<Schedule>(&made)) return {compile(*list), false};
  const auto& program = std::get<Template>(made);
  return {compile(program), one_class(program, network, request.places, shared)};
}

/// Few enough that what waits for what is found by sending them one after another.
constexpr std::int64_t few_messages = std::int64_t{1} << 15;
constexpr std::size_t few_devices = 256;

struct Found {
  Closed time;
  int classes = 1;
  std::int64_t messages = 0;  ///< sent one after another; 0: by formula
};

/// Message by message on the network without faults; nothing where they are many.
std::optional<Found> counted(const Network& network, const Request& given, const std::vector<Axis>& axes) {
  if (given.places.size() > few_devices) return std::nullopt;
  Request request = given;
  Prepared prepared = prepare(network, request, axes, false);
  const auto size = static_cast<std::int64_t>(prepared.program.size());
  const int copies = prepared.alike ? 1 : prepared.program.copies;
  if (size * copies > few_messages) return std::nullopt;
  const int classes = prepared.alike ? 1 : prepared.program.devices;
  std::vector<Job> jobs;
  jobs.emplace_back(std::move(prepared.program), network, request.places, request.bytes, 0, prepared.alike);
  const Times times = time_by_chunks(network, jobs);
  return Found{{times.end[0], false}, classes, times.messages};
}

/// The time of one algorithm: its formula, and where that is an estimate and messages are few, by message. Nothing
/// where there is none, or where even an estimate, which may lie above, says half as long again as `least` (0: none).
std::optional<Found> timed(const Network& network, const Request& request, const std::vector<Axis>& axes,
                           std::int64_t least) {
  const auto closed = closed_form(request.operation, request.choice, axes, request.bytes);
  if (!closed || (least > 0 && closed->picoseconds > least + least / 2)) return std::nullopt;
  if (!closed->exact)
    if (auto found = counted(network, request, axes)) return found;
  return Found{*closed};
}

/// The time of a request without the network's faults, where there is a form; the algorithm is chosen, the quickest of
/// those that suit the axes, if it was not named.
std::optional<Found> form(const Network& network, Request& request, const std::optional<std::vector<Axis>>& axes) {
  const bool automatic = request.choice.algorithm == "auto";
  if (!axes || !std::is_sorted(request.places.begin(), request.places.end())) {
    if (automatic) request.choice.algorithm = request.operation <= Operation::reduce_scatter ? "ring" : "direct";
    return std::nullopt;
  }
  if (!automatic || axes->empty()) {
    if (automatic) request.choice.algorithm = suited(request.operation, {Axis{}})[0];
    return timed(network, request, *axes, 0);
  }
  const auto names = suited(request.operation, *axes);
  std::string best = names[0];
  std::optional<Found> least;
  for (const std::string& name : names) {
    request.choice.algorithm = name;
    auto found = timed(network, request, *axes, least ? least->time.picoseconds : 0);
    if (found && (!least || found->time.picoseconds < least->time.picoseconds)) best = name, least = std::move(found);
  }
  request.choice.algorithm = best;
  return least;
}

bool has_form(const Network& network, Request request, const std::optional<std::vector<Axis>>& axes) {
  return form(network, request, axes).has_value();
}

/// Every algorithm of a broadcast by the model that is asked for, where no formula chooses.
std::string quickest(const Network& network, const Request& request, Model model, bool symmetry) {
  std::string best = "ring";
  std::int64_t least = -1;
  for (const char* name : {"ring", "tree", "direct"}) {
    Request tried = request;
    tried.choice.algorithm = name;
    tried.start = 0;
    try {
      const std::int64_t time = price(network, {tried}, model, symmetry).each[0].picoseconds;
      if (least < 0 || time < least) best = name, least = time;
    } catch (const Unsupported&) {  // too many messages
      continue;
    }
  }
  return best;
}

}  // namespace

Model model_of(const std::string& name) {
  static const std::vector<std::string> names{"closed", "chunks", "flows"};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw UserError({"unknown network model", "model", name, join(names), nearest(name, names)});
  return static_cast<Model>(found - names.begin());
}

namespace {

/// What is timed together, message by message.
struct Together {
  std::vector<std::size_t> numbers;  ///< of their requests
  std::vector<Prepared> prepared;
};

void time_together(const Network& network, std::vector<Request>& requests, Together& together, Model model,
                   bool symmetry, Answers& answers) {
  const auto& numbers = together.numbers;
  const bool alike = symmetry && std::all_of(numbers.begin(), numbers.end(), [&](const std::size_t& number) {
                       return together.prepared[at(&number - numbers.data())].alike &&
                              requests[number].places == requests[numbers[0]].places;
                     });
  const bool ordered = model != Model::flows && !network.faults().empty();
  std::vector<Job> jobs, healthy;
  std::int64_t messages = 0;
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    const Request& request = requests[numbers[k]];
    Program& program = together.prepared[k].program;
    const std::int64_t copies = alike ? 1 : program.copies;
    messages += static_cast<std::int64_t>(program.size()) * copies;
    if (messages > most_messages)
      throw Unsupported({"these are too many messages to simulate", "model", std::to_string(messages),
                         std::to_string(most_messages) + " messages", "Use model=\"closed\" or fewer devices"});
    answers.each[numbers[k]].classes = alike ? 1 : program.devices;
    if (ordered) healthy.emplace_back(program, network.healthy(), request.places, request.bytes, request.start, false);
    jobs.emplace_back(std::move(program), network, request.places, request.bytes, request.start, alike);
  }
  if (jobs.empty()) return;
  const Times times = model == Model::flows ? time_by_flows(network, jobs)
                      : ordered             ? time_by_chunks(network, jobs, healthy)
                                            : time_by_chunks(network, jobs);
  for (std::size_t k = 0; k < numbers.size(); ++k) answers.each[numbers[k]].picoseconds = times.end[k];
  answers.messages += times.messages;
}

}  // namespace

Answers price(const Network& network, std::vector<Request> requests, Model model, bool symmetry) {
  Answers answers;
  Together together;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    check(network, request);
    std::vector<int> sorted = request.places;
    std::sort(sorted.begin(), sorted.end());
    const std::optional<std::vector<Axis>> axes = axes_of(network, sorted);
    const bool several = request.places.size() > 1, automatic = request.choice.algorithm == "auto";
    Answer answer;
    std::optional<Found> found;
    if (!request.own && several && automatic && request.operation == Operation::broadcast_devices &&
        (model != Model::closed || !has_form(network.healthy(), request, axes)))
      request.choice.algorithm = quickest(network.healthy(), request, model, symmetry);
    if (!request.own && (automatic || model == Model::closed)) found = form(network.healthy(), request, axes);
    if (request.own) request.choice.algorithm = request.own->algorithm;
    answer.algorithm = several ? request.choice.algorithm : "none";
    answer.model = model == Model::flows ? "flows" : "chunks";
    if (!several) {
      if (model == Model::closed) answer.model = "closed";
      answer.picoseconds = request.start;
    } else if (model == Model::closed && found && network.faults().empty()) {
      answer.model = "closed";
      answer.picoseconds = request.start + found->time.picoseconds;
      answer.exact = found->time.exact;
      answer.classes = found->classes;
      answers.messages += found->messages;
    } else {
      together.numbers.push_back(i);
      together.prepared.push_back(prepare(network, request, axes, model == Model::flows));
    }
    answers.each.push_back(std::move(answer));
  }
  time_together(network, requests, together, model, symmetry, answers);
  return answers;
}

Schedule schedule_of(const Network& network, const Request& given) {
  Request request = given;
  std::vector<int> sorted = request.places;
  std::sort(sorted.begin(), sorted.end());
  const auto axes = axes_of(network, sorted);
  if (request.choice.algorithm == "auto") form(network.healthy(), request, axes);
  Made made = make(network, request, axes);
  Schedule schedule =
      std::holds_alternative<Schedule>(made) ? std::move(std::get<Schedule>(made)) : expand(std::get<Template>(made));
  schedule.algorithm = request.choice.algorithm;
  return schedule;
}

}  // namespace tilesim::cluster
