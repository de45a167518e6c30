// A growable run of bytes that is not initialised and can give its memory away.
//
// std::string would clear what is about to be overwritten, and cannot hand its memory to an Arrow array.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace sfkv {

class ByteBuffer {
 public:
  ByteBuffer() = default;
  ~ByteBuffer() { std::free(data_); }
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;
  ByteBuffer(ByteBuffer&& other) noexcept { Swap(other); }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    Swap(other);
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
    if (data_ == nullptr) Grow(1);
    char* data = data_;
    data_ = nullptr;
    size_ = capacity_ = 0;
    return data;
  }

 private:
  void Grow(size_t needed) {
    size_t capacity = capacity_ < 64 ? 64 : capacity_ + capacity_ / 2;
    if (capacity < needed) capacity = needed;
    char* data = static_cast<char*>(std::realloc(data_, capacity));
    if (data == nullptr) throw std::bad_alloc();
    data_ = data;
    capacity_ = capacity;
  }

  void Swap(ByteBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  char* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace sfkv
