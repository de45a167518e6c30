// A growable run of bytes that is not initialised and can give its memory away. A few bytes need no memory of their own.
//
// std::string would clear what is about to be overwritten, and cannot hand its memory to an Arrow array.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

namespace sfkv {

class ByteBuffer {
 public:
  ByteBuffer() = default;
  ~ByteBuffer() { FreeMemory(); }
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;
  ByteBuffer(ByteBuffer&& other) noexcept { Take(other); }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    if (this != &other) {
      FreeMemory();
      Take(other);
    }
    return *this;
  }

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }

  // Makes room for "n" more bytes, so that the next Extend() of at most as many does not move the data.
  void Reserve(size_t n) {
    if (capacity_ - size_ < n) Grow(size_ + n);
  }

  // Appends "n" bytes of any content and returns where they begin.
  char* Extend(size_t n) {
    Reserve(n);
    char* begin = data_ + size_;
    size_ += n;
    return begin;
  }

  void Append(const void* bytes, size_t n) {
    if (n != 0) std::memcpy(Extend(n), bytes, n);
  }

  // Appends "n" zeros. There may be no memory yet when "n" is 0.
  void AppendZeros(size_t n) {
    if (n != 0) std::memset(Extend(n), 0, n);
  }

  // REQUIRES: size <= size().
  void Truncate(size_t size) { size_ = size; }
  void Clear() { size_ = 0; }

  // Gives the memory to the caller, who frees it by std::free. Never null, so that Arrow readers may touch it.
  char* Release() {
    if (data_ == few_) Grow(kFewBytes + 1);
    char* data = data_;
    BeEmpty();
    return data;
  }

 private:
  static constexpr size_t kFewBytes = 64;

  void Grow(size_t needed) {
    size_t capacity = capacity_ + capacity_ / 2;
    if (capacity < needed) capacity = needed;
    char* data = static_cast<char*>(std::realloc(data_ == few_ ? nullptr : data_, capacity));
    if (data == nullptr) throw std::bad_alloc();
    if (data_ == few_) std::memcpy(data, few_, size_);
    data_ = data;
    capacity_ = capacity;
  }

  void FreeMemory() {
    if (data_ != few_) std::free(data_);
  }
  void BeEmpty() {
    data_ = few_;
    size_ = 0;
    capacity_ = kFewBytes;
  }
  void Take(ByteBuffer& other) noexcept {
    data_ = other.data_ == other.few_ ? few_ : other.data_;
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (data_ == few_) std::memcpy(few_, other.few_, size_);
    other.BeEmpty();
  }

  char* data_ = few_;
  size_t size_ = 0;
  size_t capacity_ = kFewBytes;
  char few_[kFewBytes];
};

}  // namespace sfkv
