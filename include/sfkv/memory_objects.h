// Notes of the objects that rows hold by their numbers, 8 bytes each: for who keeps the objects, and counts how many hold each.
//
// Where rows are written and removed, in a call, only notes are taken; they are read between calls. A row is of one of these forms:
//   value := number   ·   map entry := 00 · number | 01   ·   list := { 08 · number }
// One thread.
#pragma once

#include <utility>
#include <vector>

#include "sfkv/rows.h"

namespace sfkv {

class ObjectNotes {
 public:
  // A row, or a part of a list, holds its objects from now on, or no more.
  void Adopt(const TableShape& shape, std::string_view row) { Visit(shape, row, &adopted_); }
  void Release(const TableShape& shape, std::string_view row) { Visit(shape, row, &released_); }

  // Gives the notes away. Each object is once in them for each time that it was adopted, or released.
  std::vector<uint64_t> TakeAdopted() { return std::exchange(adopted_, {}); }
  std::vector<uint64_t> TakeReleased() { return std::exchange(released_, {}); }

 private:
  static void Visit(const TableShape& shape, std::string_view row, std::vector<uint64_t>* numbers) {
    if (!shape.holds_objects) return;
    if (shape.kind == TableKind::kList) {
      std::string_view element;
      while (TakeElement(&row, &element)) Note(element, numbers);
    } else if (shape.kind == TableKind::kMap) {
      bool is_none = false;
      std::string_view value;
      if (ParseMapValue(row, &is_none, &value) && !is_none) Note(value, numbers);
    } else {
      Note(row, numbers);
    }
  }
  static void Note(std::string_view number, std::vector<uint64_t>* numbers) {
    if (number.size() == sizeof(uint64_t)) numbers->push_back(LoadAs<uint64_t>(number.data()));
  }

  std::vector<uint64_t> adopted_;
  std::vector<uint64_t> released_;
};

}  // namespace sfkv
