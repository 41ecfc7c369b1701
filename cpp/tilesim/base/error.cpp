#include "tilesim/base/error.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace tilesim {

namespace {

/// Text of a file for a message: on one line, about `most` bytes long, never cut inside a character.
std::string shortened(const std::string& text, std::size_t most) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (result.size() >= most && (byte & 0xC0U) != 0x80U) return result + "...";
    if (byte >= 0x20U && byte != 0x7FU) {
      result += c;
    } else {
      const char* digits = "0123456789abcdef";
      result += {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
    }
  }
  return result;
}

/// The first of many allowed names, and how many others there are.
std::string few(const std::string& allowed) {
  constexpr std::size_t most = 12;
  std::size_t count = 1, end = 0;
  for (std::size_t at = 0; (at = allowed.find(", ", at)) != std::string::npos; at += 2)
    if (++count == most + 1) end = at;
  const bool names = std::ranges::count(allowed, ' ') + 1 == static_cast<std::ptrdiff_t>(count);
  if (!names || count <= most + 1) return shortened(allowed, 4000);
  return allowed.substr(0, end) + ", and " + std::to_string(count - most) + " more";
}

std::string compose(const UserError::Parts& parts) {
  const std::string what = shortened(parts.what, 500), suggestion = shortened(parts.suggestion, 1000);
  std::string text = parts.place.empty() ? what : shortened(parts.place, 1000) + ": " + what;
  std::string detail;
  if (!parts.value.empty()) detail = "got " + shortened(parts.value, 200);
  if (!parts.allowed.empty()) detail += std::string(detail.empty() ? "" : "; ") + "allowed: " + few(parts.allowed);
  if (!detail.empty()) text += " (" + detail + ")";
  if (!suggestion.empty()) {
    const bool sentence = suggestion.find(' ') != std::string::npos;
    text += sentence ? ". " + suggestion : ". Did you mean '" + suggestion + "'?";
  }
  return text;
}

/// Number of insertions, deletions, substitutions and swaps of adjacent letters (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({row[j - 1] + 1, last[j] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

UserError::UserError(Parts parts) : Error(compose(parts)), parts_(std::move(parts)) {}

namespace {

/// The form in which names are compared: lower case, "_" for "-".
std::string plain(std::string_view name) {
  std::string text(name);
  for (char& letter : text)
    letter = letter == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

/// The first letters of the words of a name: "ws" of "weight_stationary".
std::string initials(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i)
    if (i == 0 || name[i - 1] == '_' || name[i - 1] == '-') text += plain(name.substr(i, 1));
  return text;
}

/// The shortest name that begins with `word`; null if there is none. A single letter would match too many names.
const std::string* begun(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() < 2) return nullptr;
  const std::string start = plain(word);
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates)
    if (plain(candidate).starts_with(start) && (best == nullptr || candidate.size() < best->size())) best = &candidate;
  return best;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  if (const std::string* const found = begun(word, candidates)) return *found;
  for (const std::string& candidate : candidates)
    if (word.size() > 1 && initials(candidate) == plain(word)) return candidate;
  std::string best;
  std::size_t limit = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < limit) {
      limit = distance;
      best = candidate;
    }
  }
  return best;
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

}  // namespace tilesim
