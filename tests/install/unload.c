/* A program that opens the shared library, uses it, closes it and goes on: its
 * threads and its handlers of fork and exit must outlive the closing. The
 * argument is the library. */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int (*MallocHost)(void** pointer, size_t bytes);

static int Use(const char* path) {
  void* block = NULL;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = NULL;
  MallocHost allocate = NULL;
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  symbol = dlsym(library, "pinringMallocHost");
  if (symbol == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  memcpy(&allocate, &symbol, sizeof symbol);
  printf("pinringMallocHost: %d\n", allocate(&block, 1 << 20));
  return dlclose(library);
}

int main(int count, char** arguments) {
  const struct timespec while_threads_run = {0, 50 * 1000 * 1000};
  int round = 0;
  int status = 0;
  pid_t child = 0;
  if (count != 2) return 2;
  for (round = 0; round < 3; ++round) {
    if (Use(arguments[1]) != 0) return 1;
    nanosleep(&while_threads_run, NULL);
  }
  if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) == NULL) {
    fprintf(stderr, "the library was unloaded\n");
    return 1;
  }
  fflush(stdout);
  child = fork();
  if (child == 0) _exit(0);
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    fprintf(stderr, "fork: %d\n", status);
    return 1;
  }
  return 0;
}
