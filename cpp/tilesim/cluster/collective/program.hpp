// A collective prepared for timing: its messages, their dependences and the links that they use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tilesim/cluster/collective/schedule.hpp"
#include "tilesim/cluster/network/network.hpp"

namespace tilesim::cluster {

/// Messages by step; a message starts when all its data have arrived. `copies` devices send each of them.
struct Program {
  int devices = 1;
  int copies = 1;                     ///< number of devices of a template; 1 for a list
  std::int64_t pieces = 1;            ///< a chunk is bytes / pieces
  Group group;                        ///< for a template
  std::vector<int> source, target;    ///< positions; in a template `target` is the offset and `source` 0
  std::vector<int> chunks;            ///< per message; 0: a copy within a device, or a gate
  int first_gate = 0;                 ///< number of the first gate; all later ones are gates
  std::vector<int> waits;             ///< number of messages that it waits for
  std::vector<int> first, followers;  ///< messages that wait for it at its destination
  std::size_t size() const { return target.size(); }
  std::span<const int> after(int message) const {
    const auto m = static_cast<std::size_t>(message);
    return {followers.data() + first[m], static_cast<std::size_t>(first[m + 1] - first[m])};
  }
};

Program compile(const Template& source);
Program compile(const Schedule& source);

/// Translations that leave a network, a group and its messages unchanged. Some go along the first of the group's axes
/// (full circles, or ports), on which positions have equal steps: `inner` consecutive members have one timeline. One
/// goes along the outermost dimension, a fat tree, from unit to unit (leaf switch, or pod if there are several):
/// members with equal positions in their units have one timeline, so the first `unit` members represent all. No message
/// shares a link with its image (unless `shared`). Of two contending messages that are ready together the one whose
/// sender has the smaller position in its unit goes first.
class Turns {
 public:
  explicit Turns(int members = 1) : members_(members), unit_(members) {}  ///< none: each represents only itself
  Turns(const Template& program, const Network& network, const std::vector<int>& places, bool shared);
  int inner() const { return inner_; }
  int unit() const { return unit_; }
  int classes() const { return unit_ / inner_; }  ///< number of members with different timelines
  /// The same order of contending messages, but every member represents only itself.
  Turns unfolded() const;
  bool folds() const { return members_ > copies(); }
  int copies() const { return classes() * apart_; }  ///< number of simulated members, by position in their units
  int position(int copy) const { return copy / apart_ * inner_ + copy % apart_ * unit_; }
  int copy(int position) const { return position % unit_ / inner_ * apart_ + position / unit_ % apart_; }
  /// The same translations for equivalent devices.
  Turns moved(const std::vector<int>& places) const;
  /// An id that a link shares with its images.
  std::int64_t name(int link) const;
  /// Whether two groups have the same translations.
  bool operator==(const Turns& other) const { return turns_ == other.turns_ && unit_ == other.unit_; }

 private:
  struct Turn {
    int dimension, stride, size, step, count, origin;
    bool by_xor;
    bool operator==(const Turn&) const = default;
  };
  bool turns(const Turn& turn, const std::vector<int>& places) const;
  void find_unit(const Group& group, const std::vector<int>& places);
  bool distinct(const Template& program, const std::vector<int>& places) const;
  void forget();

  const Network* network_ = nullptr;
  std::vector<Turn> turns_;  ///< of the inner axes, then of units
  int members_ = 1, inner_ = 1, unit_ = 1;
  int apart_ = 1;  ///< number of units whose members are simulated
};

/// Links that represent their images, in all jobs that are timed together.
using Named = std::map<std::int64_t, int>;

/// A program on devices of a network. Times are in picoseconds.
struct Job {
  /// `turns`: a member represents its images; null: each member only itself.
  Job(std::shared_ptr<const Program> program, const Network& network, std::vector<int> places, std::int64_t bytes,
      std::int64_t start, const Turns* turns = nullptr, Named* named = nullptr);

  std::shared_ptr<const Program> shared;
  const Program& program;
  std::int64_t bytes = 0, start = 0;
  int copies = 1;  ///< number of simulated devices
  /// The route of each message and copy, at `way(message, copy)`.
  struct Way {
    int begin = 0, end = 0;    ///< range in `links`
    std::int64_t latency = 0;  ///< sum over the links
    int next = 0;              ///< copy of the receiver
  };
  std::vector<int> kind_of_message;  ///< messages of one kind have equal routes
  std::vector<Way> ways;
  std::vector<int> links;
  const Way& way(int message, int copy) const {
    return ways[static_cast<std::size_t>(kind_of_message[static_cast<std::size_t>(message)]) *
                    static_cast<std::size_t>(copies) +
                static_cast<std::size_t>(copy)];
  }
};

/// Arrival of the last message of each job.
struct Times {
  std::vector<std::int64_t> end;
  std::int64_t messages = 0;
};
Times time_by_chunks(const Network& network, const std::vector<Job>& jobs);
/// Times on a network with faults, in the message order of the same jobs on the network without faults.
Times time_by_chunks(const Network& network, const std::vector<Job>& jobs, const std::vector<Job>& healthy);
Times time_by_flows(const Network& network, const std::vector<Job>& jobs);

}  // namespace tilesim::cluster
