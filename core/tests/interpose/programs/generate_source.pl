# SPDX-License-Identifier: MIT
# Prints a large C or C++ source, always the same one: generate_source.pl c|c++
use strict;
use warnings;

my $cxx = ($ARGV[0] // 'c') eq 'c++';
if ($cxx) {
    print "#include <map>\n#include <memory>\n#include <string>\n#include <vector>\n";
    for my $i (0 .. 25) {
        print <<"END";
struct item$i { int key; std::string text; std::vector<std::shared_ptr<item$i>> parts; };
int count$i(const std::map<int, item$i> &table, const std::string &wanted) {
    int found = $i;
    for (const auto &[key, item] : table) {
        if (item.text.find(wanted) != std::string::npos) found += key ^ $i;
        for (const auto &part : item.parts) found += part->key * ${\($i + 3)};
    }
    return found;
}
END
    }
} else {
    for my $i (0 .. 300) {
        print <<"END";
struct s$i { int a[${\($i % 13 + 2)}]; double d; const char *name; };
static int table${i}[] = { ${\join(', ', map { ($_ * 7919 + $i) % 1000 } 1 .. 40)} };
int f$i(struct s$i *s, int n) {
    int total = 0;
    for (int i = 0; i < n; i++) {
        switch (s[i].a[0] & 7) {
        case 0: total += table${i}[i % 40]; break;
        case 1: total ^= s[i].a[1] * ${\($i + 1)}; break;
        case 2: s[i].d *= 1.5; total++; break;
        case 3: total -= s[i].name[i & 3]; break;
        default: total += i << ${\($i % 5)}; break;
        }
    }
    return total;
}
END
    }
}
