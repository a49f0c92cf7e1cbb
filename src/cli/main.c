/* fathom: finds the command and runs it. */
#include <cblas.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"

#define LEAST_STACK ((rlim_t)1 << 20) /* as base/thread.c gives threads */
#define OWN_STACK ((size_t)8 << 20)

static const struct cli_command commands[] = {
#define CLI_COMMAND(name, summary) {#name, summary, cli_##name},
#include "cli/commands.def"
#undef CLI_COMMAND
};
static const size_t n_commands = sizeof commands / sizeof *commands;

static void print_help(FILE *out) {
    fprintf(out, "Usage: fathom COMMAND [OPTION]...\n\n"
                 "Trains wide-and-deep recommender models on ordinary machines.\n\nCommands:\n");
    for (size_t i = 0; i < n_commands; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n'fathom COMMAND --help' explains a command; fathom --version prints the version.\n\n"
                 "Exit codes: 0 success, 1 failure, 2 wrong command line, 3 wrong configuration, 4 malformed\n"
                 "data, 5 unusable checkpoint, 6 not supported on this machine, 128 + N stopped by signal N.\n");
}

static int unknown_command(const char *name) {
    const char *names[sizeof commands / sizeof *commands];
    for (size_t i = 0; i < n_commands; i++)
        names[i] = commands[i].name;
    const char *near = fth_suggest(name, names, n_commands);
    fprintf(stderr, "fathom: there is no command '%s'", name);
    if (near)
        fprintf(stderr, "; did you mean '%s'?", near);
    fprintf(stderr, "\n'fathom --help' lists the commands\n");
    return CLI_USAGE;
}

static void log_line(void *ctx, int level, const char *line) {
    (void)ctx;
    cli_tell(level == 0 ? "warning: " : "", line);
}

/* Runs however the program ends (argp ends it after --help): data that could not be written is a failure,
 * not a silent loss. */
static void close_output(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    fprintf(stderr, "fathom: cannot write to standard output: %s\n", strerror(errno));
    _exit(cli_signal() == SIGHUP ? CLI_SIGNAL + SIGHUP : CLI_FAILURE); /* the terminal is gone, and was the reason to stop */
}

/* A file opened later must not take the place of a closed standard stream: what is printed would land in it.
 * Opened so that reading closed standard input and writing to closed standard output fail and are told. */
static void fill_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 1 ? O_RDONLY : O_WRONLY) != fd)
            _exit(CLI_FAILURE);
}

/* On a CPU that is younger than it OpenBLAS takes its oldest kernels (two_tower's softmax: a third as fast): it is told
 * which it can run. */
static int name_openblas_kernels(void) {
    if (getenv("OPENBLAS_CORETYPE") || strcmp(openblas_get_corename(), "Prescott") != 0 ||
        !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return 0;
    int avx512 = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512bw");
    return setenv("OPENBLAS_CORETYPE", avx512 ? "SkylakeX" : "Haswell", 1) == 0;
}

static int space_is_limited(void) {
    struct rlimit space, data;
    return getrlimit(RLIMIT_AS, &space) == 0 && getrlimit(RLIMIT_DATA, &data) == 0 &&
           (space.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY);
}

/* While it is loaded OpenBLAS starts a thread for every core, which are of no use to us, and each maps a buffer of
 * 128 MB. Where address space or data is limited, one that gets none tries again for ever, and the program's end waits
 * for it: then it is told to start none. */
static int spare_openblas_threads(void) {
    const char *threads = getenv("OPENBLAS_NUM_THREADS");
    return space_is_limited() && !(threads && strcmp(threads, "1") == 0) && setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0;
}

/* It reads both while it is loaded: the program begins anew. Where that fails, all is as before. */
static void restart_for_openblas(char **argv) {
    int threads = spare_openblas_threads(), kernels = name_openblas_kernels();
    if (threads || kernels)
        execv("/proc/self/exe", argv);
}

/* What was half written goes with a program that a signal ends. (Training has a handler of its own.) */
static void end_by_signal(int number) {
    fth_output_abandon();
    raise(number);
}

static void watch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction action = {.sa_handler = end_by_signal, .sa_flags = (int)SA_RESETHAND | SA_NODEFER}, before;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("fathom %s\n", fth_version());
        return CLI_OK;
    }
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(name, commands[i].name) == 0) {
            char title[64];
            snprintf(title, sizeof title, "fathom %s", name);
            argv[1] = title;
            return commands[i].run(argc - 1, argv + 1);
        }
    return unknown_command(name);
}

struct call {
    int argc, code;
    char **argv;
};

static void *call_main(void *arg) {
    struct call *call = arg;
    call->code = run(call->argc, call->argv);
    return NULL;
}

/* The stack takes its address space now, while there is some, where that is limited: later it would end the program
 * without a word. (A thread with a stack of its own has an allocator of its own, too, which wants 64 MB.) */
__attribute__((noinline)) static void grow_stack(void) {
    volatile char room[LEAST_STACK];
    for (size_t i = sizeof room; i > 0; i -= 1024)
        room[i - 1] = 0;
}

static void grow_stack_where_space_is_limited(void) {
    size_t room = 2 * (size_t)LEAST_STACK;
    void *free_space = space_is_limited() ? mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (free_space == MAP_FAILED)
        return;
    munmap(free_space, room);
    grow_stack();
}

/* Where the stack is limited to less than a matrix product of libxsmm takes (ulimit -s), on a thread that has another. */
static int run_with_stack(int argc, char **argv) {
    struct rlimit stack;
    struct call call = {.argc = argc, .argv = argv};
    pthread_attr_t attributes;
    pthread_t thread;
    int known = getrlimit(RLIMIT_STACK, &stack) == 0;
    if (known && stack.rlim_cur > 2 * LEAST_STACK)
        grow_stack_where_space_is_limited();
    if (!known || stack.rlim_cur >= LEAST_STACK || pthread_attr_init(&attributes) != 0)
        return run(argc, argv);
    int started = pthread_attr_setstacksize(&attributes, OWN_STACK) == 0 &&
                  pthread_create(&thread, &attributes, call_main, &call) == 0;
    pthread_attr_destroy(&attributes);
    if (!started)
        return run(argc, argv);
    pthread_join(thread, NULL);
    return call.code;
}

int main(int argc, char **argv) {
    fill_standard_streams();
    restart_for_openblas(argv);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failed write, which is told, not an end */
    watch_signals();
    atexit(close_output);
    argp_err_exit_status = CLI_USAGE;
    fth_log_to(log_line, NULL);
    return run_with_stack(argc, argv);
}
