// SPDX-License-Identifier: MIT
//
// Goroutines that build and free lists of C blocks, as bindings of C libraries do.
package main

// #include <stdlib.h>
// #include <string.h>
//
// struct node { struct node *next; char text[]; };
//
// static struct node *list_new(int count, int seed) {
//     struct node *list = NULL;
//     for (int i = 0; i < count; i++) {
//         size_t size = 8 + (size_t)(seed * 31 + i * 7919) % 400;
//         struct node *n = malloc(sizeof *n + size);
//         memset(n->text, i, size);
//         n->next = list;
//         list = n;
//     }
//     return list;
// }
//
// static int list_free(struct node *list) {
//     int count = 0;
//     while (list) {
//         struct node *next = list->next;
//         free(list);
//         list = next;
//         count++;
//     }
//     return count;
// }
import "C"

import (
	"os"
	"sync"
)

func main() {
	lists := make(chan *C.struct_node, 64)
	var makers, takers sync.WaitGroup
	freed := make([]int, 2)
	for w := 0; w < 2; w++ {
		makers.Add(1)
		takers.Add(1)
		go func(w int) {
			defer makers.Done()
			for i := 0; i < 12000; i++ {
				lists <- C.list_new(300, C.int(w*10000+i))
			}
		}(w)
		go func(w int) {
			defer takers.Done()
			for list := range lists {
				freed[w] += int(C.list_free(list))
			}
		}(w)
	}
	makers.Wait()
	close(lists)
	takers.Wait()
	if freed[0]+freed[1] != 2*12000*300 {
		os.Exit(1)
	}
}
