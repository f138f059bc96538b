// One set of loops. Has no include guard: colour_kernels.c includes it once per instruction set, with SET, SET_NAME
// and FUSED (a * b + c, rounded once), MAP and MAP_RGB defined.

// Planes of a block of pixels, which the loops below can take in vectors.
static void SET(split)(uint8_t planes[3][BLOCK], const uint8_t *restrict rgb, size_t count) {
    for (size_t i = 0; i < count; i++) {
        planes[0][i] = rgb[3 * i];
        planes[1][i] = rgb[3 * i + 1];
        planes[2][i] = rgb[3 * i + 2];
    }
}

static void SET(join)(uint8_t *restrict rgb, uint8_t planes[3][BLOCK], size_t count) {
    for (size_t i = 0; i < count; i++) {
        rgb[3 * i] = planes[0][i];
        rgb[3 * i + 1] = planes[1][i];
        rgb[3 * i + 2] = planes[2][i];
    }
}

static inline float SET(level)(float r, float g, float b) {
    return (float)(int32_t)FUSED(b, 0.114f, FUSED(g, 0.587f, r * 0.2989f));
}

static void SET(grayscale)(uint8_t *rgb, size_t pixels) {
    uint8_t planes[3][BLOCK];
    for (size_t done = 0, count; done < pixels; done += count) {
        count = pixels - done < BLOCK ? pixels - done : BLOCK;
        SET(split)(planes, rgb + 3 * done, count);
        for (size_t i = 0; i < count; i++)
            planes[0][i] = (uint8_t)(int32_t)SET(level)(planes[0][i], planes[1][i], planes[2][i]);
        memcpy(planes[1], planes[0], count);
        memcpy(planes[2], planes[0], count);
        SET(join)(rgb + 3 * done, planes, count);
    }
}

static uint64_t SET(sum_levels)(const uint8_t *rgb, size_t pixels) {
    uint8_t planes[3][BLOCK];
    uint64_t sum = 0;
    for (size_t done = 0, count; done < pixels; done += count) {
        count = pixels - done < BLOCK ? pixels - done : BLOCK;
        SET(split)(planes, rgb + 3 * done, count);
        int32_t part = 0;
        for (size_t i = 0; i < count; i++)
            part += (int32_t)SET(level)(planes[0][i], planes[1][i], planes[2][i]);
        sum += (uint64_t)part;
    }
    return sum;
}

static inline uint8_t SET(blend)(float x, float y, float factor, float rest) {
    const float blended = FUSED(y, rest, x * factor);
    return (uint8_t)(int32_t)(blended < 0 ? 0 : blended > 255 ? 255 : blended);
}

static void SET(saturate)(uint8_t *rgb, size_t pixels, float factor, float rest) {
    uint8_t planes[3][BLOCK];
    for (size_t done = 0, count; done < pixels; done += count) {
        count = pixels - done < BLOCK ? pixels - done : BLOCK;
        SET(split)(planes, rgb + 3 * done, count);
        for (size_t i = 0; i < count; i++) {
            const float r = planes[0][i], g = planes[1][i], b = planes[2][i], level = SET(level)(r, g, b);
            planes[0][i] = SET(blend)(r, level, factor, rest);
            planes[1][i] = SET(blend)(g, level, factor, rest);
            planes[2][i] = SET(blend)(b, level, factor, rest);
        }
        SET(join)(rgb + 3 * done, planes, count);
    }
}

// From 0..1 to 0..255.
#define BYTE(value) ((uint8_t)(int32_t)((value)*255.999f))

// The hue's sector of the circle (6 is 0), and the four values that make up colours there: at the greatest, at the
// least, and on a falling and on a rising edge.
struct SET(wheel) {
    uint8_t sector[BLOCK], high[BLOCK], low[BLOCK], falling[BLOCK], rising[BLOCK];
};

static void SET(turn)(struct SET(wheel) * wheel, uint8_t planes[3][BLOCK], size_t count, float turn) {
    const float unit = 1.0f / 255.0f;
    for (size_t i = 0; i < count; i++) {
        const float r = planes[0][i] * unit, g = planes[1][i] * unit, b = planes[2][i] * unit;
        const float more = r > g ? r : g, less = r < g ? r : g;
        const float greatest = more > b ? more : b, least = less < b ? less : b, range = greatest - least;
        const float grey = range == 0 ? 1.0f : 0.0f; // avoids divisions by 0
        const float from_r = (greatest - r) / (range + grey), from_g = (greatest - g) / (range + grey),
                    from_b = (greatest - b) / (range + grey);
        const float is_r = greatest == r ? 1.0f : 0.0f, is_g = greatest == g ? 1.0f - is_r : 0.0f;
        const float sixths = (from_b - from_g) * is_r + (from_r + 2.0f - from_b) * is_g +
                             (from_g + 4.0f - from_r) * (1.0f - is_r - is_g);
        // Both fractions of a hue that is at least 0.
        const float above = sixths * (1.0f / 6.0f) + 1.0f;
        const float turned = above - (float)(int32_t)above + turn;
        const float below_one = turned - (float)(int32_t)turned;
        const float hue = (below_one + (below_one < 0 ? 1.0f : 0.0f)) * 6.0f;
        const float saturation = range / (grey == 0 ? greatest : 1.0f);
        const float sector = (float)(int32_t)hue, part = saturation * (hue - sector);
        const float rising = (part + (1.0f - saturation)) * greatest;
        wheel->sector[i] = (uint8_t)(int32_t)hue;
        wheel->high[i] = BYTE(greatest);
        wheel->low[i] = BYTE((1.0f - saturation) * greatest);
        wheel->falling[i] = BYTE((1.0f - part) * greatest);
        wheel->rising[i] = BYTE(rising < 1.0f ? rising : 1.0f);
    }
}

static void SET(colour)(uint8_t planes[3][BLOCK], const struct SET(wheel) * wheel, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint8_t sector = wheel->sector[i], v = wheel->high[i], p = wheel->low[i], q = wheel->falling[i],
                      t = wheel->rising[i];
        const uint8_t red = either(sector == 1, q, either(sector == 4, t, v));
        const uint8_t green = either(sector == 3, q, either((sector == 1) | (sector == 2), v, t));
        const uint8_t blue = either(sector == 5, q, either(sector == 2, t, v));
        planes[0][i] = either((sector == 2) | (sector == 3), p, red);
        planes[1][i] = either((sector == 4) | (sector == 5), p, green);
        planes[2][i] = either((sector < 2) | (sector == 6), p, blue);
    }
}
#undef BYTE

static void SET(hue)(uint8_t *rgb, size_t pixels, float turn) {
    uint8_t planes[3][BLOCK];
    struct SET(wheel) wheel;
    for (size_t done = 0, count; done < pixels; done += count) {
        count = pixels - done < BLOCK ? pixels - done : BLOCK;
        SET(split)(planes, rgb + 3 * done, count);
        SET(turn)(&wheel, planes, count, turn);
        SET(colour)(planes, &wheel, count);
        SET(join)(rgb + 3 * done, planes, count);
    }
}

#define LANES 192u // whole pixels and whole vectors

static void SET(range)(const uint8_t *values, size_t count, uint32_t channels, uint8_t least[3],
                       uint8_t greatest[3]) {
    uint8_t low[LANES], high[LANES];
    for (uint32_t i = 0; i < LANES; i++) {
        low[i] = least[i % channels];
        high[i] = greatest[i % channels];
    }
    size_t done = 0;
    for (; done + LANES <= count; done += LANES)
        for (uint32_t i = 0; i < LANES; i++) {
            const uint8_t value = values[done + i];
            low[i] = value < low[i] ? value : low[i];
            high[i] = value > high[i] ? value : high[i];
        }
    for (uint32_t i = 0; done + i < count; i++) {
        const uint8_t value = values[done + i];
        low[i] = value < low[i] ? value : low[i];
        high[i] = value > high[i] ? value : high[i];
    }
    for (uint32_t i = 0; i < LANES; i++) {
        least[i % channels] = low[i] < least[i % channels] ? low[i] : least[i % channels];
        greatest[i % channels] = high[i] > greatest[i % channels] ? high[i] : greatest[i % channels];
    }
}
#undef LANES

static void SET(sharpen)(uint8_t *restrict to, const uint8_t *restrict above, const uint8_t *restrict row,
                         const uint8_t *restrict below, size_t count, size_t channels, float rest) {
    for (size_t i = channels; i + channels < count; i++) {
        const uint16_t left = (uint16_t)(above[i - channels] + row[i - channels] + below[i - channels]);
        const uint16_t right = (uint16_t)(above[i + channels] + row[i + channels] + below[i + channels]);
        const uint16_t sum = (uint16_t)(left + right + above[i] + 5 * row[i] + below[i]);
        // Rounded; no thirteenth is half-way between two integers. Exact up to 13 * 255.
        const uint16_t mean = (uint16_t)((uint32_t)(uint16_t)(sum + 6) * 5042u >> 16);
        const float sharp = FUSED((float)(mean - row[i]), rest, (float)row[i]);
        to[i] = (uint8_t)(int32_t)(sharp < 0 ? 0 : sharp > 255 ? 255 : sharp);
    }
}

// To the nearest integer, ties to even, of what lies within -1..65535: adding 1.5 * 2^23 leaves no room for a
// fraction.
#define NEAREST(value) ((value) + 12582912.0f - 12582912.0f)

static void SET(locate)(int32_t *offsets, uint32_t begin, uint32_t count, const struct affine_row *row) {
    const struct affine_row line = *row;
    const float x_scale = line.width * 0.5f, y_scale = line.height * 0.5f;
    for (uint32_t i = 0; i < count; i++) {
        const float along = (float)(int32_t)(begin + i) + line.first;
        const float x = (along * line.x_by_x + line.x_by_y + line.x_offset + 1.0f) * x_scale - 0.5f;
        const float y = (along * line.y_by_x + line.y_by_y + line.y_offset + 1.0f) * y_scale - 0.5f;
        // Cut first: far outside is outside too.
        const float column = NEAREST(x < -1 ? -1 : x > line.width ? line.width : x);
        const float down = NEAREST(y < -1 ? -1 : y > line.height ? line.height : y);
        const int32_t inside = (column >= 0) & (column < line.width) & (down >= 0) & (down < line.height);
        const int32_t offset = (int32_t)down * line.stride + (int32_t)column * line.channels;
        offsets[i] = inside ? offset : AFFINE_OUTSIDE;
    }
}
#undef NEAREST

static const struct colour_kernels SET(set) = {
    .name = SET_NAME,
    .map = MAP,
    .map_rgb = MAP_RGB,
    .grayscale = SET(grayscale),
    .sum_levels = SET(sum_levels),
    .saturate = SET(saturate),
    .hue = SET(hue),
    .range = SET(range),
    .sharpen = SET(sharpen),
    .locate = SET(locate),
};

#undef SET
#undef SET_NAME
#undef FUSED
#undef MAP
#undef MAP_RGB
