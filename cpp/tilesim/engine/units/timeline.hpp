// Busy intervals of units. The timeline drops intervals above a given number.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tilesim/report/result.hpp"

namespace tilesim::engine {

class Timeline {
 public:
  Timeline(bool wanted, std::int64_t most) : wanted_(wanted), most_(most) {}
  bool wanted() const { return wanted_; }
  /// Number of a label, for `add`.
  std::int32_t text(const std::string& text) {
    const auto [found, fresh] = text_of_.try_emplace(text, static_cast<std::int32_t>(texts_.size()));
    if (fresh) texts_.push_back({text, -1});
    return found->second;
  }
  void add(std::int32_t unit, std::int32_t text, std::int64_t start, std::int64_t finish) {
    if (static_cast<std::int64_t>(intervals_.size()) >= most_) {
      ++dropped_;
      return;
    }
    Text& own = texts_[static_cast<std::size_t>(text)];
    if (own.label < 0) {
      own.label = static_cast<std::int32_t>(labels_.size());
      labels_.push_back(own.text);
    }
    intervals_.push_back({unit, own.label, start, finish});
  }
  const std::vector<Interval>& intervals() const { return intervals_; }  ///< units as numbers
  const std::vector<std::string>& labels() const { return labels_; }     ///< in order of their first interval
  std::int64_t dropped() const { return dropped_; }

 private:
  struct Text {
    std::string text;
    std::int32_t label = -1;
  };

  bool wanted_;
  std::int64_t most_, dropped_ = 0;
  std::vector<Interval> intervals_;
  std::vector<std::string> labels_;
  std::vector<Text> texts_;
  std::unordered_map<std::string, std::int32_t> text_of_;
};

}  // namespace tilesim::engine
