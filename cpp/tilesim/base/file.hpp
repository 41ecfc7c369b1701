// Reads regular files that users name, and writes files atomically: the old file is replaced completely or stays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilesim {

/// A regular file open for reading. Throws UserError for pipes and devices, which would block or never end, and with
/// the system's reason if a file cannot be opened.
class InputFile {
 public:
  /// `owner`: the object that the file belongs to, for messages.
  explicit InputFile(std::string path, const std::string& owner = {});
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// Size in bytes when it was opened.
  std::int64_t size() const { return size_; }
  /// Bytes read into `to`: fewer than asked for only at the end.
  std::int64_t read(std::int64_t offset, void* to, std::int64_t bytes) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// Reads a regular file completely.
std::string read_file(const std::string& path);

/// Replaces a file: the content goes to a file with a unique name beside it, which `commit` flushes to disk and
/// renames. Until then the old file remains; without `commit` the new file is deleted. The next writer in the directory
/// deletes files of killed processes. Follows links; an existing file that is not regular (a terminal, a pipe) is
/// written directly.
class ReplacedFile {
 public:
  /// UserError if no file can be created in the directory.
  explicit ReplacedFile(std::string path);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;
  /// Path of the temporary file, for writers that open it.
  const std::string& temporary() const { return temporary_; }
  /// Appends; may be cancelled between some megabytes. UserError with the system's reason ("No space left on device").
  void write(const void* data, std::int64_t bytes);
  void write(std::string_view text) { write(text.data(), static_cast<std::int64_t>(text.size())); }
  void commit();
  /// Discards the new file and keeps the old one.
  void discard() noexcept;

 private:
  void open();
  [[noreturn]] void fail(int error) const;

  std::string path_, target_, temporary_;
  int descriptor_ = -1;
  bool direct_ = false;
  std::int64_t unsynced_ = 0;  ///< bytes not flushed to disk yet
};

}  // namespace tilesim
