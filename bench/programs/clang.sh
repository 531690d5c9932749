# SPDX-License-Identifier: MIT
# clang++ with optimisation on templates of the standard library, of which each use makes new ones.
# LLVM's own allocators ask malloc for slabs of 4 KiB and more; its tables, strings and instructions
# come from malloc one by one.
# needs: clang++
# serves: clang
. "$PROGRAMS/lib.sh"

prepare() {
    {
        echo '#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Table {
    std::map<std::string, std::vector<int>> rows;
    std::unordered_map<int, std::unique_ptr<std::string>> names;
    int add(const std::string &key, int value) {
        auto &row = rows[key];
        row.push_back(value % (N + 1));
        std::sort(row.begin(), row.end(), [](int a, int b) { return a % N < b % N; });
        names[value] = std::make_unique<std::string>(key + std::to_string(N));
        return std::accumulate(row.begin(), row.end(), N);
    }
};'
        for i in $(seq 1 2 23); do
            echo "int use$i(std::variant<int, std::string> v) {
    static Table<$i> table;
    return std::visit([](auto &&x) {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, int>) return table.add(\"int\", x);
        else return table.add(x, (int)x.size());
    }, v);
}"
        done
    } >tables.cc
}

run() {
    under clang++ -std=c++17 -O1 -c tables.cc -o tables.o
    [ -s tables.o ]
}

"$1"
