// JsonWriter: writes one JSON value, commas and escapes in place. The result
// is valid JSON for any input bytes: what is not UTF-8 in a string becomes
// U+FFFD.
//
//   JsonWriter json;
//   json.BeginObject();
//   json.Key("bytes");
//   json.Number(uint64_t{4096});
//   json.EndObject();
//   std::string text = std::move(json).Take();
//
// Not thread-safe. The caller keeps begins and ends in balance.
#ifndef PINRING_SRC_USAGE_JSON_WRITER_H_
#define PINRING_SRC_USAGE_JSON_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pinring {

class JsonWriter {
 public:
  void BeginObject();
  void EndObject();
  void BeginArray();
  void EndArray();

  // Inside an object: the name of the value that is written next.
  void Key(std::string_view name);

  void String(std::string_view value);
  void Number(uint64_t value);
  void Number(int64_t value);
  // Not-a-number and the infinities, which JSON lacks, become null.
  void Number(double value);
  void Bool(bool value);
  void Null();

  // Key and value at once.
  void Field(std::string_view name, uint64_t value);
  void Field(std::string_view name, std::string_view value);

  std::string Take() && { return std::move(text_); }

 private:
  void BeforeValue();
  void Quote(std::string_view value);

  std::string text_;
  std::vector<bool> has_element_;  // One for each open object or array.
  bool after_key_ = false;
};

}  // namespace pinring

#endif  // PINRING_SRC_USAGE_JSON_WRITER_H_
