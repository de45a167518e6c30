// The names of the core's classes that own RocksDB's objects, for modules that only pass them on.
#pragma once

namespace sfkv {

class Slot;
class Store;
class Table;
class Scan;

}  // namespace sfkv
