// Five functions hold blocks of sizes that every allocator has; a sixth frees what it asks for.
#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

#define STAY __attribute__((noinline))

namespace store {
std::vector<char *> kept;

// Samples that come too fast are thinned out, and their error is larger.
static void rest(int i) {
  if (i % 32 == 0) usleep(1000);
}

template <int size> struct Record {
  char data[size];
};

STAY void add_rows(int count) {
  for (int i = 0; i < count; i++, rest(i)) kept.push_back((new Record<8192>)->data);
  asm volatile("");
}
STAY void add_pages(int count) {
  for (int i = 0; i < count; i++, rest(i)) kept.push_back(static_cast<char *>(std::malloc(4096)));
  asm volatile("");
}
STAY void add_records(int count) {
  for (int i = 0; i < count; i++, rest(i)) kept.push_back((new Record<2048>)->data);
  asm volatile("");
}
STAY void add_large(int count) {
  for (int i = 0; i < count; i++, rest(i)) kept.push_back((new Record<32768>)->data);
  asm volatile("");
}
STAY void add_arrays(int count) {
  for (int i = 0; i < count; i++, rest(i)) kept.push_back(new char[1024]);
  asm volatile("");
}
STAY void pass_through(int count) {
  for (int i = 0; i < count; i++) {
    auto *text = new std::string(200000, 'x');
    asm volatile("" : : "r"(text) : "memory");
    delete text;
  }
  asm volatile("");
}
}  // namespace store

int main() {
  store::kept.reserve(20000);
  store::add_rows(2000);    // 16.4 MB
  store::add_pages(2700);    // 11.1 MB
  store::add_records(3500);  // 7.2 MB
  store::add_large(130);     // 4.3 MB
  store::add_arrays(2000);   // 2.0 MB
  store::pass_through(200);
  return 0;
}
