/* SPDX-License-Identifier: MIT
 *
 * Doubly linked lists.
 */
#include "unit.h"

TEST(list_keeps_order)
{
    struct link head = {0}, members[10] = {0};
    CHECK(list_is_empty(&head));
    for (int i = 0; i < 10; i++) {
        list_push_back(&head, &members[i]);
    }
    int index = 0;
    for (struct link *at = list_first(&head); at != &head; at = at->next) {
        CHECK(at == &members[index++]);
        CHECK(at->next->prev == at && at->prev->next == at);
    }
    CHECK_EQ(index, 10);
}

TEST(list_remove_from_all_places)
{
    for (int removed = 0; removed < 3; removed++) {
        struct link members[3] = {0};
        struct link head = {0};
        for (int i = 2; i >= 0; i--) {
            list_push_front(&head, &members[i]);
        }
        list_remove(&members[removed]);
        CHECK(members[removed].next == NULL && members[removed].prev == NULL);
        int left = 0;
        for (struct link *at = list_first(&head); at != &head; at = at->next) {
            CHECK(at != &members[removed]);
            left++;
        }
        CHECK_EQ(left, 2);
    }
}
