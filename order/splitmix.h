// One step of splitmix64: a bijection of 64-bit words in which every input bit reaches every output bit.
#ifndef FEEDD_ORDER_SPLITMIX_H
#define FEEDD_ORDER_SPLITMIX_H

#include <stdint.h>

static inline uint64_t splitmix64(uint64_t word) {
    word += 0x9e3779b97f4a7c15u;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

#endif
