#include "tilesim/cluster/collective/collective.hpp"

#include <algorithm>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/collective/made.hpp"

namespace tilesim::cluster {

namespace {

constexpr std::int64_t most_messages = std::int64_t{1} << 27;
const std::vector<std::string> algorithms{"auto",  "ring",   "tree",  "halving-doubling",
                                          "bruck", "direct", "torus", "hierarchical"};

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
constexpr std::size_t few_devices = 1024;

struct Found {
  Closed time;
  int classes = 1;
  std::int64_t messages = 0;  ///< sent one after another; 0: by formula
};

/// Message by message on the network without faults; nothing where they are many.
std::optional<Found> counted(const Network& network, const Request& given, const std::vector<Axis>& axes) {
  const std::size_t n = given.places.size();
  const std::string& name = given.choice.algorithm;
  const bool to_all = name == "direct" || name == "ring";  // of many it takes long to list what they send
  if (n > few_devices || (to_all && n * (n - 1) > at(2 * few_messages))) return std::nullopt;
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

Made made_of(const Network& network, Request& request) {
  check(network, request);
  if (request.own) return *request.own;
  std::vector<int> sorted = request.places;
  std::sort(sorted.begin(), sorted.end());
  const auto axes = axes_of(network, sorted);
  if (request.choice.algorithm == "auto") form(network.healthy(), request, axes);
  return make(network, request, axes);
}

Schedule schedule_of(const Network& network, const Request& given) {
  Request request = given;
  Made made = made_of(network, request);
  Schedule schedule =
      std::holds_alternative<Schedule>(made) ? std::move(std::get<Schedule>(made)) : expand(std::get<Template>(made));
  schedule.algorithm = request.choice.algorithm;
  return schedule;
}

}  // namespace tilesim::cluster
