/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a block as fibers, and the part of CUDA's runtime that cuda/ calls, with streams that execute work at
 * once. Every operating-system thread has fibers of its own. */
#include "emulate.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>

namespace emulate
{

thread_local place now;

enum { RUBBISH = 0xff }; /* NaN, as floats */
static const size_t STACK = 192 << 10;

struct warp {
    uint32_t there, ready, polling, exchanging, at_barrier, at_phase; /* masks of lanes */
    uint32_t through; /* lanes whose wait for a phase is over; they resume after all ready lanes have reached theirs */
    int registers;
    uint64_t given[LANES];
};

/* A tensor map in the format of this copy engine. */
struct map_of {
    uint64_t magic;
    char *base;
    uint64_t stride[2], size[3];
    uint32_t box[3], element;
};
static const uint64_t MAGIC = 0x70616d726f736e65;
static_assert(sizeof(map_of) <= sizeof(CUtensorMap), "a tensor map is 128 bytes");

/* A request to the copy engine: contiguous bytes, or a box of `map` if `from` is NULL. */
struct request {
    char *to;
    const char *from;
    size_t bytes;
    map_of map;
    int64_t at[3];
    void *full;
};

/* Shared memory, which kernels address with 32 bits, with a margin of rubbish on either side. */
enum { EDGE = 1024, FRONT = 4096, SHARED = 256 << 10 };

/* The block that is running. */
struct block {
    std::vector<thread> threads;
    std::vector<warp> warps;
    std::vector<request> requests;
    char *memory, *stacks;
    size_t n_stacks, shared;
    void *scheduler;
    const void *function;
    const std::function<void()> *kernel;
    int n, left, waiting, any, result;
    bool reversed; /* warps run in reverse order, and the thread whose arrival ends a phase resumes last; else the lanes
                    * of a warp run in reverse order */
    bool moved;    /* a thread has made progress other than polling */
    bool passed;   /* the warp's turn is over */

    ~block()
    {
        if (memory)
            munmap(memory, SHARED);
        if (stacks)
            munmap(stacks, n_stacks * STACK);
    }
};
static thread_local block b;

/* Returns the name of a kernel, from the symbol table of its library: dladdr() only finds exported symbols. */
static std::string name_of(const void *f)
{
    Dl_info in;
    std::string name = "?";
    FILE *const file = dladdr(f, &in) ? fopen(in.dli_fname, "rb") : NULL;
    if (!file)
        return name;
    std::vector<char> all;
    char part[1 << 16];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;)
        all.insert(all.end(), part, part + n);
    fclose(file);
    const Elf64_Ehdr *const head = (const Elf64_Ehdr *)all.data();
    const Elf64_Shdr *const section = (const Elf64_Shdr *)(all.data() + head->e_shoff);
    const uint64_t at = (uint64_t)((const char *)f - (const char *)in.dli_fbase);
    for (int i = 0; i < head->e_shnum; i++) {
        if (section[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *const symbol = (const Elf64_Sym *)(all.data() + section[i].sh_offset);
        for (size_t k = 0; k < section[i].sh_size / sizeof *symbol; k++)
            if (symbol[k].st_value == at && ELF64_ST_TYPE(symbol[k].st_info) == STT_FUNC)
                name = all.data() + section[section[i].sh_link].sh_offset + symbol[k].st_name;
    }
    int status;
    char *const plain = abi::__cxa_demangle(name.c_str(), NULL, NULL, &status);
    if (plain)
        name = plain;
    free(plain);
    size_t end = 0; /* end of the name without its parameters */
    for (int depth = 0; end < name.size(); end++) {
        depth += (name[end] == '<') - (name[end] == '>');
        if (!depth && name[end] == '(' && name.compare(end, 21, "(anonymous namespace)"))
            break;
    }
    return name.substr(0, end);
}

void die(const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (b.function)
        fprintf(stderr, "emulated device: %s: %s\n", name_of(b.function).c_str(), text);
    else
        fprintf(stderr, "emulated device: %s\n", text);
    abort();
}

/* ---- scheduling ---- */

/* Switches stacks; the callee-saved registers are on top of both. */
extern "C" void emulate_switch(void **from, void *to);
asm(".text\n"
    ".type emulate_switch,@function\n"
    "emulate_switch:\n"
    "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, (%rdi)\n"
    "mov %rsi, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
    "ret\n"
    ".size emulate_switch, .-emulate_switch\n");
enum { KEPT = 6 };

static warp *own(uint32_t *lane)
{
    *lane = 1u << now.at->lane;
    return &b.warps[now.at->warp];
}

/* Suspends the thread until its lane is `ready` (or `polling`), unless it is ready already. */
static void leave()
{
    uint32_t lane;
    warp *const w = own(&lane);
    if (w->ready & lane)
        w->ready &= ~lane;
    else
        emulate_switch(&now.at->stack, b.scheduler);
}

void yield()
{
    uint32_t lane;
    own(&lane)->polling |= lane;
    leave();
}

/* On a reversed device, runs all other warps before any lane of this one resumes: a lane of it may still have to read
 * what the arrival has just released. */
static void pass()
{
    if (!b.reversed)
        return;
    uint32_t lane;
    own(&lane)->ready |= lane;
    b.passed = b.moved = true;
    emulate_switch(&now.at->stack, b.scheduler);
}

/* Completes exchanges of lanes whose partners have all arrived; lanes that have ended do not count. */
static void release_lanes(int w)
{
    warp *const all = &b.warps[w];
    thread *const lane = &b.threads[w * LANES];
    for (uint32_t rest = all->exchanging; rest; rest &= rest - 1) {
        const int i = __builtin_ctz(rest);
        const uint32_t partners = lane[i].mask & all->there;
        if (!(all->exchanging >> i & 1) || (all->exchanging & partners) != partners)
            continue;
        for (int k = 0; k < LANES; k++) {
            if (!(partners >> k & 1))
                continue;
            if (lane[k].mask != lane[i].mask)
                die("lanes of a warp exchange with different masks");
            memcpy(lane[k].got, all->given, sizeof all->given);
        }
        all->ready |= partners;
        all->exchanging &= ~partners;
    }
}

static void release_barrier()
{
    if (!b.left || b.waiting < b.left)
        return;
    b.result = b.any;
    b.any = b.waiting = 0;
    for (warp &w : b.warps) {
        w.ready |= w.at_barrier;
        w.at_barrier = 0;
    }
}

void exchange(uint32_t mask, uint64_t value)
{
    thread *const t = now.at;
    uint32_t lane;
    warp *const w = own(&lane);
    if (!(mask & lane))
        die("a lane is not in its own mask");
    w->given[t->lane] = value;
    w->exchanging |= lane;
    t->mask = mask;
    b.moved = true;
    release_lanes(t->warp);
    leave();
}

int barrier(int value)
{
    uint32_t lane;
    own(&lane)->at_barrier |= lane;
    b.any |= value;
    b.waiting++;
    b.moved = true;
    release_barrier();
    leave();
    return b.result;
}

static void fiber()
{
    (*b.kernel)();
    uint32_t lane;
    own(&lane)->there &= ~lane;
    b.left--;
    b.moved = true;
    release_lanes(now.at->warp);
    release_barrier();
    leave();
    die("a thread that has ended goes on");
}

/* ---- asynchronous copies ---- */

void check_shared(const void *p, size_t bytes, size_t align, const char *what)
{
    const char *const from = (const char *)p;
    if (from < now.shared || from + bytes > now.shared + b.shared)
        die("%s of %zu bytes at %td of the %zu bytes of shared memory", what, bytes, from - now.shared, b.shared);
    if ((uintptr_t)p % align)
        die("%s at %td of shared memory is not aligned to %zu bytes", what, from - now.shared, align);
}

void copy_later(void *to, const void *from, size_t bytes)
{
    if ((bytes != 4 && bytes != 8 && bytes != 16) || ((uintptr_t)to | (uintptr_t)from) % bytes)
        die("a copy of %zu bytes from %p to %p", bytes, from, to);
    memset(to, RUBBISH, bytes);
    now.at->copies.push_back({to, from, bytes});
}

void close_copies()
{
    now.at->closed.push_back(now.at->copies.size());
}

void await_copies(int left)
{
    thread *const t = now.at;
    if (t->closed.size() <= (size_t)left)
        return;
    const size_t groups = t->closed.size() - (size_t)left, n = t->closed[groups - 1];
    for (size_t i = 0; i < n; i++)
        memcpy(t->copies[i].to, t->copies[i].from, t->copies[i].bytes);
    t->copies.erase(t->copies.begin(), t->copies.begin() + (ptrdiff_t)n);
    t->closed.erase(t->closed.begin(), t->closed.begin() + (ptrdiff_t)groups);
    for (size_t &end : t->closed)
        end -= n;
}

/* The 64 bits of a barrier in shared memory. */
struct phases {
    uint64_t valid : 2, parity : 1, expected : 20, missing : 20;
    int64_t bytes : 21;
};
static_assert(sizeof(phases) == 8, "a barrier has 64 bits");
enum { VALID = 1, MOST = (1 << 20) - 1 };

static phases get(const void *at)
{
    phases p;
    check_shared(at, sizeof p, sizeof p, "a barrier");
    memcpy(&p, at, sizeof p);
    if (p.valid != VALID)
        die("what is at %td of shared memory is no barrier", (const char *)at - now.shared);
    return p;
}

/* Stores a barrier and wakes the lanes that wait for it. True if a phase is over. */
static bool put(void *at, phases p)
{
    const bool over = !p.missing && !p.bytes;
    if (over) {
        p.parity ^= 1;
        p.missing = p.expected;
    }
    memcpy(at, &p, sizeof p);
    for (size_t w = 0; over && w < b.warps.size(); w++) {
        uint32_t released = 0;
        for (uint32_t rest = b.warps[w].at_phase; rest; rest &= rest - 1) {
            const thread &t = b.threads[w * LANES + (size_t)__builtin_ctz(rest)];
            if (t.phased == at && t.parity != p.parity)
                released |= rest & -rest;
        }
        b.warps[w].at_phase &= ~released;
        b.warps[w].through |= released;
    }
    return over;
}

static phases bytes_more(phases p, int64_t bytes)
{
    const int64_t sum = p.bytes + bytes;
    if (sum < -MOST || sum > MOST)
        die("a barrier cannot wait for %lld bytes", (long long)sum);
    p.bytes = sum;
    return p;
}

static void arrive(void *at, phases p)
{
    if (!p.missing)
        die("more arrive at a barrier than it waits for");
    p.missing--;
    if (put(at, p))
        pass();
}

void phases_init(void *at, int arrivals)
{
    const phases p = {VALID, 0, (uint64_t)arrivals, (uint64_t)arrivals, 0};
    check_shared(at, sizeof p, sizeof p, "a barrier");
    if (arrivals < 1 || arrivals > MOST)
        die("a barrier for %d", arrivals);
    memcpy(at, &p, sizeof p);
}

void phases_arrive(void *at)
{
    arrive(at, get(at));
}

void phases_expect(void *at, int bytes)
{
    arrive(at, bytes_more(get(at), bytes));
}

void phases_wait(void *at, unsigned parity)
{
    if (parity > 1)
        die("%u is no parity of a phase", parity);
    const bool over = get(at).parity != parity;
    uint32_t lane;
    warp *const w = own(&lane);
    (over ? w->through : w->at_phase) |= lane;
    now.at->phased = at;
    now.at->parity = parity;
    b.moved = true;
    leave();
}

static void ask(const request &r)
{
    get(r.full);
    memset(r.to, RUBBISH, r.bytes);
    b.requests.push_back(r);
}

void copy_bulk(void *to, const void *from, size_t bytes, void *full)
{
    check_shared(to, bytes, 16, "a bulk copy");
    if ((uintptr_t)from % 16 || bytes % 16 || !bytes)
        die("a bulk copy of %zu bytes from %p", bytes, from);
    ask({(char *)to, (const char *)from, bytes, {}, {}, full});
}

void copy_box(void *to, const CUtensorMap *map, int x, int y, int z, void *full)
{
    request r = {(char *)to, NULL, 0, {}, {x, y, z}, full};
    memcpy(&r.map, map, sizeof r.map);
    if ((uintptr_t)map % 64 || r.map.magic != MAGIC)
        die("no tensor map at %p", (const void *)map);
    if (x * (int64_t)r.map.element % 16)
        die("a box that begins %lld bytes into a row: expected a multiple of 16", (long long)x * (long long)r.map.element);
    r.bytes = (size_t)r.map.box[0] * r.map.box[1] * r.map.box[2] * r.map.element;
    check_shared(to, r.bytes, 128, "a box");
    ask(r);
}

/* Performs a request and arrives at its barrier. Elements outside the tensor are 0. */
static void perform(const request &r)
{
    const map_of &m = r.map;
    if (r.from)
        memcpy(r.to, r.from, r.bytes);
    char *to = r.to;
    for (int64_t i = 0; !r.from && i < (int64_t)m.box[2] * m.box[1]; i++) {
        const int64_t y = r.at[1] + i % m.box[1], z = r.at[2] + i / m.box[1];
        const bool row = y >= 0 && y < (int64_t)m.size[1] && z >= 0 && z < (int64_t)m.size[2];
        const char *const from = m.base + (row ? z * (int64_t)m.stride[1] + y * (int64_t)m.stride[0] : 0);
        for (int64_t x = r.at[0]; x < r.at[0] + m.box[0]; x++, to += m.element)
            if (row && x >= 0 && x < (int64_t)m.size[0])
                memcpy(to, from + x * m.element, m.element);
            else
                memset(to, 0, m.element);
    }
    put(r.full, bytes_more(get(r.full), -(int64_t)r.bytes));
}

/* ---- a block ---- */

enum { REGISTERS = 65536 };

void set_registers(int n)
{
    exchange(~0u, 0);
    if (n < 24 || n > 256 || n % 8)
        die("a thread cannot have %d registers", n);
    b.warps[now.at->warp].registers = n;
}

/* Fails if the warps together want more registers than the block was launched with, taken here as the maximum. */
static void check_registers()
{
    const int share = REGISTERS / (int)b.warps.size() / LANES / 8 * 8, most = LANES * share * (int)b.warps.size();
    int all = 0;
    bool set = false;
    for (const warp &w : b.warps) {
        set |= w.registers;
        all += LANES * (w.registers ? w.registers : share);
    }
    if (set && all > most)
        die("the threads of a block want %d registers of %d", all, most);
}

static void run_lane(int w, uint32_t *of)
{
    const int lane = b.reversed ? __builtin_ctz(*of) : 31 - __builtin_clz(*of);
    *of &= ~(1u << lane);
    now.at = &b.threads[w * LANES + lane];
    emulate_switch(&b.scheduler, now.at->stack);
}

/* Runs a warp as far as it can go, and each polling lane once. Returns the number of the latter. */
static int run_warp(int i)
{
    warp *const w = &b.warps[i];
    uint32_t again = w->polling;
    int looked = 0;
    w->polling = 0;
    b.passed = false;
    while (!b.passed && (w->ready | w->through | again)) {
        if (!w->ready) {
            w->ready = w->through;
            w->through = 0;
        }
        const bool fresh = w->ready != 0;
        b.moved |= fresh;
        looked += !fresh;
        run_lane(i, fresh ? &w->ready : &again);
    }
    w->polling |= again;
    return looked;
}

static void run_block()
{
    static const int PATIENCE = 1 << 20; /* polls of each thread before a deadlock is reported */
    const dim3 size = now.threads;
    const int n = (int)b.warps.size();
    int looked = 0;
    b.left = b.n;
    b.waiting = b.any = 0;
    for (warp &w : b.warps)
        w = {};
    for (int i = 0; i < b.n; i++) {
        const unsigned u = (unsigned)i;
        thread *const t = &b.threads[i];
        t->index = {u % size.x, u / size.x % size.y, u / size.x / size.y};
        t->lane = i % LANES;
        t->warp = i / LANES;
        t->copies.clear();
        t->closed.clear();
        b.warps[t->warp].there |= 1u << t->lane;
        b.warps[t->warp].ready |= 1u << t->lane;
        /* the stack of a call of fiber(): 8 bytes below a multiple of 16 */
        void **top = (void **)(b.stacks + (size_t)(i + 1) * STACK) - 1;
        *--top = (void *)fiber;
        for (int k = 0; k < KEPT; k++)
            *--top = NULL;
        t->stack = top;
    }
    while (b.left) {
        int looks = 0;
        b.moved = false;
        for (int i = 0; i < n; i++)
            looks += run_warp(b.reversed ? n - 1 - i : i);
        looked = b.moved ? 0 : looked + 1;
        if (b.moved)
            continue;
        if (!b.requests.empty()) {
            const auto r = b.reversed ? b.requests.end() - 1 : b.requests.begin();
            const request one = *r;
            b.requests.erase(r);
            perform(one);
        } else if (!looks || looked > PATIENCE) {
            int lanes[3] = {0, 0, 0};
            for (const warp &w : b.warps) {
                lanes[0] += __builtin_popcount(w.at_barrier);
                lanes[1] += __builtin_popcount(w.at_phase);
                lanes[2] += __builtin_popcount(w.exchanging);
            }
            die("the %d threads that are left of a block wait for ever: %d at __syncthreads, %d for barriers in shared "
                "memory, %d for lanes, %d for published words", b.left, lanes[0], lanes[1], lanes[2], looks);
        }
    }
    if (!b.requests.empty())
        die("a block ends before its requests to the copy engine are complete");
    check_registers();
}

/* ---- launches ---- */

static thread_local int current;
static thread_local cudaError_t last;
static std::mutex lock;
/* bytes of shared memory allowed for a kernel on a device */
static std::map<std::pair<int, const void *>, int> allowed;

enum { PLAIN = 48 << 10 }; /* bytes of shared memory that are allowed by default */

static cudaError_t told(cudaError_t e)
{
    if (e != cudaSuccess)
        last = e;
    return e;
}

static int capability()
{
    const char *const given = getenv("EMULATED_CAPABILITY");
    if (given && strcmp(given, "8") && strcmp(given, "9"))
        die("EMULATED_CAPABILITY is 8 or 9, not '%s'", given);
    return given ? atoi(given) : 8;
}

static int shared_most()
{
    return (capability() == 9 ? 227 : 99) << 10; /* 8.0 has 163, but 8.6 and others that run its code have 99 */
}

static int shared_allowed(const void *f)
{
    const std::lock_guard<std::mutex> hold(lock);
    const auto found = allowed.find({current, f});
    return found == allowed.end() ? PLAIN : found->second;
}

/* Returns the number of a device if all devices were visible. */
static int number_of(int device)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; at && i < device; i++) {
        at = strchr(at, ',');
        at += at != NULL;
    }
    return at && *at >= '0' && *at <= '9' ? atoi(at) : device;
}

static void log(const cudaLaunchConfig_t *c, const void *f)
{
    const char *const path = getenv("EMULATED_LOG");
    if (!path)
        return;
    const std::lock_guard<std::mutex> hold(lock);
    static std::map<const void *, std::string> names;
    std::string &name = names[f];
    if (name.empty())
        name = name_of(f);
    FILE *const file = fopen(path, "a");
    if (!file)
        die("cannot write %s", path);
    fprintf(file, "%s grid %ux%ux%u block %ux%ux%u shared %zu device %d\n", name.c_str(), c->gridDim.x, c->gridDim.y,
            c->gridDim.z, c->blockDim.x, c->blockDim.y, c->blockDim.z, c->dynamicSmemBytes, number_of(current));
    fclose(file);
}

static char *reserve(size_t bytes, int flags)
{
    void *const p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (p == MAP_FAILED)
        die("no memory for the threads of a block");
    return (char *)p;
}

static bool is_rubbish(const char *p, size_t n)
{
    while (n && (unsigned char)*p == RUBBISH)
        p++, n--;
    return !n;
}

cudaError_t launch(const cudaLaunchConfig_t *c, const void *f, const std::function<void()> &kernel)
{
    const dim3 n = c->gridDim, t = c->blockDim;
    const uint64_t blocks = (uint64_t)n.x * n.y * n.z, threads = (uint64_t)t.x * t.y * t.z;
    if (!blocks || n.x > 0x7fffffff || n.y > 65535 || n.z > 65535 || !threads || t.x > 1024 || t.y > 1024 ||
        t.z > 64 || threads > 1024)
        return told(cudaErrorInvalidConfiguration);
    if (c->dynamicSmemBytes > (size_t)shared_allowed(f))
        return told(cudaErrorInvalidValue);
    log(c, f);
    now.threads = t;
    now.blocks = n;
    b.n = (int)threads;
    b.kernel = &kernel;
    b.function = f;
    b.reversed = number_of(current) % 2;
    b.shared = c->dynamicSmemBytes;
    b.warps.resize((size_t)(b.n + LANES - 1) / LANES);
    if (b.threads.size() < b.warps.size() * LANES)
        b.threads.resize(b.warps.size() * LANES);
    if (b.n_stacks < (size_t)b.n) {
        if (b.stacks)
            munmap(b.stacks, b.n_stacks * STACK);
        b.n_stacks = (size_t)b.n;
        b.stacks = reserve(b.n_stacks * STACK, MAP_NORESERVE);
    }
    if (!b.memory) {
        b.memory = reserve(SHARED, MAP_32BIT);
        memset(b.memory, RUBBISH, SHARED);
    }
    now.shared = b.memory + FRONT;
    for (uint64_t i = 0; i < blocks; i++) {
        now.block = {(unsigned)(i % n.x), (unsigned)(i / n.x % n.y), (unsigned)(i / n.x / n.y)};
        memset(now.shared, RUBBISH, b.shared);
        run_block();
        if (!is_rubbish(now.shared - EDGE, EDGE) || !is_rubbish(now.shared + b.shared, EDGE))
            die("a block wrote beyond its shared memory");
    }
    memset(now.shared, RUBBISH, b.shared);
    b.function = NULL;
    return cudaSuccess;
}

uint64_t tick()
{
    static thread_local uint64_t t;
    return t += 10;
}

/* Encodes a tensor map with the checks of CUDA's documentation; three dimensions without interleaving or swizzle
 * only. */
static CUresult encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base, const cuuint64_t *size,
                       const cuuint64_t *stride, const cuuint32_t *box, const cuuint32_t *step,
                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                       CUtensorMapFloatOOBfill fill)
{
    static const uint32_t BYTES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    if ((unsigned)type >= sizeof BYTES / sizeof *BYTES || rank != 3 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
        swizzle != CU_TENSOR_MAP_SWIZZLE_NONE || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    map_of m = {MAGIC, (char *)base, {}, {}, {}, BYTES[type]};
    bool right = (uintptr_t)map % 64 == 0 && base && (uintptr_t)base % 16 == 0 && box[0] * m.element % 16 == 0;
    uint64_t least = m.element;
    for (int i = 0; i < 3 && right; i++) {
        right = size[i] >= 1 && size[i] <= (uint64_t)1 << 32 && box[i] >= 1 && box[i] <= 256 && step[i] == 1;
        least *= size[i];
        if (i < 2) {
            right &= stride[i] % 16 == 0 && stride[i] < (uint64_t)1 << 40 && stride[i] >= least;
            least = m.stride[i] = stride[i];
        }
        m.size[i] = size[i];
        m.box[i] = box[i];
    }
    if (!right)
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map);
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

}

/* ---- the runtime ---- */

using namespace emulate;

struct CUevent_st {
    struct timespec t;
};

static cudaError_t allot(void **p, size_t bytes)
{
    const size_t all = bytes / 4096 * 4096 + 8192;
    *p = aligned_alloc(4096, all);
    if (!*p)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xcd, all);
    return cudaSuccess;
}

static cudaError_t copy(void *to, size_t to_row, const void *from, size_t from_row, size_t bytes, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        memmove((char *)to + i * to_row, (const char *)from + i * from_row, bytes);
    return cudaSuccess;
}

extern "C" {

cudaError_t cudaGetDeviceCount(int *n)
{
    const char *given = getenv("EMULATED_DEVICES");
    *n = given ? atoi(given) : 2;
    capability(); /* validates EMULATED_CAPABILITY */
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated device %d", number_of(device));
    p->major = capability();
    p->multiProcessorCount = 1;
    p->sharedMemPerBlockOptin = (size_t)shared_most();
    p->uuid.bytes[0] = (char)(number_of(device) + 1);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int)
{
    *value = which == cudaDevAttrMaxSharedMemoryPerBlockOptin ? shared_most()
             : which == cudaDevAttrMultiProcessorCount        ? 1
             : which == cudaDevAttrClockRate                  ? 200000000 /* kHz: plans as for real devices */
             : which == cudaDevAttrComputeCapabilityMajor     ? capability()
                                                              : 0;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = (size_t)1 << 30;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = last;
    last = cudaSuccess;
    return e;
}
const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorInvalidConfiguration ? "invalid configuration of a launch on the emulated device"
           : e == cudaErrorInvalidValue       ? "invalid argument, says the emulated device"
                                              : "of the emulated device";
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned, unsigned long long,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    const bool known = capability() == 9 && !strcmp(name, "cuTensorMapEncodeTiled");
    *f = known ? (void *)encode : NULL;
    *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    static std::atomic<int> calls;
    const char *const given = getenv("EMULATED_FULL");
    return given && ++calls == atoi(given) ? last = cudaErrorMemoryAllocation : allot(p, bytes);
}
cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned) { return allot(p, bytes); }
cudaError_t cudaFreeHost(void *p) { return cudaFree(p); }
cudaError_t cudaHostRegister(void *, size_t, unsigned) { return cudaErrorNotSupported; }
cudaError_t cudaHostUnregister(void *) { return cudaErrorInvalidValue; }

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind)
{
    return copy(to, 0, from, 0, bytes, 1);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind, cudaStream_t)
{
    return copy(to, 0, from, 0, bytes, 1);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_row, const void *from, size_t from_row, size_t bytes, size_t rows,
                              enum cudaMemcpyKind, cudaStream_t)
{
    return copy(to, to_row, from, from_row, bytes, rows);
}
cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t)
{
    for (size_t z = 0; z < p->extent.depth; z++) {
        const cudaPitchedPtr to = p->dstPtr, from = p->srcPtr;
        copy((char *)to.ptr + ((p->dstPos.z + z) * to.ysize + p->dstPos.y) * to.pitch + p->dstPos.x, to.pitch,
             (char *)from.ptr + ((p->srcPos.z + z) * from.ysize + p->srcPos.y) * from.pitch + p->srcPos.x, from.pitch,
             p->extent.width, p->extent.height);
    }
    return cudaSuccess;
}
cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    memset(p, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t) { return cudaMemset(p, value, bytes); }
cudaError_t cudaMemset2DAsync(void *p, size_t row, int value, size_t bytes, size_t rows, cudaStream_t)
{
    for (size_t i = 0; i < rows; i++)
        memset((char *)p + i * row, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = (cudaStream_t)malloc(1);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) { return cudaFree(s); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    *e = (cudaEvent_t)calloc(1, sizeof(CUevent_st));
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { return cudaFree(e); }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t)
{
    clock_gettime(CLOCK_MONOTONIC, &e->t);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)(1e3 * (double)(to->t.tv_sec - from->t.tv_sec) + 1e-6 * (double)(to->t.tv_nsec - from->t.tv_nsec));
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f)
{
    memset(a, 0, sizeof *a);
    a->maxDynamicSharedSizeBytes = shared_allowed(f);
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute which, int value)
{
    if (which != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || value > shared_most())
        return told(cudaErrorInvalidValue);
    const std::lock_guard<std::mutex> hold(lock);
    allowed[{current, f}] = value;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *, int, size_t)
{
    *n = 1;
    return cudaSuccess;
}
}
