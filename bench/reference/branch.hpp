#pragma once

// Let a rare case stay a branch. The compiler would make it a conditional move, and then each
// comparison waits for the one before; a branch that is guessed right waits for nothing.
inline void keep_branch(int& value) { asm volatile("" : "+r"(value)); }
