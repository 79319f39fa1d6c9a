/* SHA-1 (FIPS 180-4), by which scripts are named. */
#include "sim/model_int.h"

#include <stdio.h>

static uint32_t rotate(uint32_t x, unsigned by)
{
    return (x << by) | (x >> (32 - by));
}

static void add_block(uint32_t h[5], const unsigned char block[64])
{
    uint32_t w[80];
    for (size_t i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (size_t i = 16; i < 80; i++) {
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = h[0];
    uint32_t b = h[1];
    uint32_t c = h[2];
    uint32_t d = h[3];
    uint32_t e = h[4];
    for (size_t i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                              : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = rotate(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void model_sha1(hf__slice bytes, char hex[41])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                     0xc3d2e1f0};
    unsigned char block[128] = {0};
    size_t done = 0;
    for (; bytes.length - done >= 64; done += 64) {
        add_block(h, (const unsigned char *)bytes.data + done);
    }
    size_t rest = bytes.length - done;
    size_t size = rest < 56 ? 64 : 128;
    if (rest > 0) {
        memcpy(block, bytes.data + done, rest);
    }
    block[rest] = 0x80;
    for (size_t i = 0; i < 8; i++) {
        block[size - 1 - i] =
            (unsigned char)((uint64_t)bytes.length * 8 >> (8 * i));
    }
    for (size_t at = 0; at < size; at += 64) {
        add_block(h, block + at);
    }
    for (size_t i = 0; i < 5; i++) {
        (void)snprintf(hex + 8 * i, 9, "%08x", h[i]);
    }
}
