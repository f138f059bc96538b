// The smallest consumer: two epochs of a dataset, shuffled, in batches of 64, with a sum over the first field so that
// there is something to do.
//   cc example.c $(pkg-config --cflags --libs libfeed) -o example && ./example fashion-mnist
#include <stddef.h>
#include <stdio.h>

#include <feed.h>

static unsigned long long sum_of(const struct feed_array *array) {
    const unsigned char *bytes = array->data;
    unsigned long long sum = 0;
    for (size_t i = 0; i < array->bytes; i++)
        sum += bytes[i];
    return sum;
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: %s DATASET\n", arguments[0]);
        return 2;
    }
    struct feed_options options = {
        .dataset = arguments[1], .batch_size = 64, .shuffle = true, .seed = 7, .epochs = 2};
    struct feed *feed;
    struct feed_batch batch;
    unsigned long long samples = 0, sum = 0;

    int err = feed_open(&feed, &options);
    while (err >= 0 && (err = feed_next(feed, &batch, -1)) == 1) {
        samples += batch.count;
        sum += sum_of(&batch.field[0]);
        err = feed_batch_release(feed, &batch, NULL);
    }
    if (err < 0)
        fprintf(stderr, "%s: %s\n", arguments[0], feed_strerror(feed));
    else
        printf("%llu samples, the bytes of their first field add up to %llu\n", samples, sum);
    feed_close(feed);
    return err < 0;
}
