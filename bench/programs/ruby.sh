# SPDX-License-Identifier: MIT
# Ruby: strings, hashes, arrays and symbols; objects over 40 bytes come from malloc.
# needs: ruby
# serves: ruby
. "$PROGRAMS/lib.sh"

prepare() {
    cat >objects.rb <<'END'
srand(12345)
words = Array.new(30000) { |i| "word number #{i} " * (1 + i % 5) }
count = Hash.new(0)
8.times { words.each { |w| w.split.each { |part| count[part] += 1 } } }
table = {}
100000.times { |i| table["key #{rand(20000)}"] = "value #{i}" * (i % 9 + 1) }
tree = Array.new(2000) { |i| Array.new(i % 50) { |j| { j => "x" * (j * 10) } } }
5.times { tree.shuffle!(random: Random.new(1)); tree[0, 1000] = Array.new(1000) { |i| ["y" * i] } }
text = +""
100000.times { |i| text << "line #{i}\n" }
abort "wrong" unless count["number"] == 720000 && text.lines.size == 100000
END
}

run() {
    under ruby --disable-gems objects.rb
}

"$1"
