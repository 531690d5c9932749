/* Allocates as its build says: ITEMS in make_item, LEAKED of them never freed, RANDOM more in
   guess, in THREADS threads beside. SHIFTED moves code and lines. COPIED: one for each variable too. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SHIFTED
__attribute__((noinline)) int not_used_before(int n)
{
	for (int i = 0; i < 1000; i++) {
		n = n * 31 + i;
		__asm__ volatile("" : "+r"(n));
	}
	return n;
}
#endif

static void *items[ITEMS];

__attribute__((noinline)) void *make_item(int n)
{
	void *item = malloc(100 + (size_t)n % 10);
	__asm__ volatile("" : : "r"(item) : "memory");
	return item;
}

__attribute__((noinline)) void load(void)
{
	for (int i = 0; i < ITEMS; i++)
		items[i] = make_item(i);
}

__attribute__((noinline)) void guess(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	for (long i = now.tv_nsec / 1000 % 400 + 1; i > 0; i--)
		free(make_item(0));
}

#ifdef COPIED
extern char **environ;

__attribute__((noinline)) void copy_environment(void)
{
	for (char **variable = environ; *variable != NULL; variable++)
		free(strdup(*variable));
}
#endif

static void *run(void *nothing)
{
	for (int i = 0; i < 100; i++)
		free(make_item(i));
	return nothing;
}

int main(void)
{
#ifdef SHIFTED
	if (not_used_before(1) == 0)
		return 1;
#endif
#ifdef COPIED
	copy_environment();
#endif
	pthread_t threads[THREADS + 1];
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, NULL) != 0)
			return 1;
	load();
	if (RANDOM)
		guess();
	for (int i = 0; i < ITEMS - LEAKED; i++)
		free(items[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
