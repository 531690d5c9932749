// SPDX-License-Identifier: MIT
//! The catalogue of findings: `mallow help MLW2101` explains one. Ids are never used for something
//! else once they are released. 2xxx are those of `explain`, some of which
//! `advise` looks for too; 3xxx are those of `advise` alone, 4xxx those of `guard`.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct Entry {
    pub id: &'static str,
    pub title: &'static str,
    /// What it means, why it happens, what can be done, and how to check that it helped.
    pub text: &'static str,
}

pub const CATALOGUE: [Entry; 71] = [
    Entry {
        id: "MLW2101",
        title: "arenas of glibc reserve address space",
        text: "glibc gives threads arenas of their own, up to 8 for each CPU, and the first malloc \
of a thread, even of 8 bytes, reserves 64 MiB of address space for its arena. VIRT grows by that much; RSS \
does not, and nothing is lost but address space. It matters only with ulimit -v or \
vm.overcommit_memory=2. MALLOC_ARENA_MAX=2 in the environment (or \
GLIBC_TUNABLES=glibc.malloc.arena_max=2) bounds it, at the price of threads that wait for each other; \
another allocator avoids it: mallow run. Check: VIRT in the next explain.",
    },
    Entry {
        id: "MLW2102",
        title: "glibc keeps much free memory resident",
        text: "Blocks were freed, but blocks that are still in use lie between them or in front of \
the end of the heap, and glibc gives back only the end. malloc_trim(0), called by the program, gives back \
the whole free pages in between; explain counts them, so the gain is known beforehand. It comes back when \
the same pattern repeats. An allocator that returns pages by itself does this all the time: compare with \
mallow compare -- COMMAND. Check: free but resident in the next explain.",
    },
    Entry {
        id: "MLW2103",
        title: "the free end of glibc's heap is large",
        text: "The free memory lies at the end of the heap, where glibc gives it back as soon as it is \
larger than the trim threshold. That threshold starts at 128 KiB and grows to twice the largest block that \
was freed from a mapping of its own. GLIBC_TUNABLES=glibc.malloc.trim_threshold=131072 fixes it, for all \
arenas. malloc_trim(0) gives back the end of the main arena's heap at once, but never the ends of those of \
threads' arenas. Check: the top of the heap in the next explain.",
    },
    Entry {
        id: "MLW2104",
        title: "many threads share few arenas of glibc",
        text: "Threads that share an arena wait for each other in malloc and free when they use it at \
the same time. More arenas (GLIBC_TUNABLES=glibc.malloc.arena_max=N) cost memory; an allocator whose \
threads have heaps of their own does not have the problem. Check: mallow compare -- COMMAND.",
    },
    Entry {
        id: "MLW2105",
        title: "glibc counts the machine's CPUs, not the group's",
        text: "glibc allows 8 arenas for each CPU of the machine, whatever the control group's quota is. \
In a container with 2 of 64 CPUs that is 512 arenas, each with free memory of its own. \
MALLOC_ARENA_MAX=N with N about twice the quota keeps memory together. Check: the number of arenas in the \
next explain.",
    },
    Entry {
        id: "MLW2106",
        title: "one block size takes most of the heap",
        text: "Most bytes in use are blocks of one size. In a process that grows, this is the place to \
look for a leak or for a cache without a bound. mallow record and mallow report show who allocates them. \
The size is that of glibc's chunk: 8 bytes more than was asked for, rounded up to 16.",
    },
    Entry {
        id: "MLW2107",
        title: "many blocks are mappings of their own",
        text: "Blocks from the mmap threshold on (128 KiB at first) each get a mapping. Every one costs a \
call to the kernel at both ends and its first touch of each page. A program that allocates and frees such \
blocks often gains by GLIBC_TUNABLES=glibc.malloc.mmap_threshold=N, or by another allocator.",
    },
    Entry {
        id: "MLW2108",
        title: "free memory of glibc is pinned by blocks in use",
        text: "Much of the heap is free, but in pieces smaller than a page, between blocks that are \
still in use. No page is free as a whole, so malloc_trim gives back next to nothing, and the memory serves \
only new blocks of sizes that fit. It comes from a peak whose survivors are spread all over it, such as \
entries of a cache among what was needed for a moment. No setting of glibc helps. Allocate what lives long \
at another time or from another place than what does not; or an allocator that keeps sizes apart, which \
pins less: mallow compare -- COMMAND. Check: in use against RSS of the heap in the next explain.",
    },
    Entry {
        id: "MLW2201",
        title: "Mallow keeps free pages for reuse",
        text: "Pages that were freed stay resident for a while, because to get them anew would cost a \
page fault each. They go back along a curve over dirty_decay_ms (10 s) as long as the program calls the \
allocator now and then. MALLOW_CONF=dirty_decay_ms:1000 shortens it, 0 keeps nothing; \
MALLOW_CONF=purge_thread:true gives back also while the program makes no call. Check: dirty in the next \
explain, ten seconds later.",
    },
    Entry {
        id: "MLW2202",
        title: "Mallow's slabs are partly used",
        text: "Slots of one size share a slab, and a slab goes back only when all its slots are free. \
After a peak, long-lived blocks can keep many slabs alive. New blocks of those sizes use the free slots \
first, so the memory is not lost, but other sizes cannot use it. The table by class shows which sizes. \
The remedy is in the program: allocate what lives long apart from what does not.",
    },
    Entry {
        id: "MLW2203",
        title: "Mallow's threads keep large blocks",
        text: "Each thread keeps some of the pages that it freed last, because programs tend to ask for \
the same size again. Half a second later they are free for all threads, while any of them allocates, and \
then go back to the system like other free memory. mw_collect() gives them back at once.",
    },
    Entry {
        id: "MLW2301",
        title: "thread stacks take much address space",
        text: "Every thread reserves its whole stack, 8 MiB by default, of which only the touched part \
is resident. It matters only where address space is bounded. Smaller: ulimit -s before the start, or \
pthread_attr_setstacksize; Java: -Xss. Check: thread stacks in the next explain.",
    },
    Entry {
        id: "MLW2302",
        title: "huge pages may hold memory that is not used",
        text: "With transparent huge pages the kernel gives 2 MiB where the program touched one page, so \
RSS can be more than the program ever used. Where much of the heap is free and huge, \
/sys/kernel/mm/transparent_hugepage/enabled = madvise, or GLIBC_TUNABLES=glibc.malloc.hugetlb=0, gives it \
back at the price of more TLB misses. Where it is madvise already, the program or its allocator asks for them \
(MADV_HUGEPAGE; numpy: NUMPY_MADVISE_HUGEPAGE=0). Check: THP in the next explain.",
    },
    Entry {
        id: "MLW2303",
        title: "part of the process is swapped out",
        text: "Memory that is swapped out is used but not resident; RSS is too small by that much, and \
touching it again is slow. If it belongs to free memory of the heap, malloc_trim(0) or an allocator that \
gives memory back would have saved the writing.",
    },
    Entry {
        id: "MLW2304",
        title: "the number of mappings is near its limit",
        text: "A process may have vm.max_map_count mappings (65530 by default); beyond that mmap fails, and \
malloc returns NULL although memory is free. Raise it with sysctl vm.max_map_count=262144, or find who maps \
so many: the table of explain counts them by kind.",
    },
    Entry {
        id: "MLW2305",
        title: "RSS counts pages that are already given away",
        text: "Pages marked with MADV_FREE count as resident until the kernel needs them; it can take them \
at any time without writing. RSS is too large by that much. jemalloc: muzzy_decay_ms:0; Go: \
GODEBUG=madvdontneed=1.",
    },
    Entry {
        id: "MLW2306",
        title: "thread stacks hold much resident memory",
        text: "A stack grows with the deepest call and with large arrays on it, and what was touched \
once stays resident until the thread ends. With many threads that adds up. Fewer threads, or threads that \
end; arrays of hundreds of KiB from malloc instead of the stack; madvise(MADV_DONTNEED) below the stack \
pointer after a deep recursion. Check: RSS of thread stacks in the next explain.",
    },
    Entry {
        id: "MLW2307",
        title: "thread stacks lie in huge pages",
        text: "Where transparent huge pages are always on, a stack of 8 MiB may get a page of 2 MiB at \
its first touch, although the thread needs some KiB. RSS grows by up to 2 MiB for each thread. \
/sys/kernel/mm/transparent_hugepage/enabled = madvise, or \
GLIBC_TUNABLES=glibc.pthread.stack_hugetlb=0 (glibc 2.39 and later), avoids it; so does a stack size that \
is no multiple of 2 MiB. Check: THP of thread stacks in the next explain.",
    },
    Entry {
        id: "MLW2308",
        title: "the kernel may soon promise no more memory",
        text: "With vm.overcommit_memory=2 all that processes may write to counts when it is mapped, touched \
or not (Committed_AS of /proc/meminfo), against all swap and vm.overcommit_ratio hundredths of memory \
(CommitLimit). At the limit mmap and fork fail, and malloc returns NULL although memory is free. A larger \
vm.overcommit_ratio, more swap, or vm.overcommit_memory=0 raises it; fewer threads and arenas map less \
(MLW2101, MLW2301). Check: the next explain.",
    },
    Entry {
        id: "MLW2401",
        title: "malloc is served by an allocator that shows little",
        text: "The heap's size is known from its mappings, what is free inside is not. jemalloc: \
MALLOC_CONF=stats_print:true prints it at exit; mimalloc: MIMALLOC_SHOW_STATS=1; tcmalloc: MALLOCSTATS=1. \
glibc, Mallow and the usual builds of jemalloc are read in full.",
    },
    Entry {
        id: "MLW2402",
        title: "musl's allocator with many threads",
        text: "musl's malloc has one lock for all threads. Programs with several threads that allocate \
much can be many times slower than with another allocator. Mallow serves musl programs by preload: \
mallow compare -- COMMAND shows what it is worth.",
    },
    Entry {
        id: "MLW2403",
        title: "free pages that the allocator keeps resident",
        text: "Another allocator than glibc's or Mallow keeps pages that hold no block: it gives them back \
when some time has passed and the program calls it, which one at rest does not. jemalloc: \
background_thread:true gives them back without calls; mimalloc: mi_collect(true).",
    },
    Entry {
        id: "MLW2404",
        title: "free blocks between others that are in use",
        text: "The allocator has many free blocks in pages that hold blocks in use, so these pages cannot go \
back. Blocks that live long lie between those that do not. mallow record shows who allocates them.",
    },
    Entry {
        id: "MLW2501",
        title: "most memory is the runtime's own heap",
        text: "The heap of Java, Node.js, Go, Erlang or libgc (Guile) is not malloc's, nor are small objects of Python, and no \
allocator changes that. Java: -Xmx, \
-XX:+UseSerialGC for small heaps, jcmd PID VM.native_memory (started with \
-XX:NativeMemoryTracking=summary) for the rest; Node.js: --max-old-space-size; Go: GOGC, GOMEMLIMIT; Erlang: \
erlang:memory(); libgc: GC_MAXIMUM_HEAP_SIZE, GC_PRINT_STATS=1; Python: tracemalloc shows which lines hold the objects.",
    },
    Entry {
        id: "MLW2502",
        title: "most resident memory is files",
        text: "Pages of mapped files are shared with the page cache, and the kernel takes them when it \
needs memory. They count in RSS, but freeing heap would not help.",
    },
    Entry {
        id: "MLW2503",
        title: "much memory is shared with other processes",
        text: "RSS counts a shared page in every process that maps it; PSS counts its share. To add up \
processes, add PSS. Such as PostgreSQL's shared buffers, or workers that were forked from one parent.",
    },
    Entry {
        id: "MLW2504",
        title: "much memory is shared memory",
        text: "Memory that processes share by name (/dev/shm, memfd, System V) or by inheritance is no \
heap: it lives as long as somebody has it open or mapped, /dev/shm and System V even longer, and it is \
counted in RSS of everybody who touched it. PostgreSQL's shared_buffers, browsers' and databases' caches \
lie in it. Bound it where it is configured; ls /dev/shm and ipcs -m show what is left over. Check: shared \
memory in the next explain.",
    },
    Entry {
        id: "MLW2505",
        title: "Go keeps free pages resident",
        text: "Objects died and whole pages of Go's heap became free, but the runtime keeps some for the next \
cycle and gives the others back slowly, in the background: it keeps what it expects to need until the next \
collection ends, and a tenth more. GOMEMLIMIT=SIZE in the environment makes it give back as much as is needed to \
stay below that size; debug.FreeOSMemory() in the program collects and gives back everything at once, which \
is worth it after a peak that does not come again. A lower GOGC lets less garbage collect, at the price of time. \
Another malloc changes nothing. Check: the free pages in the next explain.",
    },
    Entry {
        id: "MLW3101",
        title: "many threads share few arenas of jemalloc",
        text: "Each arena of jemalloc has locks and lists of its own, and each thread is given \
an arena at its start; there are 4 for each CPU unless narenas says otherwise. Where threads \
that share one often meet at its locks, more arenas help: narenas:N, at about two threads each. \
Memory grows with them, for each keeps free pages and partly used slabs. Where few threads \
allocate most, give these an arena of their own instead (mallctl arenas.create, then \
thread.arena). A dump that was made at the end of a program has no threads any more: take one \
while it runs (stats_interval:1073741824,stats_interval_opts:J, or malloc_stats_print from a \
debugger). Check: waits and spins of mallow stats --locks.",
    },
    Entry {
        id: "MLW3102",
        title: "threads wait for jemalloc's list of retained pages",
        text: "Pages are looked for in the dirty list, then in the muzzy one, then in what is \
address space only (retained). Who gets there takes one more lock, and page faults follow. Pages \
that stay dirty or muzzy longer are found before: muzzy_decay_ms:10000, or dirty_decay_ms where \
that is 0. RSS shows more. -1 never gives memory back: a peak stays, and ends in an \
out-of-memory kill. Check: extents_retained of mallow stats --locks.",
    },
    Entry {
        id: "MLW3103",
        title: "threads wait for jemalloc's list of muzzy pages",
        text: "Pages that were given to the kernel with MADV_FREE are looked for after the dirty \
ones. A larger dirty_decay_ms keeps pages where they are looked for first. RSS follows a peak \
down more slowly; -1 never gives memory back. Check: extents_muzzy of mallow stats --locks.",
    },
    Entry {
        id: "MLW3104",
        title: "threads wait for jemalloc's list of dirty pages",
        text: "Every slab that is made or dropped takes its pages from this list or puts them \
there, under one lock of the arena. Deeper caches of threads (lg_tcache_nslots_mul) or larger \
slabs (slab_sizes, MLW3105) make that rarer. Each thread then keeps more free memory. Check: \
extents_dirty of mallow stats --locks.",
    },
    Entry {
        id: "MLW3105",
        title: "slabs of often used sizes hold few blocks",
        text: "jemalloc cuts blocks of 512, 1024, 2048 and 4096 bytes from slabs of one page, \
which hold 8, 4, 2 and 1 of them, and a cache of a thread holds twice as many blocks as a slab \
has, 20 at least. A program that uses many of them fills and flushes its caches all the time, \
and makes and drops slabs. slab_sizes:512-4096:16 gives slabs of 16 pages. At most one larger \
slab for each size and arena is partly free. Check: fills of mallow stats --classes.",
    },
    Entry {
        id: "MLW3106",
        title: "threads wait for the lock of one size",
        text: "All threads of an arena take blocks of one size under one lock. \
bin_shards:lo-hi:4 makes four of it, each with slabs of its own. Check: waits and spins of \
mallow stats --locks.",
    },
    Entry {
        id: "MLW3107",
        title: "caches of threads run empty often",
        text: "A cache holds twice as many blocks of a size as a slab has, between 20 and 200. A \
program that allocates many blocks before it frees them empties it, and each fill and flush \
takes a lock of the arena. lg_tcache_nslots_mul:2 doubles the depth, tcache_nslots_small_max:400 \
its bound. Each thread keeps more free memory. Check: fills of mallow stats --classes.",
    },
    Entry {
        id: "MLW3108",
        title: "large blocks pass by the caches of threads",
        text: "Caches hold blocks up to tcache_max, 32 KiB by default. Larger ones are split \
from free pages at each malloc and merged again at each free, under the arena's locks. \
tcache_max:262144 lets threads keep up to 20 of each size up to 256 KiB (up to 5.2: \
lg_tcache_max:18); from 5.3.1 on no setting makes caches hold more than 32 KiB, so such blocks are \
best used again in the program. mallow record and mallow report tell which sizes they are. Check: allocations \
of large blocks in the JSON of mallow stats.",
    },
    Entry {
        id: "MLW3109",
        title: "jemalloc gives free memory back at once",
        text: "With dirty_decay_ms:0 and muzzy_decay_ms:0 each free of a page is a call of \
madvise, and each new use of it a page fault, which costs hundreds of times what malloc costs. \
dirty_decay_ms:1000 keeps nearly all of the saving, 10000 is the default. Check: purges in the \
JSON of mallow stats, faults of mallow watch.",
    },
    Entry {
        id: "MLW3110",
        title: "jemalloc never gives free memory back",
        text: "A decay time of -1 keeps every free page for as long as the program runs. It \
saves calls to the kernel, but a peak stays for ever, and in a container it ends in an \
out-of-memory kill. A long time, such as 60000, saves nearly as much. Check: dirty of mallow \
stats.",
    },
    Entry {
        id: "MLW3111",
        title: "free pages stay, and no background thread gives them back",
        text: "jemalloc gives pages back when the program calls it, arena by arena. An arena \
whose threads rest keeps what is dirty. background_thread:true has threads of its own for that. \
Check: dirty of mallow stats after the decay time.",
    },
    Entry {
        id: "MLW3112",
        title: "jemalloc's slabs are partly used",
        text: "A slab goes back only when all its blocks are free. After a peak the survivors \
can hold many slabs, and each arena has slabs of its own for each size. Fewer arenas (narenas) \
fill them better, at the price of threads that meet at their locks; else allocate what lives \
long apart from what does not. Check: slabs and used of mallow stats --classes.",
    },
    Entry {
        id: "MLW3113",
        title: "jemalloc's caches of threads are off",
        text: "With tcache:false every call takes the lock of an arena. It was once a remedy for \
memory that caches keep; smaller caches (lg_tcache_nslots_mul:0, tcache_max) do that at less \
cost. Check: mallow compare.",
    },
    Entry {
        id: "MLW3114",
        title: "caches of threads hold much memory",
        text: "Each thread has a cache of each size up to tcache_max, and what lies in it serves \
nobody else. With many threads that adds up. lg_tcache_nslots_mul:0 halves the depth; a program \
can call mallctl thread.idle or thread.tcache.flush in threads that will rest. Check: cached of \
mallow stats.",
    },
    Entry {
        id: "MLW3115",
        title: "huge pages and giving memory back work against each other",
        text: "Where transparent huge pages are always on, giving back 4 KiB splits a page of 2 \
MiB; the kernel joins it again, and memory that was given back is resident anew. thp:never (from \
5.3.1 also for a system that says always), or a longer decay time with thp as it is. Check: THP \
of mallow explain.",
    },
    Entry {
        id: "MLW3201",
        title: "many threads share few arenas of Mallow",
        text: "Most calls take slots and pages that the thread's own heap has, and no lock. Beyond these a thread goes \
to its arena, whose locks it shares with the other threads there; new threads take the arenas in turn, of which \
there is one for each CPU. Where threads slept at such a lock for a twentieth of the CPU time, more arenas help: \
MALLOW_CONF=arenas:N, at about two threads each, 64 at most. Memory grows with them, for each keeps free pages \
and partly used slabs. Threads that exist keep their arena, so it is set at the start. Check: waits of mallow \
stats --locks.",
    },
    Entry {
        id: "MLW3202",
        title: "Mallow gives back memory that is needed again",
        text: "A page that went back to the kernel and is needed again costs a part of a call and a page fault. With \
a short dirty_decay_ms that happens to what a program uses every now and then. MALLOW_CONF=dirty_decay_ms:10000 is \
the default; where pages come again after longer than that, 60000. Memory of a peak then stays as long. \
What the program gives back itself (malloc_trim, mw_collect), or a limit does, no decay time keeps. Check: \
faults of mallow watch.",
    },
    Entry {
        id: "MLW3203",
        title: "free pages take the last room of a control group",
        text: "Mallow keeps free pages for dirty_decay_ms, for they are often needed again, and looks at the limit of \
its control group only where one of its own limits is a share of it. MALLOW_CONF=memory_soft_limit:90% gives free \
pages back the sooner the less room is left, all of them where the group has hardly any, and follows a limit that is \
changed. memory_limit:90% does the same, and refuses what would need more. With purge_thread:true that goes on \
while the program makes no call. Check: dirty in the next explain.",
    },
    Entry {
        id: "MLW3204",
        title: "Mallow is near its memory_limit",
        text: "What would need more than memory_limit gets NULL and ENOMEM, after all free pages have gone back. \
The blocks in use leave less than a tenth of it. Raise the limit, if there is memory for it, or let the program need \
less: mallow record and mallow report show who holds what. Check: active of mallow stats.",
    },
    Entry {
        id: "MLW3401",
        title: "Java's native memory beside its heap",
        text: "The heap that -Xmx bounds is not malloc's. Compression (zip, jar), JNI, compiled \
code and threads use malloc, and with glibc each of many threads may have an arena. \
MALLOC_ARENA_MAX=2, or another allocator by preload, often brings the native part down; the Java \
heap stays. jcmd PID VM.native_memory (with -XX:NativeMemoryTracking=summary) shows what is \
what. Check: mallow compare, mallow explain.",
    },
    Entry {
        id: "MLW3402",
        title: "Python's large objects and extensions use malloc",
        text: "pymalloc serves objects up to 512 bytes from arenas of its own. Larger ones, and \
extensions such as NumPy, call malloc. Another allocator changes only that part; \
PYTHONMALLOC=malloc gives it the small objects as well, which often costs time. \
PYTHONMALLOCSTATS=1 prints what pymalloc has. Check: mallow compare --matrix \
PYTHONMALLOC=pymalloc,malloc.",
    },
    Entry {
        id: "MLW3403",
        title: "threads of Ruby in many arenas of glibc",
        text: "Threaded Ruby programs on glibc can take twice the memory, for objects of all \
ages lie in the arenas of many threads. MALLOC_ARENA_MAX=2 helps most, jemalloc or Mallow more \
evenly: a published Rails application went from 234.58 to 177.34 MB on average with jemalloc. A \
Ruby that was built with jemalloc has -ljemalloc in RbConfig::CONFIG['MAINLIBS']. Check: mallow \
compare.",
    },
    Entry {
        id: "MLW3404",
        title: "Node.js's buffers and add-ons use malloc",
        text: "V8's heap is not malloc's; buffers outside of it, and native add-ons, are. glibc \
keeps much of what they free. Another allocator changes that part only. Check: mallow compare.",
    },
    Entry {
        id: "MLW3405",
        title: "a database server with many CPUs on glibc",
        text: "Gains of another allocator start above 8 CPUs, where connections wait for each \
other in glibc's arenas; jemalloc and tcmalloc gain alike. malloc-lib= of mysqld_safe, or \
LD_PRELOAD in the unit. Check: transactions a second under your own load.",
    },
    Entry {
        id: "MLW3406",
        title: "Redis without the jemalloc that it brings along",
        text: "Redis can pack its memory (CONFIG SET activedefrag yes) only with its own \
jemalloc. A build with libc malloc keeps what lies free between the keys. Check: mem_allocator \
and mem_fragmentation_ratio of INFO memory.",
    },
    Entry {
        id: "MLW4101",
        title: "a block was freed twice",
        text: "The block had been given to free, realloc or delete before. The second call may already concern a new block at the same place, whose owner then loses it. Look at both stacks: one of the two owners should not free, or the pointer has to be set to NULL after the first free. Check: mallow guard -- COMMAND ends without a finding.",
    },
    Entry {
        id: "MLW4102",
        title: "free was given a pointer into a block",
        text: "The pointer lies inside a block, behind its start: it was moved on while the block was worked on, or the block was made with a header of its own that belongs in front. Keep the pointer that malloc returned and free that. With C++: delete through a base class that is not the first needs a virtual destructor.",
    },
    Entry {
        id: "MLW4103",
        title: "free was given a pointer that no block can begin at",
        text: "Blocks begin at multiples of 16, and the pointer is none: it was moved on, or it was overwritten in part. Keep the pointer that malloc returned.",
    },
    Entry {
        id: "MLW4104",
        title: "free was given a pointer to memory that holds no block",
        text: "The pointer lies in the allocator's memory where no block begins, or begins any more: the pointer was computed, overwritten, or its block went back to the system since. Look at where it comes from in the stack that is shown.",
    },
    Entry {
        id: "MLW4105",
        title: "free was given memory that malloc never gave",
        text: "The pointer is to the stack, to a global variable, to a mapping, or came from another allocator, such as that of a library with a malloc of its own. Free it with the function that belongs to the one that made it.",
    },
    Entry {
        id: "MLW4106",
        title: "bytes behind a block were overwritten",
        text: "The program wrote beyond the end of the block: often a missing byte for the final zero of a string, a length in elements taken for one in bytes, or a loop that runs one too far. The stack of the allocation says which block; the place of the write is found by --mode debug where the block has a page of its own, or by a debugger's watchpoint on the damaged address.",
    },
    Entry {
        id: "MLW4107",
        title: "bytes in front of a block were overwritten",
        text: "The program wrote before the start of the block: a negative index, or a pointer that was moved back too far. The stack of the allocation says which block it was.",
    },
    Entry {
        id: "MLW4108",
        title: "a block was written to after it was freed",
        text: "Somebody kept a pointer to the block beyond its free, and wrote through it. The stack of the free says when the block ended; whoever still held the pointer then is at fault. In a program with threads it is often the other thread.",
    },
    Entry {
        id: "MLW4109",
        title: "a block was read after it was freed",
        text: "Somebody kept a pointer to the block beyond its free, and read through it. The stack of the access shows who, that of the free when the block ended.",
    },
    Entry {
        id: "MLW4110",
        title: "an access went beyond a block",
        text: "The access came to a page that guards a block: it was behind the block's end, or before its start. The stack of the access shows the line, that of the allocation the size that was asked for.",
    },
    Entry {
        id: "MLW4111",
        title: "a block was freed with another size than it has",
        text: "free_sized or a sized delete was told a size that is not the block's. With C++ that is a delete through a pointer to another type, or a class without a virtual destructor; -Wdelete-non-virtual-dtor finds the latter when the program is compiled.",
    },
    Entry {
        id: "MLW4112",
        title: "a block was freed with another alignment than it has",
        text: "An aligned delete was told an alignment that the block was not made with, or an aligned block was deleted without one. Types with alignas have to be complete where they are deleted.",
    },
    Entry {
        id: "MLW4113",
        title: "a block was freed by another family of functions",
        text: "What new made has to be deleted by delete, what new[] made by delete[], and what malloc made by free. They happen to fit in many allocators, and not in others; destructors do not run, or run once instead of for each element.",
    },
    Entry {
        id: "MLW4114",
        title: "the list of free blocks was overwritten",
        text: "A free block does not hold what the allocator wrote into it: somebody wrote to it after its free, or far beyond the end of the block before it. mallow guard --mode debug -- COMMAND finds which, with the stacks.",
    },
    Entry {
        id: "MLW4115",
        title: "there was no memory",
        text: "The program asked for memory that there is none of, and the option xmalloc says that it should end then. Look at the size in the sentence, and at the limits: ulimit -v, the control group, memory_limit.",
    },
    Entry {
        id: "MLW4116",
        title: "the allocator's own records are damaged",
        text: "A record of the allocator is not what it can be. Far writes through wild pointers do that; if mallow guard --mode debug finds nothing before, it may be a fault of Mallow: please report it.",
    },
    Entry {
        id: "MLW4117",
        title: "blocks were never freed, and nothing points to them",
        text: "When the program ended, no variable, stack, register or block that is still in use held the address of these blocks. A direct leak is pointed to by nothing; an indirect one by leaked blocks only, and ends with them. The stack of the allocation says which blocks they are. What is meant to stay for ever is named in a file of suppressions: leak:FUNCTION, with --suppressions FILE. mallow record and mallow report show when they were made.",
    },
    Entry {
        id: "MLW4118",
        title: "the heap was misused",
        text: "See the sentence and the stack: the call was not one that the interface allows. Where glibc's own checks do not tell what it was, mallow guard --mode debug -- COMMAND does.",
    },
];

pub fn find(id: &str) -> Option<&'static Entry> {
    CATALOGUE.iter().find(|entry| entry.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_explained() {
        for (index, entry) in CATALOGUE.iter().enumerate() {
            assert!(CATALOGUE[..index].iter().all(|other| other.id < entry.id), "{}", entry.id);
            assert!(!entry.title.is_empty() && !entry.text.is_empty(), "{}", entry.id);
        }
        assert_eq!(find("mlw2101").map(|entry| entry.id), Some("MLW2101"));
        assert!(find("MLW9999").is_none());
    }
}
