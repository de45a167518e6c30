// How fast rows are encoded and decoded, without a store: fixed-width columns of a record, in chunks of 64 rows as batches have them.
#pragma once

#include <ctime>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "sfkv/value_codec.h"

namespace sfkv {

struct CodecTimes {
  double encode_ns = 1e9;  // of CPU, per cell, in the fastest round
  double decode_ns = 1e9;
};

inline double ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// "formats": Arrow's, one for each column. REQUIRES: rows is a multiple of 64.
inline CodecTimes MeasureCodec(const std::vector<std::string>& formats, int64_t rows, int rounds) {
  constexpr int64_t kChunk = 64;
  std::vector<Column> columns(formats.size());
  std::vector<std::vector<char>> cells(formats.size());
  Columns views(formats.size());
  for (size_t c = 0; c < formats.size(); ++c) {
    ArrowSchema schema{};
    schema.format = formats[c].c_str();
    columns[c].name = std::to_string(c);
    ParseType(schema, &columns[c].type);
    cells[c].assign(static_cast<size_t>(rows) * columns[c].type.width, static_cast<char>(c + 1));
    const void* buffers[] = {nullptr, cells[c].data()};
    const ArrowArray array{rows, 0, 0, 2, 0, buffers, nullptr, nullptr, nullptr, nullptr};
    ColumnView::Make(array, columns[c].type, &views[c]);
  }
  const ValueCodec codec(columns, /*is_record=*/true);
  const size_t row_bytes = codec.RowBytes(views, 0);
  std::vector<char> encoded(static_cast<size_t>(rows) * row_bytes);
  CodecTimes times;
  const double cell_count = static_cast<double>(rows) * static_cast<double>(formats.size());
  for (int round = 0; round < rounds; ++round) {
    int64_t numbers[kChunk];
    char* at[kChunk];
    std::string_view found[kChunk];
    double began = ThreadCpuNs();
    for (int64_t first = 0; first < rows; first += kChunk) {
      for (int64_t r = 0; r < kChunk; ++r) at[r] = encoded.data() + static_cast<size_t>(numbers[r] = first + r) * row_bytes;
      codec.EncodeRows(views, numbers, at, kChunk);
    }
    times.encode_ns = std::min(times.encode_ns, (ThreadCpuNs() - began) / cell_count);
    began = ThreadCpuNs();
    Builders builders = MakeBuilders(columns, rows);
    for (int64_t first = 0; first < rows; first += kChunk) {
      for (int64_t r = 0; r < kChunk; ++r) found[r] = {encoded.data() + static_cast<size_t>(numbers[r] = first + r) * row_bytes, row_bytes};
      codec.ParseRows(found, numbers, kChunk, &builders);
    }
    times.decode_ns = std::min(times.decode_ns, (ThreadCpuNs() - began) / cell_count);
  }
  return times;
}

}  // namespace sfkv
