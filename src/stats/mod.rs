//! Statistics of samples: pure, seeded, ignorant of NCCL.
