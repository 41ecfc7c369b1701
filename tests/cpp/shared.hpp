// What tests of all rooms share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

/// Random cases of a test: so many in a normal run, TILESIM_TRIALS times as many where the environment sets that.
inline std::uint32_t trials(std::uint32_t normal) {
  const char* const times = std::getenv("TILESIM_TRIALS");
  return times != nullptr ? normal * static_cast<std::uint32_t>(std::atoi(times)) : normal;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
