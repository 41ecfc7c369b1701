// Generates names that are not used yet.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace tilesim::lower {

class FreshNames {
 public:
  void take(const std::string& name) { taken_.insert(name); }
  /// Returns the stem, or the stem with the first unused number, and reserves this name.
  std::string unique(const std::string& stem) {
    if (taken_.insert(stem).second) return stem;
    for (int& number = last_[stem];;)
      if (std::string name = stem + "." + std::to_string(++number); taken_.insert(name).second) return name;
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> last_;  ///< last number used per stem
};

}  // namespace tilesim::lower
