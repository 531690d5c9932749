# SPDX-License-Identifier: MIT
# g++ on a large file: standard library templates and fifteen classes of its own.
# needs: g++
# serves: cc1plus
. "$PROGRAMS/lib.sh"

prepare() {
    {
        echo '#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>'
        for i in $(seq 15); do
            echo "struct S$i { int a; std::string b; std::vector<int> c; };
std::map<std::string, S$i> m$i;
int f$i(const std::string &k) {
    auto &s = m$i[k];
    s.c.push_back($i);
    std::sort(s.c.begin(), s.c.end(), [](int x, int y) { return x % $i < y % $i; });
    std::function<int(int)> g = [&](int x) { return x + s.a; };
    return g((int)s.b.size());
}"
        done
        echo 'int main() { return std::regex_match("abc", std::regex("a.*")) ? f1("x") : f2("y"); }'
    } >large.cc
}

run() {
    under g++ -std=c++17 -O0 -c large.cc -o large.o
}

"$1"
