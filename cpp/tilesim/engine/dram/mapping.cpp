#include "tilesim/engine/dram/mapping.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <sstream>
#include <string_view>

namespace tilesim::engine::dram {

namespace {

int bits_of(std::int64_t count) { return std::bit_width(static_cast<std::uint64_t>(count)) - 1; }

struct Field {
  std::string name;
  int bits = 0;    ///< in all pieces together
  int to = 0;      ///< shift in the number of the bank
  int placed = 0;  ///< bits assigned to pieces so far, from the least significant bit
};

struct Token {
  std::string name;
  int width = -1;  ///< -1: not given
};

std::vector<Token> tokens_of(const std::string& order) {
  std::istringstream stream(order);
  std::vector<Token> tokens;
  for (std::string word; stream >> word;) {
    const std::size_t colon = word.find(':');
    Token token{word.substr(0, colon), -1};
    if (colon != std::string::npos) {
      const std::string digits = word.substr(colon + 1);
      if (digits.empty() || digits.size() > 2 || digits.find_first_not_of("0123456789") != std::string::npos)
        throw UserError({"a field's width is not a number", "mapping", "'" + word + "'", "bank:2", {}});
      token.width = std::stoi(digits);
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<Field> fields_of(const Part& part) {
  std::vector<Field> fields;
  int to = 0;
  for (int level = part.bank_level(); level >= 1; --level) {
    const Level& l = part.levels[static_cast<std::size_t>(level)];
    fields.push_back({l.name, bits_of(l.count), to, 0});
    to += bits_of(l.count);
  }
  fields.push_back({"row", bits_of(part.count("row")), 0, 0});
  fields.push_back({"column", bits_of(part.count("column") / part.prefetch), 0, 0});
  fields.push_back({"offset", bits_of(part.burst_bytes), 0, 0});
  return fields;
}

/// Irreducible polynomials over GF(2), by degree (Lidl and Niederreiter, "Finite Fields", table C).
constexpr std::array<std::uint64_t, 13> irreducible{
    0, 0b11, 0b111, 0b1011, 0b10011, 0b100101, 0b1000011, 0b10000011, 0b100011011, 0b1000000011, 0x409, 0x805, 0x1009};

/// Name of the field that contains all levels of banks.
constexpr std::string_view every_level = "all";

}  // namespace

Fold::Fold(int bits, bool ipoly) {
  if (bits == 0) return;
  std::uint64_t digit = ipoly ? 1ULL << bits : 1;  // the bit's contribution after reduction
  const std::uint64_t top = 1ULL << bits;
  const auto reduce = [&] {
    if ((digit & top) != 0) digit = ipoly ? digit ^ irreducible[static_cast<std::size_t>(bits)] : digit ^ top ^ 1;
  };
  reduce();
  for (auto& of_byte : table_) {
    for (std::size_t bit = 1; bit < 256; bit *= 2) {
      for (std::size_t low = 0; low < bit; ++low) of_byte[bit + low] = static_cast<std::uint16_t>(of_byte[low] ^ digit);
      digit <<= 1;
      reduce();
    }
  }
}

std::vector<Hash> bank_hashes(const std::string& kind) {
  if (kind == "none") return {};
  return {{std::string(every_level), kind == "ipoly"}};
}

ChannelHash channel_hash_of(const std::string& name) {
  const std::vector<std::string> known{"none", "skew", "ipoly"};
  const auto found = std::ranges::find(known, name);
  if (found == known.end())
    throw UserError({"unknown hash of channels", "channel_hash", "'" + name + "'", join(known), nearest(name, known)});
  return static_cast<ChannelHash>(found - known.begin());
}

std::vector<Hash> read_hashes(const Json& json) {
  std::vector<Hash> hashes;
  for (const Json& item : json.items()) {
    ObjectReader reader(item);
    const std::string field = reader.string("field"), kind = reader.string("kind");
    if (kind != "xor" && kind != "ipoly") item.at("kind").fail("unknown hash '" + kind + "'", "xor, ipoly");
    reader.finish();
    hashes.push_back({field, kind == "ipoly"});
  }
  return hashes;
}

namespace {

/// Whether only some parts have this level. In a machine's order, a level that the part does not have uses no bits.
bool level_of_some_parts(const std::string& name) {
  return name == "rank" || name == "pseudo_channel" || name == "bank_group";
}

}  // namespace

AddressMap::AddressMap(const Part& part, const std::string& order, const std::vector<Hash>& hashes)
    : capacity_(part.capacity_bytes()) {
  std::vector<Field> fields = fields_of(part);
  std::vector<std::string> known;
  for (const Field& field : fields) known.push_back(field.name);
  const std::string text = order.empty() ? part.mapping : order;
  const auto fail = [&](const std::string& what, const std::string& allowed) {
    throw UserError({what, "mapping of " + part.name, "'" + text + "'", allowed, {}});
  };
  std::vector<Token> tokens = tokens_of(text);
  int shift = 0;
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == token->name; });
    if (field == fields.end() && token->width < 0 && level_of_some_parts(token->name)) continue;
    if (field == fields.end()) {
      const std::string close = nearest(token->name, known);
      throw UserError({"the mapping names an unknown field", "mapping of " + part.name, "'" + token->name + "'",
                       join(known), close.empty() ? "Separate fields by blanks, as row bank column offset" : close});
    }
    const int width = token->width >= 0 ? token->width : field->bits - field->placed;
    if (field->placed + width > field->bits)
      fail("the mapping gives " + field->name + " too many bits", std::to_string(field->bits) + " bits");
    const BitField piece{shift, (1ULL << width) - 1, field->to + field->placed};
    if (width > 0 && field->name == "row")
      row_pieces_.push_back(piece);
    else if (width > 0 && field->name != "column" && field->name != "offset")
      bank_pieces_.push_back(piece);
    field->placed += width;
    shift += width;
  }
  for (const Field& field : fields)
    if (field.placed < field.bits)
      fail("the mapping covers too few bits of " + field.name + ": " + std::to_string(field.placed),
           std::to_string(field.bits) + " bits");
  tabulate();
  known.emplace_back(every_level);
  const auto first_other = std::ranges::find(fields, std::string("row"), &Field::name);
  for (const Hash& hash : hashes) {
    const auto field = std::find_if(fields.begin(), first_other, [&](const Field& f) { return f.name == hash.field; });
    if (field == first_other && hash.field != every_level)
      throw UserError({"a hash changes a field that is missing in the part", "mapping of " + part.name,
                       "'" + hash.field + "'", join(known), nearest(hash.field, known)});
    const bool all = field == first_other;
    mixes_.push_back({all ? 0 : field->to, Fold(all ? bits_of(part.banks()) : field->bits, hash.ipoly)});
  }
}

std::vector<std::uint8_t> AddressMap::banks_within(std::uint64_t unit, std::uint64_t burst) const {
  std::vector<std::uint8_t> banks;
  if (!std::has_single_bit(unit)) return banks;
  for (std::uint64_t at = 0; at < unit; at += burst) {
    const Location place = locate(at);
    if (place.row != 0) return {};
    banks.push_back(static_cast<std::uint8_t>(place.bank));
  }
  return banks;
}

void AddressMap::tabulate() {
  int low = 64, bits = 0, end = 0;
  for (const BitField& p : bank_pieces_) {
    low = std::min(low, p.shift);
    bits += std::popcount(p.mask);
    end = std::max(end, p.shift + std::popcount(p.mask));
  }
  if (bits == 0) low = end = 0;
  if (row_pieces_.size() != 1 || end - low != bits) return;
  together_ = true;
  row_shift_ = row_pieces_[0].shift;
  row_mask_ = row_pieces_[0].mask;
  bank_shift_ = low;
  bank_mask_ = (1ULL << bits) - 1;
  for (std::uint64_t value = 0; value <= bank_mask_; ++value) {
    std::uint64_t bank = 0;
    for (const BitField& p : bank_pieces_) bank |= (value << low >> p.shift & p.mask) << p.to;
    bank_table_[value] = static_cast<std::uint8_t>(bank);
  }
}

ChannelMap::ChannelMap(std::int64_t channels, std::int64_t interleave_bytes, ChannelHash hash)
    : count_(static_cast<std::uint64_t>(channels)), unit_(static_cast<std::uint64_t>(interleave_bytes)), hash_(hash) {
  if (channels < 1 || channels > 4096)
    throw UserError({"wrong number of channels", "channels", std::to_string(channels), "1 to 4096", {}});
  if (interleave_bytes < 1 || (interleave_bytes & (interleave_bytes - 1)) != 0)
    throw UserError({"wrong interleaving", "interleave_bytes", std::to_string(interleave_bytes), "a power of two", {}});
  unit_shift_ = std::countr_zero(unit_);
  if (std::has_single_bit(count_)) count_shift_ = std::countr_zero(count_);
  if (hash == ChannelHash::ipoly) fold_ = Fold(std::bit_width(count_ - 1), true);
}

}  // namespace tilesim::engine::dram
