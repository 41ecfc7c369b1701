#include "tilesim/cluster/collective/collective.hpp"

#include <algorithm>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/collective/choosing.hpp"

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

Prepared prepared_of(const Network& network, Request& request, const std::optional<std::vector<Axis>>& axes,
                     bool shared) {
  if (request.own) {
    check_on_sets(*request.own);
    return prepare(*request.own, false);
  }
  Made made = make(network, request, axes);
  const auto* program = std::get_if<Template>(&made);
  const bool alike = program != nullptr && one_class(*program, network, request.places, shared);
  return prepare(std::move(made), alike);
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
    if (!request.own && (automatic || model == Model::closed)) found = form(network.healthy(), request, axes);
    if (request.own) request.choice.algorithm = request.own->algorithm;
    answer.algorithm = several ? request.choice.algorithm : "none";
    answer.pieces = request.choice.pieces;
    answer.model = model == Model::flows ? "flows" : "chunks";
    if (!several) {
      if (model == Model::closed) answer.model = "closed";
      answer.picoseconds = request.start;
    } else if (model == Model::closed && found && network.faults().empty()) {
      answer.model = found->formula ? "closed" : "chunks";
      answer.picoseconds = request.start + found->time.picoseconds;
      answer.exact = found->time.exact;
      answer.classes = found->classes;
      answers.messages += found->messages;
    } else {
      together.numbers.push_back(i);
      together.prepared.push_back(prepared_of(network, request, axes, model == Model::flows));
    }
    answers.each.push_back(std::move(answer));
  }
  time_together(network, requests, together, model, symmetry, answers);
  return answers;
}

std::vector<Answer> tried_of(const Network& network, Request request) {
  check(network, request);
  std::vector<int> sorted = request.places;
  std::sort(sorted.begin(), sorted.end());
  std::vector<Answer> answers;
  if (request.places.size() < 2 || request.operation == Operation::permute_devices) return answers;
  for (const Tried& one : every_form(network.healthy(), request, axes_of(network, sorted)))
    answers.push_back({one.found.time.picoseconds, one.choice.algorithm, one.found.formula ? "closed" : "chunks",
                       one.found.time.exact, one.found.classes, one.choice.pieces});
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
