#include "tilesim/cluster/collective/program.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "tilesim/base/index.hpp"

namespace tilesim::cluster {

namespace {

/// Access of a message to a slot: it reads at its start and writes at its arrival.
struct Touch {
  std::int64_t slot;
  int step, message;
  bool writes;
};

/// Finds dependences: a message that reads a slot waits for all messages that wrote it in earlier steps. If many wait
/// for many, an empty gate message is inserted between them.
class Waiting {
 public:
  Waiting(Program& program, std::vector<Touch>& touches) : program_(program) {
    program.first_gate = static_cast<int>(program.size());
    std::sort(touches.begin(), touches.end(), [](const Touch& a, const Touch& b) {
      return std::tie(a.slot, a.step, a.writes, a.message) < std::tie(b.slot, b.step, b.writes, b.message);
    });
    for (std::size_t i = 0; i < touches.size(); ++i) {
      const Touch& touch = touches[i];
      const bool fresh = i == 0 || touch.slot != touches[i - 1].slot;
      if (fresh || touch.writes) connect();
      if (fresh) writers_.clear();
      (touch.writes ? writers_ : readers_).push_back(touch.message);
    }
    connect();
    finish();
  }

 private:
  /// Lets the readers since the last write wait for all writers.
  void connect() {
    const std::vector<int> readers = std::exchange(readers_, {});
    if (writers_.size() > 1 && readers.size() > 1) {
      const auto [found, fresh] = gates_.try_emplace({writers_, readers}, static_cast<int>(program_.target.size()));
      if (!fresh) return;
      program_.source.push_back(0);
      program_.target.push_back(0);
      program_.chunks.push_back(0);
      for (const int writer : writers_) edges_.emplace_back(writer, found->second);
      for (const int reader : readers) edges_.emplace_back(found->second, reader);
      return;
    }
    for (const int writer : writers_)
      for (const int reader : readers) edges_.emplace_back(writer, reader);
  }

  void finish() {
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    program_.waits.assign(program_.size(), 0);
    program_.first.assign(program_.size() + 1, 0);
    for (const auto& [from, to] : edges_) {
      ++program_.first[at(from) + 1];
      ++program_.waits[at(to)];
    }
    std::partial_sum(program_.first.begin(), program_.first.end(), program_.first.begin());
    program_.followers.reserve(edges_.size());
    for (const auto& [from, to] : edges_) program_.followers.push_back(to);
  }

  Program& program_;
  std::vector<int> writers_, readers_;
  std::map<std::pair<std::vector<int>, std::vector<int>>, int> gates_;
  std::vector<std::pair<int, int>> edges_;
};

}  // namespace

Program compile(const Template& source) {
  Program program;
  program.devices = program.copies = source.group.size();
  program.pieces = source.pieces;
  program.group = source.group;
  std::vector<Touch> touches;
  for (const auto& message : source.messages) {
    const auto number = static_cast<int>(program.size());
    const int back = source.group.negate(message.offset);
    for (const int label : message.labels) {
      touches.push_back({label, message.step, number, false});
      touches.push_back({source.move(label, back), message.step, number, true});
    }
    program.source.push_back(0);
    program.target.push_back(message.offset);
    program.chunks.push_back(static_cast<int>(message.labels.size()));
  }
  Waiting(program, touches);
  return program;
}

Program compile(const Schedule& source) {
  Program program;
  program.devices = source.devices;
  program.pieces = source.pieces;
  std::vector<int> order(source.transfers.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int i) {
    const Transfer& transfer = source.transfers[at(i)];
    return std::tie(transfer.step, transfer.source, transfer.target);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  std::vector<Touch> touches;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Transfer& transfer = source.transfers[at(order[i])];
    if (i == 0 || key(order[i]) != key(order[i - 1])) {
      program.source.push_back(transfer.source);
      program.target.push_back(transfer.target);
      program.chunks.push_back(0);
    }
    const auto number = static_cast<int>(program.size()) - 1;
    if (transfer.source != transfer.target) ++program.chunks.back();
    const std::int64_t slots = source.slots;
    touches.push_back({transfer.source * slots + transfer.from, transfer.step, number, false});
    touches.push_back({transfer.target * slots + transfer.into, transfer.step, number, true});
  }
  Waiting(program, touches);
  return program;
}

}  // namespace tilesim::cluster
