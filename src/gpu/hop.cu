// The source of hop.ptx, which is what ships: written by hand along these lines, so that no compiler is needed to build.

// Two of these, on two GPUs or on two streams of one, send a flag to and fro. A flag is written and read as NCCL's LL does it:
// by relaxed accesses of system scope, without a fence, since LL's flag travels in one word with its data.
//
// It never hangs a GPU: after `polls` looks in all it gives up, and what is in `done` is less than `exchanges`.
extern "C" __global__ void hop(const unsigned* poll, unsigned* write, unsigned* done, unsigned first, unsigned exchanges,
                               unsigned polls, unsigned starts) {
  unsigned made = 0;
  while (made < exchanges) {
    unsigned value = first + made + 1, seen;
    if (starts) asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(write), "r"(value) : "memory");
    for (;;) {
      asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(poll) : "memory");
      if (seen == value) break;
      if (--polls == 0) {
        *done = made;
        return;
      }
    }
    if (!starts) asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(write), "r"(value) : "memory");
    made++;
  }
  *done = made;
}

extern "C" __global__ void empty() {}
