/* A library with faults of the heap, by their number, and what the runtimes of languages call it by. */
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

__attribute__((noinline)) static char *make_buffer(size_t size)
{
    char *buffer = malloc(size);
    memset(buffer, 'm', size);
    return buffer;
}

__attribute__((noinline)) static void drop_buffer(char *buffer)
{
    free(buffer);
    __asm__ volatile("");
}

__attribute__((noinline)) static void write_beyond(void)
{
    char *buffer = make_buffer(40);
    memcpy(buffer + 40, "XY", 2);
    drop_buffer(buffer);
}

__attribute__((noinline)) static void free_twice(void)
{
    char *buffer = make_buffer(40);
    drop_buffer(buffer);
    drop_buffer(buffer);
}

__attribute__((noinline)) static void write_freed(void)
{
    char *volatile buffer = make_buffer(40);
    drop_buffer(buffer);
    buffer[3] = 'X';
    for (int i = 0; i < 1000000; i++) {
        drop_buffer(make_buffer(40));
    }
}

/* So large that it loses its pages. */
__attribute__((noinline)) static int read_freed(void)
{
    char *volatile buffer = make_buffer(200000);
    drop_buffer(buffer);
    return buffer[3];
}

int plant(int fault)
{
    int seen = 0;
    if (fault == 0) {
        write_beyond();
    } else if (fault == 1) {
        free_twice();
    } else if (fault == 2) {
        write_freed();
    } else if (fault == 3) {
        seen = read_freed();
    }
    return seen;
}

/* Java: the native method of the class Plant. */
int Java_Plant_plant(void *environment, void *class, int fault)
{
    (void)environment;
    (void)class;
    return plant(fault);
}

/* Node: the few functions of its interface that an add-on of one function needs. */
typedef void *node_function(void *environment, void *call);
__attribute__((weak)) int napi_create_function(void *environment, const char *name, size_t length,
                                               node_function *function, void *data, void **made);
__attribute__((weak)) int napi_get_cb_info(void *environment, void *call, size_t *count,
                                           void **words, void **self, void **data);
__attribute__((weak)) int napi_get_value_int32(void *environment, void *value, int *number);

static void *node_plant(void *environment, void *call)
{
    void *words[1] = {NULL};
    size_t count = 1;
    int fault = -1;
    napi_get_cb_info(environment, call, &count, words, NULL, NULL);
    napi_get_value_int32(environment, words[0], &fault);
    plant(fault);
    return NULL;
}

void *napi_register_module_v1(void *environment, void *exports)
{
    napi_create_function(environment, "plant", 5, node_plant, NULL, &exports);
    return exports;
}

/* Python: what its interface needs of a module of one function, as its stable ABI has it. */
struct python_method {
    const char *name;
    void *(*function)(void *self, void *word);
    int flags;
    const char *help;
};

struct python_module {
    struct {
        ssize_t references;
        void *type;
        void *(*begin)(void);
        ssize_t index;
        void *copy;
    } base;
    const char *name;
    const char *help;
    ssize_t size;
    struct python_method *methods;
    void *slots, *traverse, *clear, *end;
};

enum { PYTHON_ONE_WORD = 8, PYTHON_ABI = 3 };
__attribute__((weak)) void *PyModule_Create2(struct python_module *module, int version);
__attribute__((weak)) long PyLong_AsLong(void *number);
__attribute__((weak)) void *PyLong_FromLong(long number);

static void *python_plant(void *self, void *fault)
{
    (void)self;
    return PyLong_FromLong(plant((int)PyLong_AsLong(fault)));
}

void *PyInit_plant(void)
{
    static struct python_method methods[] = {{"plant", python_plant, PYTHON_ONE_WORD, NULL}, {NULL}};
    static struct python_module module = {{1}, "plant", NULL, -1, methods};
    return PyModule_Create2(&module, PYTHON_ABI);
}

/* Ruby: a function of all objects. */
__attribute__((weak)) void rb_define_global_function(const char *name,
                                                     unsigned long (*function)(unsigned long self,
                                                                               unsigned long fault),
                                                     int words);
__attribute__((weak)) long rb_num2long(unsigned long number);
__attribute__((weak)) unsigned long rb_int2inum(long number);

static unsigned long ruby_plant(unsigned long self, unsigned long fault)
{
    (void)self;
    return rb_int2inum(plant((int)rb_num2long(fault)));
}

void Init_plant(void)
{
    rb_define_global_function("plant", ruby_plant, 1);
}
