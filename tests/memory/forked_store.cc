// A forked child drops a store in memory while a thread of its parent is at the store's views, maybe with their lock held; meanwhile the
// parent asks how much is used.
//
//   forked_store SEED TURNS
//
// Ends with what does not hold, or says nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "check.h"
#include "sfkv/memory_store.h"

namespace sfkv {
namespace {

constexpr KeyGroupRange kGroups = {0, 2};

void Run(size_t turns) {
  const std::string key = MemoryTables::Encoded(1, 9, "k");
  auto store = std::make_unique<MemoryStore>(0);
  store->tables()->Own(kGroups);
  CHECK(store->PutRow(key, "v", true).ok());
  std::atomic<bool> ends{false};
  std::thread thread([&] {
    while (!ends.load()) {
      const std::shared_ptr<RowView> view = store->tables()->heap()->NewView();
      CHECK(store->PutRow(key, "v", true).ok());
    }
  });
  int failed = 0;
  for (size_t turn = 0; turn < turns && failed == 0; ++turn) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      store = nullptr;
      _exit(0);
    }
    CHECK(waitpid(child, &failed, 0) == child);
    CHECK(store->tables()->heap()->used_bytes() > 0);
  }
  ends.store(true);
  thread.join();
  CHECK(failed == 0);
  store = nullptr;
  CHECK(RowView::live() == 0 && MemoryStore::live() == 0);
}

}  // namespace
}  // namespace sfkv

int main(int, char** arguments) {
  sfkv::Run(std::strtoull(arguments[2], nullptr, 10));
  return 0;
}
