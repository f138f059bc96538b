// A library with the names of nvJPEG's calls, each of which returns a number of its own: built as fake_nvjpeg.so, for
// test_nvjpeg.c.

#define CALL(name, number)                                                                                   \
    __attribute__((visibility("default"))) int name(void);                                                   \
    int name(void) {                                                                                         \
        return number;                                                                                       \
    }

CALL(nvjpegCreateEx, 1)
CALL(nvjpegDestroy, 2)
CALL(nvjpegGetHardwareDecoderInfo, 3)
CALL(nvjpegJpegStateCreate, 4)
CALL(nvjpegJpegStateDestroy, 5)
CALL(nvjpegDecodeParamsCreate, 6)
CALL(nvjpegDecodeParamsDestroy, 7)
CALL(nvjpegDecodeParamsSetOutputFormat, 8)
CALL(nvjpegDecodeParamsSetROI, 9)
CALL(nvjpegDecodeBatchedInitialize, 10)
CALL(nvjpegDecodeBatchedEx, 11)
