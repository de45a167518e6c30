// Entries of maps (map_codec.h, and key_codec.h for a key with a user key behind it).
//
//   A stored value is well-formed just when FORMAT.md says so: a row, or a None with nothing behind it.
//   The bytes behind an encoded key's header are split into key and user key in one way only; what is split, joined again, is the same.
//   PrefixBound() is where the keys that begin with a prefix end: no key with it lies at or beyond, none without it in between.
#include "model.h"
#include "sfkv/finish.h"
#include "sfkv/key_codec.h"
#include "sfkv/map_codec.h"

namespace sfkv::fuzz {
namespace {

void ReadValue(Input* input) {
  const ExactBytes stored(input->Rest());
  bool is_none = false;
  std::string_view row;
  const bool well_formed = ParseMapValue(stored.view(), &is_none, &row);
  const std::string bytes(stored.view());
  FUZZ_EXPECT(well_formed == (bytes == "\1" || (!bytes.empty() && bytes[0] == '\0')));
  if (!well_formed) return;
  FUZZ_EXPECT(is_none == (bytes[0] == '\1'));
  FUZZ_EXPECT(row == bytes.substr(1));
}

bool Split(const KeyCodec& keys, const KeyCodec& user_keys, std::string_view bytes, Row* row, Row* user_row) {
  Builders builders = MakeBuilders(keys.columns(), 1), user_builders = MakeBuilders(user_keys.columns(), 1);
  const auto rest = keys.ParseFront(bytes, 0, &builders);
  if (!rest) return false;
  const auto end = user_keys.ParseFront(*rest, 0, &user_builders);
  if (!end || !end->empty()) return false;
  OwnedArray array, user_array;
  FUZZ_EXPECT(FinishRecord(&builders, 1, nullptr, array.get()).ok());
  FUZZ_EXPECT(FinishRecord(&user_builders, 1, nullptr, user_array.get()).ok());
  *row = RowsOf(*array.get(), keys.columns(), true)[0];
  *user_row = RowsOf(*user_array.get(), user_keys.columns(), true)[0];
  return true;
}

void ReadKey(Input* input) {
  const Schema schema = TakeKeySchema(input), user_schema = TakeKeySchema(input);
  const KeyCodec keys(schema.columns, schema.is_record, HashKind::kMurmur);
  const KeyCodec user_keys(user_schema.columns, user_schema.is_record, HashKind::kMurmur);
  Row row, user_row;
  if (input->Bool()) {
    const Row one = KeyOf(TakeRow(input, schema.columns), schema.columns);
    const Row user = KeyOf(TakeRow(input, user_schema.columns), user_schema.columns);
    const ExactBytes bytes(KeyRowOf(one, schema.columns) + KeyRowOf(user, user_schema.columns));
    FUZZ_EXPECT(Split(keys, user_keys, bytes.view(), &row, &user_row));
    FUZZ_EXPECT(row == one && user_row == user);
  } else {
    const ExactBytes bytes(input->Rest());
    if (!Split(keys, user_keys, bytes.view(), &row, &user_row)) return;
    FUZZ_EXPECT(KeyRowOf(row, schema.columns) + KeyRowOf(user_row, user_schema.columns) == bytes.view());
  }
}

void Bound(Input* input) {
  std::string prefix = input->Bytes(1 + input->Below(8));
  if (prefix.empty() || prefix[0] == '\xff') return;  // key group ff.. belongs to no key
  std::string key = input->Bytes(12);
  if (input->Bool()) key = prefix + key;
  const std::string bound = PrefixBound(prefix);
  FUZZ_EXPECT((key >= prefix && key < bound) == (key.compare(0, prefix.size(), prefix) == 0));
  FUZZ_EXPECT(bound > prefix && bound.size() <= prefix.size());
  for (const std::string& tail : {std::string(), std::string(9, '\xff')}) FUZZ_EXPECT(prefix + tail < bound);
}

}  // namespace
}  // namespace sfkv::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sfkv::fuzz;
  Input input(data, size);
  const size_t mode = input.Below(4);
  if (mode == 0) ReadValue(&input);
  if (mode == 1) Bound(&input);
  if (mode >= 2) ReadKey(&input);
  return 0;
}
