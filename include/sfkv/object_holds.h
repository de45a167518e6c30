// Notes of the objects that rows hold (memory_objects.h), around changes that may fail.
//
// What a row, or a log, is to hold is noted before it does, and what it held when it does no more. Where there is no memory for a note,
// an object is kept for longer than it is needed, never for less.
// One thread.
#pragma once

#include <new>

#include "sfkv/memory_objects.h"

namespace sfkv {

// A row, or a part of a list, holds its objects no more.
inline void ReleaseObjects(ObjectNotes* notes, const TableShape& shape, std::string_view row) {
  try {
    notes->Release(shape, row);
  } catch (const std::bad_alloc&) {
  }
}

// The objects of a row that is about to be written: they are its own with Done(), and are released if that does not come.
class AdoptObjects {
 public:
  // "row" must live as long as this.
  AdoptObjects(ObjectNotes* notes, const TableShape& shape, std::string_view row) : notes_(notes), shape_(shape), row_(row) {
    notes_->Adopt(shape_, row_);
  }
  ~AdoptObjects() {
    if (!done_) ReleaseObjects(notes_, shape_, row_);
  }
  AdoptObjects(const AdoptObjects&) = delete;
  AdoptObjects& operator=(const AdoptObjects&) = delete;
  void Done() { done_ = true; }

 private:
  ObjectNotes* notes_;
  const TableShape shape_;  // a copy: the table may be made anew meanwhile
  std::string_view row_;
  bool done_ = false;
};

}  // namespace sfkv
