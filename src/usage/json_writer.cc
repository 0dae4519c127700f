#include "src/usage/json_writer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pinring {
namespace {

// The length of the well-formed UTF-8 sequence that `s` starts with, 0 if it
// starts with none (overlong forms, surrogates and beyond U+10FFFF included).
size_t Utf8SequenceLength(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  uint8_t second_low = 0x80;
  uint8_t second_high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) second_low = 0xa0;
    if (lead == 0xed) second_high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) second_low = 0x90;
    if (lead == 0xf4) second_high = 0x8f;
  }
  if (length == 0 || s.size() < length) return 0;
  if (byte(1) < second_low || byte(1) > second_high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

void JsonWriter::BeforeValue() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_element_.empty()) return;
  if (has_element_.back()) text_ += ',';
  has_element_.back() = true;
}

void JsonWriter::BeginObject() {
  BeforeValue();
  text_ += '{';
  has_element_.push_back(false);
}

void JsonWriter::EndObject() {
  has_element_.pop_back();
  text_ += '}';
}

void JsonWriter::BeginArray() {
  BeforeValue();
  text_ += '[';
  has_element_.push_back(false);
}

void JsonWriter::EndArray() {
  has_element_.pop_back();
  text_ += ']';
}

void JsonWriter::Key(std::string_view name) {
  BeforeValue();
  Quote(name);
  text_ += ':';
  after_key_ = true;
}

void JsonWriter::String(std::string_view value) {
  BeforeValue();
  Quote(value);
}

void JsonWriter::Number(uint64_t value) {
  BeforeValue();
  absl::StrAppend(&text_, value);
}

void JsonWriter::Number(int64_t value) {
  BeforeValue();
  absl::StrAppend(&text_, value);
}

void JsonWriter::Number(double value) {
  if (!std::isfinite(value)) {
    Null();
    return;
  }
  BeforeValue();
  absl::StrAppendFormat(&text_, "%.17g", value);
}

void JsonWriter::Bool(bool value) {
  BeforeValue();
  text_ += value ? "true" : "false";
}

void JsonWriter::Null() {
  BeforeValue();
  text_ += "null";
}

void JsonWriter::Field(std::string_view name, uint64_t value) {
  Key(name);
  Number(value);
}

void JsonWriter::Field(std::string_view name, std::string_view value) {
  Key(name);
  String(value);
}

void JsonWriter::Quote(std::string_view value) {
  text_ += '"';
  while (!value.empty()) {
    const size_t length = Utf8SequenceLength(value);
    if (length == 0) {
      text_ += "\xef\xbf\xbd";
      value.remove_prefix(1);
      continue;
    }
    const char c = value[0];
    if (length > 1) {
      text_.append(value.data(), length);
    } else if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (c == '\t') {
      text_ += "\\t";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&text_, "\\u%04x", static_cast<uint8_t>(c));
    } else {
      text_ += c;
    }
    value.remove_prefix(length);
  }
  text_ += '"';
}

}  // namespace pinring
