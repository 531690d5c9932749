/* SPDX-License-Identifier: MIT
 *
 * A static program that never frees gets musl's own small malloc, and nothing of Mallow.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *allocate(void *argument)
{
    (void)argument;
    return malloc(100);
}

int main(void)
{
    pthread_t thread;
    void *block = NULL;
    return malloc(10) == NULL || calloc(3, 5) == NULL ||
           pthread_create(&thread, NULL, allocate, NULL) != 0 ||
           pthread_join(thread, &block) != 0 || block == NULL || puts("done") < 0;
}
