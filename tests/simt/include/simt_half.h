/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simt_half.h - a type of 16 bits and a pair of it (included once for each)
 *
 * Arithmetic is that of float, rounded after each operation.
 */
struct SIMT_HALF_RAW {
    unsigned short x;
};

struct SIMT_HALF {
    /* not initialized, as in shared memory */
    SIMT_HALF() = default;
    SIMT_HALF(float f) : bits(SIMT_TO_BITS(f))
    {
    }
    SIMT_HALF(double d) : SIMT_HALF((float)d)
    {
    }
    SIMT_HALF(int i) : SIMT_HALF((float)i)
    {
    }
    SIMT_HALF(SIMT_HALF_RAW raw) : bits(raw.x)
    {
    }
    operator float() const
    {
        return SIMT_FROM_BITS(bits);
    }
    SIMT_HALF &operator+=(SIMT_HALF other)
    {
        return *this = SIMT_HALF((float)*this + (float)other);
    }
    SIMT_HALF &operator*=(SIMT_HALF other)
    {
        return *this = SIMT_HALF((float)*this * (float)other);
    }

  private:
    unsigned short bits;
};

struct alignas(4) SIMT_HALF2 {
    SIMT_HALF x, y;

    SIMT_HALF2() = default;
    SIMT_HALF2(SIMT_HALF low, SIMT_HALF high) : x(low), y(high)
    {
    }
};

static inline SIMT_HALF __low2half(SIMT_HALF2 v)
{
    return v.x;
}
static inline SIMT_HALF __high2half(SIMT_HALF2 v)
{
    return v.y;
}
static inline float __low2float(SIMT_HALF2 v)
{
    return (float)v.x;
}
static inline float __high2float(SIMT_HALF2 v)
{
    return (float)v.y;
}
static inline SIMT_HALF __hadd(SIMT_HALF a, SIMT_HALF b)
{
    return SIMT_HALF((float)a + (float)b);
}
static inline SIMT_HALF __hsub(SIMT_HALF a, SIMT_HALF b)
{
    return SIMT_HALF((float)a - (float)b);
}
static inline SIMT_HALF __hmul(SIMT_HALF a, SIMT_HALF b)
{
    return SIMT_HALF((float)a * (float)b);
}
static inline SIMT_HALF2 __hadd2(SIMT_HALF2 a, SIMT_HALF2 b)
{
    return SIMT_HALF2(__hadd(a.x, b.x), __hadd(a.y, b.y));
}
static inline SIMT_HALF2 __hmul2(SIMT_HALF2 a, SIMT_HALF2 b)
{
    return SIMT_HALF2(__hmul(a.x, b.x), __hmul(a.y, b.y));
}
static inline bool __hisnan(SIMT_HALF x)
{
    return isnan((float)x);
}

#undef SIMT_HALF
#undef SIMT_HALF2
#undef SIMT_HALF_RAW
#undef SIMT_TO_BITS
#undef SIMT_FROM_BITS
