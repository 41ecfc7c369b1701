// Reads regular files that users name, and writes files atomically: the old file is replaced completely or stays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilesim {

/// A regular file open for reading. Pipes and devices, which would block or never end, are rejected, as is what cannot
/// be opened: UserError with the system's reason.
class InputFile {
 public:
  /// `owner`: what the file belongs to, for messages.
  explicit InputFile(std::string path, const std::string& owner = {});
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// In bytes, when it was opened.
  std::int64_t size() const { return size_; }
  /// Bytes read into `to`: fewer than asked for only at the end.
  std::int64_t read(std::int64_t offset, void* to, std::int64_t bytes) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// All of a regular file.
std::string read_file(const std::string& path);

/// The new content of a file: written beside it under a separate name, which nobody else uses, then brought to disk
/// and renamed over it. Until `commit` the old file stands; without it nothing is left, and what a killed process left
/// the next one removes that writes in the directory. A link is followed; what exists and is not a regular file (a
/// terminal, a pipe) is written directly.
class ReplacedFile {
 public:
  /// UserError where the directory takes no file.
  explicit ReplacedFile(std::string path);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;
  /// Where the content goes: for writers that want a path.
  const std::string& temporary() const { return temporary_; }
  /// Appends; may be cancelled between some megabytes. UserError with the system's reason ("No space left on device").
  void write(const void* data, std::int64_t bytes);
  void write(std::string_view text) { write(text.data(), static_cast<std::int64_t>(text.size())); }
  void commit();
  /// Gives up: the old file stays, the new one goes.
  void discard() noexcept;

 private:
  void open();
  [[noreturn]] void fail(int error) const;

  std::string path_, target_, temporary_;
  int descriptor_ = -1;
  bool direct_ = false;
  std::int64_t unsynced_ = 0;  ///< bytes that are not on disk yet
};

}  // namespace tilesim
