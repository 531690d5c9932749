# SPDX-License-Identifier: MIT
# The Java compiler on forty classes: Java's objects live in the machine's own heap; its just-in-time
# compilers, class metadata tables and archives in malloc.
# needs: javac
# serves: javac
. "$PROGRAMS/lib.sh"

prepare() {
    for i in $(seq 40); do
        cat >"C$i.java" <<END
import java.util.*;
import java.util.stream.*;
public class C$i {
    record Pair(int key, String value) {}
    static Map<Integer, List<Pair>> group(List<Pair> pairs) {
        return pairs.stream().filter(p -> p.key() > $i).collect(Collectors.groupingBy(Pair::key));
    }
    public static void main(String[] arguments) {
        var pairs = IntStream.range(0, 1000).mapToObj(i -> new Pair(i % $i, "v" + i)).toList();
        System.out.println(group(pairs).size());
    }
}
END
    done
    mkdir -p out
}

run() {
    under javac -d out C*.java
}

"$1"
