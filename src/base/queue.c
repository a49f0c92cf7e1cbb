/* Bounded queue between threads: see base/thread.h. A ring of pointers under one mutex; items are whole
 * blocks and batches, so the lock is taken some hundred times a second and never spins. */
#include <pthread.h>

#include "base/memory.h"
#include "base/thread.h"

struct fth_queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_full, not_empty;
    uint32_t capacity, count, first;
    int closed;
    void **items; /* [capacity], a ring: the oldest at `first` */
};

fth_status fth_queue_create(uint32_t capacity, fth_queue **out, fth_error *err) {
    if (capacity < 1)
        return fth_fail(err, FTH_E_ARGUMENT, "a queue of capacity 0: at least 1 is needed");
    fth_queue *queue = fth_alloc(1, sizeof *queue);
    void **items = fth_alloc(capacity, sizeof *items);
    if (!queue || !items) {
        fth_free(queue);
        fth_free(items);
        return fth_fail(err, FTH_E_MEMORY, "no memory for a queue of %u items", capacity);
    }
    queue->capacity = capacity;
    queue->items = items;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->not_full, NULL);
    pthread_cond_init(&queue->not_empty, NULL);
    *out = queue;
    return FTH_OK;
}

void fth_queue_destroy(fth_queue *queue) {
    if (!queue)
        return;
    pthread_cond_destroy(&queue->not_empty);
    pthread_cond_destroy(&queue->not_full);
    pthread_mutex_destroy(&queue->mutex);
    fth_free(queue->items);
    fth_free(queue);
}

static int push(fth_queue *queue, void *item, int first) {
    pthread_mutex_lock(&queue->mutex);
    while (queue->count == queue->capacity && !queue->closed)
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    int taken = !queue->closed;
    if (taken) {
        if (first)
            queue->first = queue->first ? queue->first - 1 : queue->capacity - 1;
        queue->items[first ? queue->first : ((uint64_t)queue->first + queue->count) % queue->capacity] = item;
        queue->count++;
        pthread_cond_signal(&queue->not_empty);
    }
    pthread_mutex_unlock(&queue->mutex);
    return taken;
}

int fth_queue_push(fth_queue *queue, void *item) {
    return push(queue, item, 0);
}

int fth_queue_push_first(fth_queue *queue, void *item) {
    return push(queue, item, 1);
}

static int pop(fth_queue *queue, int wait, void **item) {
    pthread_mutex_lock(&queue->mutex);
    while (wait && queue->count == 0 && !queue->closed)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    int given = queue->count > 0;
    if (given) {
        *item = queue->items[queue->first];
        queue->first = queue->first + 1 == queue->capacity ? 0 : queue->first + 1;
        queue->count--;
        pthread_cond_signal(&queue->not_full);
    }
    pthread_mutex_unlock(&queue->mutex);
    return given;
}

int fth_queue_pop(fth_queue *queue, void **item) {
    return pop(queue, 1, item);
}

int fth_queue_try_pop(fth_queue *queue, void **item) {
    return pop(queue, 0, item);
}

void fth_queue_close(fth_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    queue->closed = 1;
    pthread_cond_broadcast(&queue->not_full);
    pthread_cond_broadcast(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}
