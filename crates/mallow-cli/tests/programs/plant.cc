// One fault of the heap, by the number in the first argument.
#include <cstdlib>
#include <cstring>

__attribute__((noinline)) static char *make_buffer(std::size_t size)
{
    char *buffer = new char[size];
    std::memset(buffer, 'm', size);
    return buffer;
}

__attribute__((noinline)) static void drop_buffer(char *buffer)
{
    delete[] buffer;
    __asm__ volatile("");
}

__attribute__((noinline)) static void write_beyond()
{
    char *buffer = make_buffer(40);
    std::memcpy(buffer + 40, "XY", 2);
    drop_buffer(buffer);
}

__attribute__((noinline)) static void free_twice()
{
    char *buffer = make_buffer(40);
    drop_buffer(buffer);
    drop_buffer(buffer);
}

__attribute__((noinline)) static void write_freed()
{
    char *volatile buffer = make_buffer(40);
    drop_buffer(buffer);
    buffer[3] = 'X';
    for (int i = 0; i < 1000000; i++) {
        drop_buffer(make_buffer(40));
    }
}

__attribute__((noinline)) static int read_freed()
{
    char *volatile buffer = make_buffer(200000);
    drop_buffer(buffer);
    return buffer[3];
}

int main(int count, char **words)
{
    int fault = count > 1 ? std::atoi(words[1]) : -1;
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
