// Guards of keys that are added to often: fold_guard.h.
//
//   guards SEED STEPS
#include "sfkv/fold_guard.h"

#include <cstdlib>
#include <random>
#include <string>

#include "check.h"

int main(int, char** arguments) {
  std::mt19937 random(static_cast<unsigned>(std::stoul(arguments[1])));
  const int steps = std::stoi(arguments[2]);
  sfkv::FoldGuard guard;
  // A key is due after sixteen adds, and remains so until it was settled, however often it is asked meanwhile.
  for (int round = 0; round < steps; ++round) {
    const std::string key = "key " + std::to_string(random() % 10);
    int adds = 1;
    while (!guard.MustSettle(key)) ++adds;
    CHECK(adds <= 16);
    for (size_t again = random() % 5; again > 0; --again) CHECK(guard.MustSettle(key));
    guard.IsSettled(key);
    for (int next = 1; next < 16; ++next) CHECK(!guard.MustSettle(key));
    CHECK(guard.MustSettle(key));
    guard.IsSettled(key);
  }
}
