// Reads regular files that users name, and writes files atomically: a failed write leaves the old file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilesim {

/// A regular file that is open for reading. Throws UserError for pipes and devices, because reading them could block or
/// never end, and with the system's reason if the file cannot be opened.
class InputFile {
 public:
  /// `owner`: the object to which the file belongs, for messages.
  explicit InputFile(std::string path, const std::string& owner = {});
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// Size in bytes when the file was opened.
  std::int64_t size() const { return size_; }
  /// Reads up to `bytes` bytes and returns their number, which is smaller only at the end of the file.
  std::int64_t read(std::int64_t offset, void* to, std::int64_t bytes) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// Reads a regular file completely.
std::string read_file(const std::string& path);

/// Replaces a file. Writes go to a file with a unique name in the same directory; `commit` flushes it to disk and
/// renames it. Until then the old file remains; without `commit` the new file is deleted. The next writer in the
/// directory deletes files that killed processes left. Follows links. An existing file that is not regular (a terminal,
/// a pipe) is written directly.
class ReplacedFile {
 public:
  /// Throws UserError if the directory does not permit a new file.
  explicit ReplacedFile(std::string path);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;
  /// Path of the temporary file, for libraries that open a file by path.
  const std::string& temporary() const { return temporary_; }
  /// Appends data; can be cancelled every few megabytes. Throws UserError with the system's reason ("No space left").
  void write(const void* data, std::int64_t bytes);
  void write(std::string_view text) { write(text.data(), static_cast<std::int64_t>(text.size())); }
  void commit();
  /// Deletes the new file and keeps the old one.
  void discard() noexcept;

 private:
  void open();
  [[noreturn]] void fail(int error) const;

  std::string path_, target_, temporary_;
  int descriptor_ = -1;
  bool direct_ = false;
  std::int64_t unsynced_ = 0;  ///< bytes that are not yet flushed to disk
};

}  // namespace tilesim
