// What scatter.ptx does, in CUDA C++. The PTX is written by hand, so that no compiler is needed to build warpio; whoever
// changes one changes the other. To check the PTX: ptxas -arch=sm_70 scatter.ptx -o /dev/null

struct Row {
    unsigned long long from, to, len;
};

// Each block copies the rows whose number is its own modulo the number of blocks: from `source`, which may be pinned
// host memory, to `target`, in words of 16 bytes where both are aligned to them, else byte by byte.
extern "C" __global__ void warpio_scatter(unsigned char *target, const Row *table, const unsigned char *source,
                                          unsigned long long count) {
    for (unsigned long long row = blockIdx.x; row < count; row += gridDim.x) {
        const unsigned char *from = source + table[row].from;
        unsigned char *to = target + table[row].to;
        unsigned long long len = table[row].len, done = 0;
        if ((((unsigned long long)from | (unsigned long long)to) & 15) == 0) {
            done = len & ~15ull;
            for (unsigned long long at = threadIdx.x * 16ull; at < done; at += blockDim.x * 16ull)
                *(uint4 *)(to + at) = *(const uint4 *)(from + at);
        }
        for (unsigned long long at = done + threadIdx.x; at < len; at += blockDim.x)
            to[at] = from[at];
    }
}
