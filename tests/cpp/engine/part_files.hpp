// The shipped DRAM parts.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

inline std::vector<std::string> part_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(TILESIM_SOURCE_DIR "/configs/dram"))
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}
