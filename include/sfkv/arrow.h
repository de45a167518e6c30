// Arrow's C data interface: the two structs, and how their memory is handed on. Source: "The Arrow C data interface".
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "sfkv/buffer.h"

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
}
#endif

namespace sfkv {

constexpr int64_t kArrowNullable = 2;  // a schema's flag

inline bool GetBit(const uint8_t* bits, int64_t i) { return (bits[i >> 3] >> (i & 7)) & 1; }
inline void SetBit(uint8_t* bits, int64_t i) { bits[i >> 3] = static_cast<uint8_t>(bits[i >> 3] | (1u << (i & 7))); }

// Whether an array's offset and length can be those of any cells.
inline bool HasCells(const ArrowArray& array) {
  return array.offset >= 0 && array.length >= 0 && array.offset <= std::numeric_limits<int64_t>::max() - array.length;
}

// An Arrow array that is released with this, unless it is taken.
class OwnedArray {
 public:
  OwnedArray() { array_.release = nullptr; }
  ~OwnedArray() { Release(); }
  OwnedArray(OwnedArray&& other) noexcept { other.MoveTo(&array_); }
  OwnedArray& operator=(OwnedArray&& other) noexcept {
    Release();
    other.MoveTo(&array_);
    return *this;
  }

  ArrowArray* get() { return &array_; }
  void MoveTo(ArrowArray* out) {
    *out = array_;
    array_.release = nullptr;
  }

 private:
  void Release() {
    if (array_.release != nullptr) array_.release(&array_);
  }
  ArrowArray array_{};
};

// An array in the making: its buffers, and the children that its consumer has not taken.
class ArrayExport {
 public:
  void AddBuffer(ByteBuffer buffer) {
    buffers_.push_back(nullptr);  // what is released before there is a place for it is lost where there is no memory for that
    buffers_.back() = buffer.Release();
  }
  void AddNoBuffer() { buffers_.push_back(nullptr); }
  void AddChild(OwnedArray child) { children_.push_back(std::move(child)); }

  static void Export(std::unique_ptr<ArrayExport> made, int64_t length, int64_t null_count, ArrowArray* out) {
    for (OwnedArray& child : made->children_) made->child_pointers_.push_back(child.get());
    ArrayExport* made_ = made.release();
    *out = ArrowArray{length, null_count, 0, static_cast<int64_t>(made_->buffers_.size()), static_cast<int64_t>(made_->children_.size()),
                      made_->buffers_.data(), made_->child_pointers_.data(), nullptr, &Release, made_};
  }

  ArrayExport() = default;
  ~ArrayExport() {
    for (const void* buffer : buffers_) std::free(const_cast<void*>(buffer));
  }
  ArrayExport(const ArrayExport&) = delete;
  ArrayExport& operator=(const ArrayExport&) = delete;

 private:
  static void Release(ArrowArray* array) {
    delete static_cast<ArrayExport*>(array->private_data);
    array->release = nullptr;
  }

  std::vector<const void*> buffers_;
  std::vector<OwnedArray> children_;
  std::vector<ArrowArray*> child_pointers_;
};

}  // namespace sfkv
